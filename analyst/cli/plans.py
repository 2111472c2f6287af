"""``sfumato plan advise | new | show``."""

from __future__ import annotations

import json
import math
import sys
from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer

from analyst.cli.options import Json, create_console
from analyst.planning.advice import (
    advice_to_json,
    describe_law_choice,
    find_epsilon,
    print_advice,
)
from analyst.planning.explanation import explanation_to_json, predict_plan, print_explanation
from analyst.planning.files import (
    parse_delta,
    parse_epsilon,
    read_plan,
    read_spec,
    require_count,
    write_text,
)
from analyst.planning.questions import advise_on, ask_for_answers, format_spec
from learning.planning.outline import POSSIBLE_CLUSTERS, StudyOutline
from learning.planning.planner import Advice, advise, advise_for_unknown_clusters
from shared.command import SETTINGS, list_examples
from shared.errors import ConfigError, PlanError
from shared.plan import SketchPlan, find_cautions, plan_from_spec, plan_to_json
from shared.privacy import NEIGHBOURINGS
from shared.privacy.limits import find_level_cautions

DEFAULT_TARGET = 1.1
_MOST = 10**15
"""More records or devices than any study has; beyond it floats would lose whole numbers."""

app = typer.Typer(help="Make a plan from a short specification, or explain one.", **SETTINGS)


