"""``sfumato plan advise | new | show | ranges``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from sfumato.analyst.cli.looks import app as looks
from sfumato.analyst.cli.options import (
    PLAN_HELP,
    Anyway,
    Json,
    create_console,
    print_answer,
    tabulate,
)
from sfumato.analyst.cli.pilots import app as calibrating
from sfumato.analyst.cli.sources import draw
from sfumato.analyst.levels import parse_delta, parse_epsilon
from sfumato.analyst.planning.advice import (
    advice_to_json,
    describe_law_choice,
    describe_reason,
    describe_unknown_clusters,
    print_advice,
    report_on,
)
from sfumato.analyst.planning.candidates import (
    describe_need,
    describe_promise,
    describe_selection,
)
from sfumato.analyst.planning.explanation import (
    describe_plan,
    explanation_to_json,
    find_limit_doubt,
    predict_study,
)
from sfumato.analyst.planning.files import parse_clusters, read_draft, read_spec, write_text
from sfumato.analyst.planning.questions import ask_for_answers, describe_ranges, ranges_to_json
from sfumato.analyst.planning.spec import format_spec
from sfumato.learning.planning.alternatives import Fleet, choose_parts, sum_outline
from sfumato.learning.planning.outline import POSSIBLE_CLUSTERS, TARGET_SSE, StudyOutline
from sfumato.learning.planning.planner import advise
from sfumato.learning.planning.remedies import doubt_advice, require_hope
from sfumato.shared.command import EXIT_REFUSED, SETTINGS, list_examples
from sfumato.shared.errors import ConfigError, PlanError
from sfumato.shared.plan import SketchPlan, find_cautions, plan_from_spec, plan_to_json
from sfumato.shared.plan.catalogue import find_ranges, list_ranges
from sfumato.shared.plan.rules import MOST_PARTS
from sfumato.shared.privacy.limits import find_level_cautions

_MOST = 10**15
"""More records or devices than any study has; beyond it floats would lose whole numbers."""

DevicesAlike = Annotated[
    bool,
    typer.Option(
        "--devices-alike",
        help="All devices hold the same kinds of records. Sketches may then be smaller.",
    ),
]

app = typer.Typer(help="Recommend, make and explain plans.", **SETTINGS)
app.add_typer(calibrating)
app.add_typer(looks)


def _count(name: str, text: str) -> Any:
    return typer.Option(name, min=1, max=_MOST, help=text)


@app.command(
    "advise",
    epilog=list_examples(
        "sfumato plan advise --records 26000 --devices 3 --windows 4 \\",
        "    --dimensions 4 --clusters 5 --epsilon 1",
        "sfumato plan advise --records 1000000 --devices 1000 \\",
        "    --dimensions 10 --clusters 10 --epsilon 0.1 --devices-alike",
    ),
)
def _advise(
    n_records: Annotated[int, _count("--records", "Records of all devices and windows together.")],
    devices: Annotated[int, _count("--devices", "Devices that send sketches.")],
    dimensions: Annotated[int, _count("--dimensions", "Columns of a record, d.")],
    clusters: Annotated[
        str, typer.Option(help='The largest number of clusters that may be wanted, or "unknown".')
    ],
    epsilon: Annotated[str, typer.Option(help='For each record, exact: "1", "0.1" or "1/10".')],
    delta: Annotated[str, typer.Option(help="Delta; 0 for pure epsilon only.")] = "0",
    windows: Annotated[int, _count("--windows", "Windows that are decoded together.")] = 1,
    neighbouring: Annotated[
        Literal["replace-one", "add-remove-one"],
        typer.Option(
            help="replace-one hides the values of a record; add-remove-one also its presence."
        ),
    ] = "replace-one",
    unit: Annotated[
        Literal["record", "device"],
        typer.Option(
            help="record protects each record; device all records of a device in a window, under "
            "replace-one and with windows by time."
        ),
    ] = "record",
    target_sse: Annotated[
        float, typer.Option(help="Wanted SSE, relative to k-means on the raw records.")
    ] = TARGET_SSE,
    bytes_are_scarce: Annotated[
        bool,
        typer.Option(
            "--bytes-are-scarce",
            help="Take the smallest sketch that meets the target, not the best quality.",
        ),
    ] = False,
    devices_alike: DevicesAlike = False,
    smallest_selection: Annotated[
        int | None,
        _count(
            "--smallest-selection",
            "Sketches in the smallest selection that you will decode, such as one window of some "
            "devices; all of them if left out.",
        ),
    ] = None,
    windows_by: Annotated[
        Literal["time", "count"],
        typer.Option(
            help="time: a window is a length of time; count: a number of records, which excludes "
            "phase reports."
        ),
    ] = "time",
    release: Annotated[
        Literal["local", "sum"],
        typer.Option(
            help="local: each device adds noise; sum: two servers, who must not work together, "
            "each add noise to the sum of a fleet."
        ),
    ] = "local",
    parts: Annotated[
        int | None,
        _count(
            "--parts",
            "With --release sum: batches among which the devices of a slot and label set are "
            "divided, so that one that lies is found, and a broken one spoils only its part; "
            "default: 5 for fleets that can bear the noise of each, otherwise 1.",
        ),
    ] = None,
    label_sets: Annotated[
        int | None,
        _count("--label-sets", "With --release sum: combinations of declared labels; default: 1."),
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw predicted quality, .png or .svg.")] = None,
    anyway: Anyway = False,
    as_json: Json = False,
) -> None:
    """Recommend a mechanism, frequencies, and how many each sketch carries. This needs no data.

    Where no answer could be trusted, the advice begins with "Do not run this", and the exit status
    is 2 without --anyway.
    """
    budget = parse_epsilon(epsilon, "--epsilon"), parse_delta(delta, "--delta")
    known = parse_clusters(clusters, "--clusters")
    outline = StudyOutline(
        n_records=n_records,
        neighbouring=neighbouring,
        n_sketches=devices * windows,
        n_dimensions=dimensions,
        n_clusters=known or POSSIBLE_CLUSTERS[0],
        bytes_are_scarce=bytes_are_scarce,
        devices_differ=not devices_alike,
        smallest_selection=smallest_selection,
        unit=unit,
        by_time=windows_by == "time",
    )
    n_groups = windows * (label_sets or 1)
    _require_parts(release, parts, label_sets)
    if parts is None and release == "sum":
        parts = choose_parts(
            outline, n_groups, epsilon=budget[0], delta=budget[1], target_sse=target_sse
        )
    fleet = Fleet(n_groups=n_groups, parts=parts or 1)
    if release == "sum":
        _require_reports(fleet, outline)
        outline = sum_outline(outline, fleet)
    advice = advise(
        outline,
        epsilon=budget[0],
        delta=budget[1],
        target_sse=target_sse,
        knows_clusters=known is not None,
    )
    _warn(
        find_level_cautions(
            epsilon=budget[0], delta=budget[1], n_records=n_records // outline.n_sketches
        )
    )
    report = report_on(advice, n_devices=devices, fleet=fleet)

    def make() -> Any:
        from sfumato.analyst.planning.figures import plot_advice

        return plot_advice(advice)

    draw(plot, make, option="--plot")
    if as_json:
        print(json.dumps(advice_to_json(report), ensure_ascii=False))
    else:
        print_advice(create_console(), report)
    if report.doubt is not None and not anyway:
        raise typer.Exit(EXIT_REFUSED)


def _require_parts(release: str, parts: int | None, label_sets: int | None) -> None:
    """Refuse parts without a secure sum, and too many."""
    for name, value in (("--parts", parts), ("--label-sets", label_sets)):
        if value is not None and release != "sum":
            raise ConfigError("needs --release sum", field=name, fix="add it, or leave this out")
    if parts is not None and parts > MOST_PARTS:
        raise ConfigError(
            f"must be at most {MOST_PARTS}",
            field="--parts",
            fix="use 1 for devices of your own, or 16 for phones",
        )


def _require_reports(fleet: Fleet, outline: StudyOutline) -> None:
    """Refuse batches without reports to add up."""
    if fleet.count_reports(outline) < 2:
        raise ConfigError(
            f"gives {fleet.n_batches:,} batches for {outline.n_sketches:,} sketches, and a "
            "batch needs two at least",
            field="--parts",
            fix="lower it, or --label-sets, or let each device add noise",
        )


@app.command("new", epilog=list_examples("sfumato plan new deploy/demo/plan.toml -o plan.json"))
def _new(
    spec: Annotated[
        Path | None,
        typer.Argument(metavar="SPEC", help="A specification (TOML); without it, you are asked."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File for the plan.")
    ] = None,
    windows: Annotated[
        int | None, _count("--windows", "Windows that are decoded together; default: 1.")
    ] = None,
    anyway: Anyway = False,
) -> None:
    """Make a plan from a specification or from answers.

    It is printed as JSON, or written to a file. Answers are written as a specification too, beside
    the plan. Usual ranges of common sensors are offered as answers. A plan whose answers could not
    be trusted is refused without --anyway.
    """
    if spec is None:
        _new_from_answers(output or Path("plan.json"), n_windows=windows or 1, anyway=anyway)
        return
    if windows is not None:
        raise ConfigError(
            "cannot be combined with a specification, which states no records of a window",
            field="--windows",
            fix="leave it out, and see `sfumato plan show --records ... --windows ...`",
        )
    plan = read_spec(spec)
    require_hope(find_limit_doubt(plan), anyway=anyway)
    _warn(find_cautions(plan))
    text = _to_text(plan)
    if output is None:
        print(text, end="")
        return
    write_text(output, text)
    _say_next(output, plan)


@app.command(
    "show",
    epilog=list_examples(
        "sfumato plan show plan.json --records 26000 --devices 3 --windows 4 --clusters 5"
    ),
)
def _show(
    path: Annotated[Path, typer.Argument(metavar="PLAN", help=PLAN_HELP)],
    n_records: Annotated[
        int | None, _count("--records", "Records of all devices and windows together.")
    ] = None,
    devices: Annotated[int | None, _count("--devices", "Devices that send sketches.")] = None,
    clusters: Annotated[int | None, _count("--clusters", "Number of clusters, k.")] = None,
    windows: Annotated[int, _count("--windows", "Windows that are decoded together.")] = 1,
    devices_alike: DevicesAlike = False,
    as_json: Json = False,
) -> None:
    """Explain a plan: protection, limits, costs and expected quality."""
    plan = read_draft(path)
    given = {"--records": n_records, "--devices": devices, "--clusters": clusters}
    missing = [name for name, value in given.items() if value is None]
    prediction = None
    if n_records is not None and devices is not None and clusters is not None:
        prediction = predict_study(
            plan,
            n_records=n_records,
            n_sketches=devices * windows,
            n_clusters=clusters,
            n_windows=windows,
            devices_differ=not devices_alike,
        )
    elif len(missing) < len(given):
        raise ConfigError(
            "is needed to predict the quality", field=missing[0], fix=f"give {', '.join(given)}"
        )
    described = [tabulate(describe_plan(plan, prediction))]
    print_answer(explanation_to_json(plan, prediction), described, as_json=as_json)


@app.command(
    "ranges",
    epilog=list_examples("sfumato plan ranges humidity", "sfumato plan ranges degC --json"),
)
def _ranges(
    word: Annotated[
        str | None,
        typer.Argument(metavar="WORD", help="A quantity, a column's name or a unit; default: all."),
    ] = None,
    as_json: Json = False,
) -> None:
    """List usual ranges of common sensors.

    They are public knowledge of physics and engineering, not read off any data.
    """
    found = list_ranges() if word is None else find_ranges(word)
    if not found:
        raise ConfigError(
            f"matches none of the usual ranges: {word!r}",
            field="WORD",
            fix="run `sfumato plan ranges` for all of them",
        )
    print_answer(ranges_to_json(found), describe_ranges(found), as_json=as_json)


def _new_from_answers(output: Path, *, n_windows: int, anyway: bool) -> None:
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
        answers = ask_for_answers(n_windows)
    except typer.Abort as error:
        raise ConfigError(
            "ended before the last question; nothing was written",
            field="answers",
            fix="answer every question, or pass a specification",
        ) from error
    advice = advise(
        answers.outline,
        epsilon=answers.epsilon,
        delta=answers.delta,
        target_sse=TARGET_SSE,
        knows_clusters=answers.knows_clusters,
    )
    outline, best = advice.outline, advice.recommended
    require_hope(doubt_advice(advice), anyway=anyway)
    spec = format_spec(answers, advice)
    plan = _plan_from_text(spec)
    _warn(find_cautions(plan))
    write_text(spec_path, spec, exclusive=True)
    write_text(output, _to_text(plan), exclusive=True)
    decoded = "one window" if n_windows == 1 else f"{n_windows:,} windows together"
    print(
        f"{best.mechanism}, {best.n_frequencies} frequencies, {plan.payload_bytes} bytes a sketch; "
        f"from {decoded} {best.band.describe()}; {advice.cluster_range.describe()}",
        file=sys.stderr,
    )
    if not answers.knows_clusters:
        print(describe_unknown_clusters(outline.n_clusters), file=sys.stderr)
    if reason := describe_reason(advice):
        selection = describe_selection(
            best.shortest_selection,
            n_devices=outline.n_sketches // n_windows,
            n_windows=n_windows,
        )
        print(f"{reason} Shortest selection: {selection}.", file=sys.stderr)
    if best.reports_phases:
        print(*describe_promise(outline, n_windows=n_windows), file=sys.stderr)
        print(describe_need(advice.reports_needed, n_windows=n_windows), file=sys.stderr)
    print(describe_law_choice(best), file=sys.stderr)
    print(f"wrote {spec_path}; sfumato plan show {output} explains it", file=sys.stderr)
    _say_next(output, plan)


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
    # Not on standard output, which may be JSON that a program reads.
    for caution in cautions:
        print(f"warning: {caution}", file=sys.stderr)


def _say_next(output: Path, plan: SketchPlan) -> None:
    if plan.sum_release is not None:
        print(
            f"wrote {output}, a draft; send it to the helper's operator, who runs: sfumato helper "
            f"accept {output} --name 'THEIR ORGANISATION' --out plan.json",
            file=sys.stderr,
        )
        return
    print(f"wrote {output}; publish it with: sfumato study create NAME {output}", file=sys.stderr)
