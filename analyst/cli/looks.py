"""``sfumato plan look`` and ``sfumato look``: show a result's centroids to the devices again."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from sfumato.analyst.cli.options import DEFAULT_URL, Json, Url, make_table, show
from sfumato.analyst.cli.results import ResultReference
from sfumato.analyst.cli.sources import MaybeKey, PlanOfFile, Reference, open_sources
from sfumato.analyst.client import Client
from sfumato.analyst.levels import parse_delta, parse_epsilon
from sfumato.analyst.planning.files import write_text
from sfumato.analyst.planning.pilots import parse_columns
from sfumato.analyst.planning.spec import format_look
from sfumato.analyst.results import DecodeResult
from sfumato.analyst.results.looks import describe_look, show_measured
from sfumato.learning.answers.clusters import find_worse
from sfumato.learning.looks.design import Aim
from sfumato.learning.planning.looks import LookOutline, plan_look
from sfumato.shared.command import SETTINGS, list_examples
from sfumato.shared.errors import ConfigError
from sfumato.shared.plan import find_cautions
from sfumato.shared.wire.objects.looks import (
    LooksBody,
    MeasuredClusterBody,
    MeasuredClustersBody,
)

app = typer.Typer(**SETTINGS)
look = typer.Typer(**SETTINGS)

_MOST = 10**15
_TWICE = 2.0


@app.command(
    "look",
    epilog=list_examples(
        "sfumato plan look weather --epsilon 1 -o look.toml",
        "sfumato plan look result.json --measure --epsilon 0.2 --same-records --records 26000 \\",
        "    -o look.toml",
        'sfumato plan look weather --profile "visibility:mile:0..10" --epsilon 1 -o look.toml',
    ),
)
def _plan_look(
    result: ResultReference,
    epsilon: Annotated[
        str, typer.Option(help='Of the look for each record, exact: "1", "0.1" or "1/10".')
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="File for the specification.")],
    is_measured: Annotated[
        bool,
        typer.Option("--measure", help="Only numbers and spreads, with the least noise; no means."),
    ] = False,
    is_refined: Annotated[
        bool, typer.Option("--refine", help="The means of the result's columns too (default).")
    ] = False,
    profile: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMNS",
            help="The means of these columns too, which the result does not know: "
            "NAME:UNIT:LOWER..UPPER, between commas.",
        ),
    ] = None,
    candidates: Annotated[
        list[str] | None,
        typer.Option(
            "--candidate",
            metavar="RESULT",
            help="Another result of as many clusters, to be compared by its measured squared "
            "distance. Repeatable.",
        ),
    ] = None,
    delta: Annotated[str, typer.Option(help="Delta; 0 for pure epsilon only.")] = "0",
    same_records: Annotated[
        bool,
        typer.Option(
            "--same-records",
            help="The look reads the records that the result is of: its epsilon is added.",
        ),
    ] = False,
    records: Annotated[
        int | None,
        typer.Option(min=1, max=_MOST, help="Expected records; default: those of the result."),
    ] = None,
    sketches: Annotated[
        int | None,
        typer.Option(min=1, max=_MOST, help="Expected sketches; default: those of the result."),
    ] = None,
    per_sketch: Annotated[
        int | None,
        typer.Option(min=1, help="Clusters that a sketch carries, a divisor of all; default: all."),
    ] = None,
    key: MaybeKey = "",
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Plan a second look: devices count and sum their records around the result's centroids.

    What comes back is measured, with its error: the records of each cluster, their means and
    spreads, and what one more step of k-means would gain. How accurate it will be is printed first.
    """
    if is_measured + is_refined + bool(profile) > 1:
        raise ConfigError(
            "cannot be combined", field="--measure, --refine, --profile", fix="choose one"
        )
    aim: Aim = "measure" if is_measured else "profile" if profile else "refine"
    found = _find(result, key=key, url=url)
    outline = LookOutline(
        aim=aim,
        epsilon=parse_epsilon(epsilon, "--epsilon"),
        delta=parse_delta(delta, "--delta"),
        n_records=records,
        n_sketches=sketches,
        shares_records=same_records,
        columns=parse_columns(profile or [], "--profile"),
        clusters_per_sketch=per_sketch,
        candidates=tuple(_find(each, key=key, url=url).shown for each in candidates or []),
    )
    planned = plan_look(found.shown, outline)
    if as_json:
        print(json.dumps(asdict(planned.to_body()), ensure_ascii=False))
    write_text(output, format_look(planned), exclusive=True)
    for line in (
        *planned.describe(),
        *(f"warning: {text}" for text in find_cautions(planned.plan)),
        f"wrote {output}",
        f"next, with devices: sfumato study create NAME {output}",
        f"next, with a file: sfumato sketch FILE --plan {output} -o look.sketch",
        f"then: sfumato look NAME, or sfumato look look.sketch --plan {output}",
    ):
        print(line, file=sys.stderr)


