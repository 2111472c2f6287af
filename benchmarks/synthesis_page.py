"""Page of synthetic records, from the rows of :mod:`benchmarks.synthesis`.

Run as ``python -m benchmarks.synthesis_page ROWS... --page FILE [--plot FILE]``; ROWS are files of
JSON lines. ``--plot`` draws the same rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Final

from benchmarks.pages import describe_ends, list_table, name_origins, read_row, run_page
from benchmarks.rows import Row
from benchmarks.synthesis_items import INDEPENDENT
from benchmarks.synthesis_ways import FLEETS, SKETCH, WAYS

_INTRODUCTION: Final = """\
# Synthetic records beside other methods

Measured on {date} by `python -m benchmarks.synthesis --json`, commit {commit}, on {machine}.
`python -m benchmarks.synthesis_page` writes this page from its rows. Figures are medians over
{runs} runs with fresh noise and fresh queries; cases without a row were not measured.

*Sketch and histograms* is what `synthesise` draws with a histogram study of the same records (7/10
of epsilon for the sketch, 3/10 for histograms of 512 bins), *sketch alone* without one. *MWEM* (T
rounds, a table of at most 65,536 cells, 1,000 training boxes) and the *pair tree* (Chow and Liu, 32
bins a column) are reference methods with exact noise; *independent columns* draws each column from
its own histogram with all of epsilon; *MomentMixture* is one Gaussian, and alone has a delta
(1e-6). One curator and add-remove-one, unless the page says so. [How to draw
them](../how-to/synthesis.md).
"""
_KINDS: Final = {"": "uniform ends", ", whole bins": "whole bins"}
_MEASURES: Final[Mapping[str, Callable[[float], str]]] = {
    "relative": lambda value: f"{value:.2f}",
    "absolute": lambda value: f"{value:.1%}",
}
LENGTHS: Final = ("1 to 3", "1/5", "2/5", "3/5", "4/5", "5/5")
_ITEM_SETS: Final = ("sparse", "mnist")

Case = tuple[str, str]
"""Set and epsilon."""
Found = Mapping[Case, Mapping[str, Mapping[str, Row]]]
"""Rows by case, way and figure."""


def collect(rows: Sequence[Row]) -> Found:
    """Return rows by set and epsilon, way, and figure."""
    found: dict[Case, dict[str, dict[str, Row]]] = {}
    for row in rows:
        name, epsilon, way = row.case.split(" ", 2)
        case = name, epsilon.removeprefix("eps=")
        found.setdefault(case, {}).setdefault(way, {})[row.figure] = row
    order = sorted(found, key=lambda case: (case[0], Fraction(case[1])))
    return {case: found[case] for case in order}


def write_page(lines: Sequence[str], date: str, picture: str = "") -> str:
    """Write rows in JSON as a page of Markdown."""
    rows, raw = [read_row(line) for line in lines], [json.loads(line) for line in lines]
    found = collect(rows)
    ranges = {case: ways for case, ways in found.items() if case[0] not in _ITEM_SETS}
    items = {case: ways for case, ways in found.items() if case[0] in _ITEM_SETS}
    head = _INTRODUCTION.format(
        date=date,
        **name_origins(raw),
        runs=describe_ends(row.runs for row in rows),
    )
    parts = [head, *_list_losses(ranges)]
    if picture:
        parts.append(
            "![Relative error of range queries over epsilon, and of sets of items over their size]"
            f"({picture})\n"
        )
    for kind, words in _KINDS.items():
        parts += _list_ranges(ranges, kind, words)
    parts += [
        *_list_fleets(ranges),
        *_list_items(items),
        *_list_correlations(ranges),
        *_list_stated(ranges),
        *_list_seconds(found),
    ]
    return "\n".join(parts) + "\n"


def _list_losses(ranges: Found) -> Iterator[str]:
    losses = []
    for (name, epsilon), ways in ranges.items():
        for measure, show in _MEASURES.items():
            for kind, words in _KINDS.items():
                figure = f"{measure}_error{kind}"
                ours = ways.get(SKETCH, {}).get(figure)
                for way in WAYS:
                    row = ways.get(way, {}).get(figure)
                    if ours is not None and row is not None and row.value < ours.value:
                        cells = (name, epsilon, words, measure, way, show(row.value))
                        line = f"| {' | '.join(cells)} | {show(ours.value)} |"
                        losses.append((row.value / ours.value, line))
    yield from list_table(
        "Where sketch and histograms lose",
        "Every case in which another way has a smaller mean error, the worst first: relative with "
        "a floor of 0.1 %, or absolute, as a share of all records.",
        ("set", "epsilon", "boxes", "error", "better", "its error", "sketch and histograms"),
        (line for _, line in sorted(losses)),
    )


def _list_ranges(ranges: Found, kind: str, words: str) -> Iterator[str]:
    listed = [way for way in WAYS if any(way in ways for ways in ranges.values())]

    def show(rows: Mapping[str, Row]) -> str:
        if f"relative_error{kind}" not in rows:
            return "-"
        relative, absolute = (
            rows[f"{each}_error{kind}"].value for each in ("relative", "absolute")
        )
        return f"{relative:.2f} ({absolute:.1%})"

    yield from list_table(
        f"Range queries, {words}",
        {
            "": "1,000 boxes over one to all columns with uniform ends: mean relative error with a "
            "floor of 0.1 %, and in brackets the mean error as a share of all records.",
            ", whole bins": "The same boxes, widened to whole bins, sixteen a column: what tables "
            "of bins answer without spreading a bin.",
        }[kind],
        ("set", "epsilon", *listed),
        (
            f"| {name} | {epsilon} | "
            + " | ".join(show(ways.get(way, {})) for way in listed)
            + " |"
            for (name, epsilon), ways in ranges.items()
        ),
    )


def _list_fleets(ranges: Found) -> Iterator[str]:
    def show(ways: Mapping[str, Mapping[str, Row]], way: str) -> str:
        rows = ways.get(way, {})
        figures = [rows.get(f"relative_error{kind}") for kind in _KINDS]
        return " / ".join("-" if row is None else f"{row.value:.2f}" for row in figures)

    yield from list_table(
        "Devices",
        "Records of L devices, each with a sketch and a histogram of its own and noise of its own: "
        "relative error, uniform ends / whole bins. Where a secure sum has one noise for all "
        "devices, L = 1 holds. The references need all records in one place.",
        (
            "set",
            "epsilon",
            "L = 1",
            *(way.rpartition(", ")[2].replace("=", " = ") for way in FLEETS),
        ),
        (
            f"| {name} | {epsilon} | "
            + " | ".join(show(ways, way) for way in (SKETCH, *FLEETS))
            + " |"
            for (name, epsilon), ways in ranges.items()
            if any(way in ways for way in FLEETS)
        ),
    )


def _list_items(items: Found) -> Iterator[str]:
    def show(rows: Mapping[str, Row], length: str) -> str:
        row = rows.get(f"any_item_error, {length}")
        return "-" if row is None else f"{row.value:.3f}"

    yield from list_table(
        "Sets of items",
        'Queries "holds any item of a set", on 60,000 images of 784 pixels and on 100,000 sparse '
        "records of 300 items (a published recipe): mean relative error by the size of the sets, "
        "uniform from 1 to 3, or from 1 to so many fifths of the largest record. Add-remove-one, "
        "delta 1e-5. Such queries depend on single items, so that *independent items*, with one "
        "noisy count each, are hard to beat. MWEM refuses: its table would have 2^300 cells. A "
        "sketch has no row: a decode of 300 columns was given up after five minutes.",
        ("set", "epsilon", "way", "runs", *LENGTHS),
        (
            f"| {name} | {epsilon} | {way} | {next(iter(rows.values())).runs} | "
            + " | ".join(show(rows, length) for length in LENGTHS)
            + " |"
            for (name, epsilon), ways in items.items()
            for way, rows in sorted(ways.items(), key=lambda each: each[0] == INDEPENDENT)
        ),
    )


def _list_correlations(ranges: Found) -> Iterator[str]:
    listed = [way for way in WAYS if any(way in ways for ways in ranges.values())]

    def show(rows: Mapping[str, Row]) -> str:
        row = rows.get("correlation_error")
        return "-" if row is None else f"{row.value:.3f}"

    yield from list_table(
        "Correlations",
        "Mean absolute error of the correlations of all pairs of columns. One Gaussian of all "
        "records spends all of epsilon on means and covariances.",
        ("set", "epsilon", *listed),
        (
            f"| {name} | {epsilon} | "
            + " | ".join(show(ways.get(way, {})) for way in listed)
            + " |"
            for (name, epsilon), ways in ranges.items()
        ),
    )


def _list_stated(ranges: Found) -> Iterator[str]:
    def show(rows: Mapping[str, Row]) -> str:
        boxes = (rows.get(f"error_over_stated, columns={n}") for n in (1, 2, 3))
        each = (*boxes, rows.get("correlation_error_over_stated"))
        ratios = ["-" if row is None else f"{row.value:.2f}" for row in each]
        held = rows.get("correlations_within_twice")
        return " | ".join([*ratios, "-" if held is None else f"{held.value:.0%}"])

    yield from list_table(
        "Errors over those that the answer states",
        "Mean absolute error of boxes over one, two and three columns, over the stated one: 1 is "
        "right, and less is cautious. For correlations the same, and the share of pairs within "
        "twice the stated error. No error is stated for a doubtful decode.",
        (
            *("set", "epsilon", "way", "1 column", "2 columns", "3 columns"),
            *("correlations", "within twice"),
        ),
        (
            f"| {name} | {epsilon} | {way} | {show(rows)} |"
            for (name, epsilon), ways in ranges.items()
            for way, rows in ways.items()
            if "correlation_error_over_stated" in rows or "error_over_stated, columns=1" in rows
        ),
    )


def _list_seconds(found: Found) -> Iterator[str]:
    seconds: dict[tuple[str, str], list[float]] = {}
    for (name, _), ways in found.items():
        for way, rows in ways.items():
            if "cpu_s" in rows:
                seconds.setdefault((name, way), []).append(rows["cpu_s"].value)
    yield from list_table(
        "Seconds",
        "CPU seconds of one release and of drawing 20,000 records, the largest over epsilon.",
        ("set", "way", "seconds"),
        (f"| {name} | {way} | {max(each):.2g} |" for (name, way), each in seconds.items()),
    )


def _load_draw() -> Callable[[Sequence[Row], Path], None]:
    from benchmarks.synthesis_pictures import draw_synthesis  # noqa: PLC0415

    return draw_synthesis


if __name__ == "__main__":
    run_page("synthesis_page", write_page, _load_draw)
