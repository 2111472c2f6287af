"""Page and picture of max cover, from the rows of :mod:`benchmarks.cover`.

Run as ``python -m benchmarks.cover_page ROWS... --page FILE [--plot FILE]``; ROWS are files of JSON
lines. ``--plot`` draws the same rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.cover import METHODS
from benchmarks.pages import describe_ends, list_table, name_origins, read_row, run_page
from benchmarks.rows import Row

_INTRODUCTION: Final = """\
# Max cover: many clusters of many columns

Measured on {date} by `python -m benchmarks.cover --json`, commit {commit}, on {machine}.
`python -m benchmarks.cover_page` writes this page from its rows.

Nguyen, Chaturvedi and Xu, *Differentially Private k-Means via Exponential Mechanism and Max Cover*
(AAAI 2021). The recipe is theirs: 50,000 records of 100 columns, from 64 clusters whose centres are
N(0, 25^2 I), every value clipped to [0, 100]. Figures are the mean squared distance of a record to
its centroid, means over {runs} seeds, with the deviation over seeds after a slash. All private
methods are (epsilon, n^-1.5) under add-remove-one, with exact noise.

* `published` has the constants and the averages of the paper.
* `cover` is `CoverKMeans`, in the cube of all values.
* `cover tight` states a ball of radius 200 around 10, as somebody would who knows that most values
  are small.
* `lloyd` and `one centre` are k-means and the mean of the records, without privacy. A method above
  `one centre` has found nothing.
"""
_ACCOUNTING: Final = "accounting"

Figures = Mapping[str, Mapping[str, Row]]
"""By case without a method, and method."""


def write_page(lines: Sequence[str], date: str, picture: str = "") -> str:
    """Write rows in JSON as a page of Markdown."""
    raw = [json.loads(line) for line in lines]
    rows = [read_row(line) for line in lines]
    costs, spreads, seconds = (
        collect(rows, figure)
        for figure in ("mean_squared_distance", "spread_over_seeds", "cpu_seconds")
    )
    head = _INTRODUCTION.format(
        date=date,
        **name_origins(raw),
        runs=describe_ends(row.runs for found in costs.values() for row in found.values()),
    )
    parts = [
        *([f"![Mean squared distance over k]({picture})\n"] if picture else []),
        *_list_costs("The recipe", "d=100 ", costs, spreads),
        *_list_costs("Images: MNIST, 60,000 of 784 pixels", "mnist ", costs, spreads),
        *_list_seconds(seconds),
        *_list_accounts(rows),
    ]
    return "\n".join([head, *parts]).rstrip() + "\n"


def collect(rows: Sequence[Row], figure: str) -> dict[str, dict[str, Row]]:
    """Return the rows of a figure by case, ``d=100 k=64 eps=1``, and method."""
    found: dict[str, dict[str, Row]] = {}
    for row in rows:
        if row.figure == figure:
            start = row.case.index("eps=")
            head, _, name = row.case[start:].partition(" ")
            found.setdefault(row.case[:start] + head, {})[name] = row
    return found


def _list_costs(title: str, start: str, costs: Figures, spreads: Figures) -> Iterator[str]:
    cases = [case for case in costs if case.startswith(start)]
    names = [name for name in METHODS if any(name in costs[case] for case in cases)]

    def show(case: str, name: str) -> str:
        if name not in costs[case]:
            return "-"
        spread = spreads.get(case, {}).get(name)
        tail = f"/{spread.value:,.0f}" if spread and spread.value >= 0.5 else ""
        return f"{costs[case][name].value:,.0f}{tail}"

    yield from list_table(
        title,
        "Mean squared distance / deviation over seeds.",
        ("case", *names),
        (
            f"| {case.removeprefix(start)} | {' | '.join(show(case, name) for name in names)} |"
            for case in cases
        ),
    )


def _list_seconds(seconds: Figures) -> Iterator[str]:
    names = [name for name in METHODS if any(name in found for found in seconds.values())]
    yield from list_table(
        "CPU seconds of a fit",
        "Medians.",
        ("case", *names),
        (
            f"| {case} | "
            + " | ".join(f"{found[name].value:.2f}" if name in found else "-" for name in names)
            + " |"
            for case, found in seconds.items()
        ),
    )


def _list_accounts(rows: Sequence[Row]) -> Iterator[str]:
    yield from list_table(
        "What a pick may cost",
        "Exponents of a pick: the larger, the more a private choice prefers a point that covers "
        "more. Ours is the tight bound for removal, `published` that of the paper, and "
        "`concentrated` counts every pick.",
        ("case", "figure", "value"),
        (
            f"| {row.case.removeprefix(_ACCOUNTING).strip()} | {row.figure.replace('_', ' ')} | "
            f"{row.value:.4f} |"
            for row in rows
            if row.case.startswith(_ACCOUNTING)
        ),
    )


def draw_cover(rows: Sequence[Row], path: Path) -> None:
    """Draw the mean squared distance over k at epsilon 1, one panel for each set."""
    # matplotlib takes a second to load.
    from matplotlib.figure import Figure  # noqa: PLC0415

    costs = collect(rows, "mean_squared_distance")
    sets = [
        (start, title)
        for start, title in (("d=100 ", "recipe, 100 columns"), ("mnist ", "MNIST, 784 pixels"))
        if any(case.startswith(start) for case in costs)
    ]
    figure = Figure(figsize=(6.0 * len(sets), 4.4), layout="constrained", facecolor="white")
    panels = figure.subplots(1, len(sets), squeeze=False).ravel()
    for axes, (start, title) in zip(panels, sets, strict=True):
        for name in METHODS:
            points = sorted(
                (int(case.partition("k=")[2].partition(" ")[0]), found[name].value)
                for case, found in costs.items()
                if case.startswith(start) and case.endswith("eps=1") and name in found
            )
            if points:
                style = "--" if name in ("lloyd", "one centre") else "-"
                axes.plot(*zip(*points, strict=True), style, marker=".", label=name)
        axes.set(xscale="log", yscale="log", title=f"{title}, epsilon = 1", xlabel="k")
        axes.set_ylabel("mean squared distance")
        ticks = sorted({float(x) for line in axes.get_lines() for x in np.ravel(line.get_xdata())})
        axes.set_xticks(ticks, labels=[f"{tick:g}" for tick in ticks])
        axes.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
        axes.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=110, format="png")


def _load_draw() -> Callable[[Sequence[Row], Path], None]:
    return draw_cover


if __name__ == "__main__":
    run_page("cover_page", write_page, _load_draw)