@app.command(
    "advise",
    epilog=list_examples(
        "sfumato plan advise --records 26000 --devices 3 --windows 4 \\",
        "    --dimensions 4 --clusters 5 --epsilon 1",
    ),
)
def _advise(
    records: Annotated[int, typer.Option(help="Records of all devices and windows together.")],
    devices: Annotated[int, typer.Option(help="Devices that send sketches.")],
    dimensions: Annotated[int, typer.Option(help="Columns of a record, d.")],
    clusters: Annotated[
        str, typer.Option(help='The largest number of clusters that may be wanted, or "unknown".')
    ],
    epsilon: Annotated[str, typer.Option(help='For each record, exact: "1", "0.1" or "1/10".')],
    delta: Annotated[str, typer.Option(help="0 for pure epsilon only.")] = "0",
    windows: Annotated[int, typer.Option(help="Windows that are decoded together.")] = 1,
    neighbouring: Annotated[
        str,
        typer.Option(
            help="replace-one hides the values of a record; add-remove-one that it is there at all."
        ),
    ] = NEIGHBOURINGS[0],
    target_sse: Annotated[
        float, typer.Option(help="Wanted SSE, relative to k-means on the raw records.")
    ] = DEFAULT_TARGET,
    bytes_are_scarce: Annotated[
        bool,
        typer.Option(
            "--bytes-are-scarce",
            help="Take the smallest sketch that meets the target, not the best quality.",
        ),
    ] = False,
    plot: Annotated[
        Path | None, typer.Option(help="Draw predicted quality into this PNG file.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Recommend a mechanism and a number of frequencies, before any data exist."""
    budget = parse_epsilon(epsilon, "--epsilon"), parse_delta(delta, "--delta")
    if not 1.0 < target_sse < math.inf:
        raise ConfigError(
            "must be a number above 1, which is k-means on the raw records",
            field="--target-sse",
            fix="use a value such as 1.1",
        )
    if neighbouring not in NEIGHBOURINGS:
        raise ConfigError(
            f"must be {' or '.join(NEIGHBOURINGS)}", field="--neighbouring", fix="leave it out"
        )
    is_secret = neighbouring == "add-remove-one"
    outline = StudyOutline(
        n_records=_require_records(records, devices, windows, may_be_empty=is_secret),
        neighbouring=neighbouring,
        n_sketches=devices * windows,
        n_dimensions=_require_option(dimensions, "--dimensions"),
        n_clusters=_read_clusters(clusters) or POSSIBLE_CLUSTERS[0],
        bytes_are_scarce=bytes_are_scarce,
    )
    _warn(
        find_level_cautions(
            epsilon=budget[0], delta=budget[1], n_records=records // (devices * windows)
        )
    )
    outline, advice = _advise_on(outline, budget, target_sse, known=_read_clusters(clusters))
    smallest = find_epsilon(outline, budget[1], target_sse)
    if plot is not None:
        _draw(outline, advice, plot)
    if as_json:
        print(json.dumps(advice_to_json(outline, advice, smallest), ensure_ascii=False))
        return
    print_advice(create_console(), outline, advice, smallest)


@app.command("new", epilog=list_examples("sfumato plan new deploy/demo/plan.toml -o plan.json"))
def _new(
    spec: Annotated[
        Path | None, typer.Argument(help="TOML file with the choices; without it, they are asked.")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write it here.")] = None,
) -> None:
    """Make a plan from a specification, or from answers, and print or write it as JSON.

    Without a specification the answers are written as one too, beside the plan.
    """
    if spec is None:
        _new_from_answers(output or Path("plan.json"))
        return
    plan = read_spec(spec)
    _warn(find_cautions(plan))
    text = _to_text(plan)
    if output is None:
        print(text, end="")
        return
    write_text(output, text)
    _say_next(output)


@app.command(
    "show",
    epilog=list_examples(
        "sfumato plan show plan.json --records 26000 --devices 3 --windows 4 --clusters 5"
    ),
)
def _show(
    path: Annotated[Path, typer.Argument(help="A plan (JSON) or a specification (TOML).")],
    records: Annotated[
        int | None, typer.Option(help="Records of all devices and windows together.")
    ] = None,
    devices: Annotated[int | None, typer.Option(help="Devices that send sketches.")] = None,
    clusters: Annotated[int | None, typer.Option(help="Clusters to look for, k.")] = None,
    windows: Annotated[int, typer.Option(help="Windows that are decoded together.")] = 1,
    as_json: Json = False,
) -> None:
    """Explain a plan: what it protects, what it does not, what it costs, what to expect."""
    plan = read_plan(path)
    given = {"--records": records, "--devices": devices, "--clusters": clusters}
    missing = [name for name, value in given.items() if value is None]
    prediction = None
    if records is not None and devices is not None and clusters is not None:
        prediction = predict_plan(
            plan,
            n_records=_require_records(records, devices, windows, may_be_empty=plan.releases_count),
            n_sketches=devices * windows,
            n_clusters=_require_option(clusters, "--clusters"),
        )
    elif len(missing) < len(given):
        raise ConfigError(
            "is needed to predict the quality", field=missing[0], fix=f"give {', '.join(given)}"
        )
    if as_json:
        print(json.dumps(explanation_to_json(plan, prediction), ensure_ascii=False))
        return
    print_explanation(create_console(), plan, prediction)


def _read_clusters(text: str) -> int | None:
    """Read a number of clusters; None if it is unknown."""
    if text.strip().lower() == "unknown":
        return None
    if not text.strip().isdigit():
        raise ConfigError(
            'must be a whole number, or "unknown"',
            field="--clusters",
            fix="give the largest number of clusters that may be wanted",
        )
    return _require_option(int(text), "--clusters")


def _advise_on(
    outline: StudyOutline, budget: tuple[Fraction, Fraction], target: float, *, known: int | None
) -> tuple[StudyOutline, Advice]:
    epsilon, delta = budget
    if known is None:
        return advise_for_unknown_clusters(outline, epsilon=epsilon, delta=delta, target_sse=target)
    return outline, advise(outline, epsilon=epsilon, delta=delta, target_sse=target)


def _new_from_answers(output: Path) -> None:
    spec_path = output.with_suffix(".toml")
    if spec_path == output:
        raise ConfigError(
            "is the name of the specification", field="--output", fix="end it with .json"
        )
    for path in (output, spec_path):
        # Before the questions: nobody should answer them for nothing.
        if path.exists():
            raise ConfigError("exists already", field=str(path), fix="choose another with -o")
    try:
        answers = ask_for_answers()
    except typer.Abort as error:
        raise ConfigError(
            "ended before the last question; nothing was written",
            field="answers",
            fix="answer every question, or pass a specification",
        ) from error
    answers, advice = advise_on(answers, DEFAULT_TARGET)
    spec = format_spec(answers, advice)
    plan = _plan_from_text(spec)
    _warn(find_cautions(plan))
    write_text(spec_path, spec, exclusive=True)
    write_text(output, _to_text(plan), exclusive=True)
    best = advice.recommended
    print(
        f"{best.mechanism}, {best.n_frequencies} frequencies, {plan.payload_bytes} bytes a sketch: "
        f"{best.band.describe()} from one window; {advice.cluster_range.describe()}",
        file=sys.stderr,
    )
    print(describe_law_choice(best), file=sys.stderr)
    print(f"wrote {spec_path}; sfumato plan show {output} explains it", file=sys.stderr)
    _say_next(output)


def _plan_from_text(spec: str) -> SketchPlan:
    import tomllib

    # Through the text, so that the two files cannot disagree.
    try:
        return plan_from_spec(tomllib.loads(spec))
    except tomllib.TOMLDecodeError as error:
        raise PlanError(f"could not be written as TOML: {error}", field="specification") from error


def _to_text(plan: SketchPlan) -> str:
    return json.dumps(plan_to_json(plan), indent=1, ensure_ascii=False) + "\n"


def _warn(cautions: tuple[str, ...]) -> None:
    # Beside the answer, which may be JSON that a program reads.
    for caution in cautions:
        print(f"warning: {caution}", file=sys.stderr)


def _say_next(output: Path) -> None:
    print(f"wrote {output}; publish it with: sfumato study create NAME {output}", file=sys.stderr)


def _draw(outline: StudyOutline, advice: Advice, path: Path) -> None:
    # matplotlib takes a second to import; only pictures need it.
    from analyst.planning.figures import plot_advice
    from analyst.plots import save_figure

    try:
        save_figure(plot_advice(outline, advice), path)
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", field="--plot") from error
    print(f"wrote {path}", file=sys.stderr)


def _require_records(records: int, devices: int, windows: int, *, may_be_empty: bool) -> int:
    _require_option(devices, "--devices")
    _require_option(windows, "--windows")
    if _require_option(records, "--records") < devices * windows and not may_be_empty:
        raise ConfigError(
            f"must be at least the number of sketches, {devices * windows}",
            field="--records",
            fix="count the records of all devices and windows together",
        )
    return records


def _require_option(value: int, name: str) -> int:
    if value > _MOST:
        raise ConfigError(f"must be at most {_MOST}", field=name, fix="use a smaller number")
    return require_count(value, name)
