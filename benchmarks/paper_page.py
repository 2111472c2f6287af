"""Page of the seed paper's figures, from the rows of :mod:`benchmarks.paper`.

Run as ``python -m benchmarks.paper_page ROWS... --page FILE [--plot FILE]``; ROWS are files of JSON
lines. ``--plot`` draws the same rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from benchmarks.pages import list_table, name_origins, read_row, run_page
from benchmarks.rows import Row

_INTRODUCTION: Final = """\
# Figures 2 and 3 of the seed paper

Measured on {date} by `python -m benchmarks.paper --json`, commit {commit}, on {machine}.
`python -m benchmarks.paper_page` writes this page from its rows.

Schellekens, Chatalic, Houssiau, de Montjoye, Jacques and Gribonval, *Differentially Private
Compressive k-Means* (ICASSP 2019): mixtures of ten unit Gaussians in ten dimensions, and the SSE
relative to k-means on the records. `cl-ompr` is the paper's decoder with its frequencies, the best
of five replicates; the others are the mixture decoder with the planner's law of frequencies.
Figure 3 is at n = 10^7, for which 10^5 records at 100 epsilon stand: every method depends on
n and epsilon through their product, up to sampling errors. `control` has 10^7 records.

The paper's text gives these points of its figures, and no others; its grids and the parameters of
its curves can only be read off the pictures:

* at L = 1 the relative SSE is below 1.2 for epsilon above 0.01;
* with m of 10 k d and more it is below 1.2 where SNR m / (k d) is at least 100;
* it fails below m = k d.
"""


def write_page(lines: Sequence[str], date: str, picture: str = "") -> str:
    """Write rows in JSON as a page of Markdown."""
    raw = [json.loads(line) for line in lines]
    rows = [read_row(line) for line in lines]
    head = _INTRODUCTION.format(
        date=date,
        **name_origins(raw),
    )
    parts = [
        *([f"![The three figures]({picture})\n"] if picture else []),
        *_list_crossings(rows),
        *_list_curves(rows, "fig3", "Figure 3", "Median relative SSE over epsilon, at n = 10^7."),
        *_list_curves(
            rows,
            "fig2 right",
            "Figure 2, right",
            "Median relative SSE over the SNR, for m / (k d), with additive noise.",
        ),
        *_list_curves(
            rows,
            "fig2 left",
            "Figure 2, left",
            "Median relative SSE over the SNR at m = 10 k d, with masks that keep a share alpha of "
            "each record's features.",
        ),
    ]
    return "\n".join([head, *parts]).rstrip() + "\n"


def _list_crossings(rows: Sequence[Row]) -> Iterator[str]:
    yield from list_table(
        "Epsilon for a relative SSE of 1.2",
        "Where the median of a curve of Figure 3 falls below 1.2 for good. The paper states 0.01 "
        "for L = 1, with Laplace noise.",
        ("curve", "points", "epsilon"),
        (
            f"| {row.case.removeprefix('fig3 ')} | {row.runs} | {row.value:.2g} |"
            for row in rows
            if row.figure == "epsilon_for_1.2"
        ),
    )


def _list_curves(rows: Sequence[Row], figure: str, title: str, words: str) -> Iterator[str]:
    curves: dict[str, dict[float, Row]] = {}
    for row in rows:
        head, _, place = row.case.rpartition(" ")
        if row.figure == "median_relative_sse" and head.startswith(f"{figure} "):
            curve = curves.setdefault(head.removeprefix(f"{figure} "), {})
            curve[float(place.partition("=")[2])] = row
    places = sorted({place for curve in curves.values() for place in curve})
    yield from list_table(
        title,
        words,
        ("curve", "runs", *(f"{place:.2g}" for place in places)),
        (
            f"| {name} | {min(row.runs for row in curve.values())} | "
            + " | ".join(f"{curve[x].value:.2f}" if x in curve else "-" for x in places)
            + " |"
            for name, curve in curves.items()
        ),
    )


def _load_draw() -> Callable[[Sequence[Row], Path], None]:
    from benchmarks.paper_pictures import draw_paper  # noqa: PLC0415

    return draw_paper


if __name__ == "__main__":
    run_page("paper_page", write_page, _load_draw)