def _find(reference: str, *, key: str, url: str) -> DecodeResult:
    if Path(reference).is_file():
        return DecodeResult.load(reference)
    with Client(url, key=key or None) as client:
        return client.find_result(reference)


@look.command(
    epilog=list_examples(
        "sfumato look weather-look",
        "sfumato look weather-look --result weather",
        "sfumato look look.sketch --plan look.toml --result result.json --json",
    )
)
def _look(
    source: Reference,
    plan: PlanOfFile = None,
    result: Annotated[
        str | None,
        typer.Option(
            help="The result that was looked at: its verdict counts too, and its predictions stand "
            "beside what was measured."
        ),
    ] = None,
    key: MaybeKey = "",
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Show what a second look measured: doubts first, then each cluster with its errors.

    Errors are twice the standard deviation of the noise. The verdict is the worse of the
    measurement's and, with --result, the first result's: a look sees neither merged clusters that
    hide behind a split one nor records beyond the cap.
    """
    with open_sources([source], plan, key=key, url=url) as (opened,):
        answer = opened.clusters()
    first = None if result is None else _find(result, key=key, url=url)
    if first is not None:
        _require_same(first, answer)
    word = answer.verdict.word
    verdict = word if first is None else find_worse(word, first.verdict or word)
    if as_json:
        document = asdict(answer)
        document["verdict_of_look"] = document["verdict"]
        document |= {"verdict": verdict, "first_verdict": first and first.verdict}
        print(json.dumps(document, ensure_ascii=False))
        return
    for part in _describe(answer, verdict, first):
        show(part)


def _require_same(first: DecodeResult, answer: MeasuredClustersBody) -> None:
    if first.identity.hex() != answer.result:
        raise ConfigError(
            "is another than the one that devices were shown",
            field="--result",
            fix="name the result that the look was planned from",
        )


def _describe(
    answer: MeasuredClustersBody, verdict: str, first: DecodeResult | None
) -> Iterator[object]:
    for doubt in answer.doubts:
        yield Text(f"Doubt: {doubt}.")
    if first is not None and verdict != answer.verdict.word:
        yield Text(f"Doubt: the first result is {verdict}: {first.reason}.")
    yield Text(f"{verdict}: measured with {show_measured(answer.n_records, ',.0f')} records")
    yield Text(answer.statement[0].upper() + answer.statement[1:] + ".")
    if answer.explained is not None:
        yield Text(f"The clusters explain {answer.explained:.1%} of the squared distances.")
    yield _tabulate(answer, first)
    for i, each in enumerate(answer.candidates[1:], start=1):
        yield Text(f"Candidate {i} has {show_measured(each, '.3f')} times the squared distance.")
    yield Text(answer.privacy.statement)


def describe_looks(taken: LooksBody) -> Iterator[Text]:
    """Yield what the looks of a result measured, and what its sketch alone predicts."""
    for i, each in enumerate(taken.looks, start=1):
        number = show_measured(each.n_records, ",.0f")
        yield Text(f"Look {i} measured {number} records: {'; '.join(describe_look(each))}.")
    shares = ", ".join(f"{share:.1%}" for share in taken.weights)
    verdict = "" if taken.predicted is None else f" and is {taken.predicted.word}"
    yield Text(f"The sketch alone predicts shares of {shares}{verdict}; {taken.cost}.")


def _tabulate(answer: MeasuredClustersBody, first: DecodeResult | None) -> Table:
    columns = ["share", *([] if first is None else ["predicted"])]
    if any(each.spread is not None for each in answer.clusters):
        columns.append("spread")
    for column in answer.summed:
        columns.append(
            f"mean of {column.name}" + ("" if column.unit == "1" else f" ({column.unit})")
        )
    table = make_table("cluster", figures=columns)
    for i, each in enumerate(answer.clusters):
        cells = [show_measured(each.share, ".1%")]
        if first is not None:
            cells.append(f"{first.weights[i]:.1%}")
        if "spread" in columns:
            cells.append("" if each.spread is None else show_measured(each.spread, ".2f"))
        cells += _show_means(each, len(answer.summed))
        table.add_row(str(i + 1), *cells, style="dim" if each.is_phantom else "")
    return table


def _show_means(cluster: MeasuredClusterBody, n_columns: int) -> list[str]:
    if cluster.mean is None or cluster.mean_error is None:
        return ["none"] * n_columns
    return [
        f"{mean:.5g} ± {_TWICE * error:.2g}"
        for mean, error in zip(cluster.mean, cluster.mean_error, strict=True)
    ]
