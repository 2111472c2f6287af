"""Pictures of the benchmarks of quality."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.rows import Row
from sfumato.learning.estimate.snr import DEFAULT_SIGNAL_ENERGY

_BLUE, _ORANGE, _GREY = "#0072B2", "#D55E00", "#9AA0A6"
# Top of the picture, for bands without an upper end.
_NO_BOUND = 6.0


def collect(rows: Sequence[Row], *figures: str) -> dict[str, tuple[float, ...]]:
    """Return the values of some figures by case, for the cases that have them all."""
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        found.setdefault(row.case, {})[row.figure] = row.value
    return {
        case: tuple(values[figure] for figure in figures)
        for case, values in found.items()
        if all(figure in values for figure in figures)
    }


def draw_decoding(rows: Sequence[Row], path: Path) -> None:
    """Draw median and 90th percentile of relative SSE, and seconds, one line for each case."""
    cases = collect(rows, "median_relative_sse", "p90_relative_sse", "median_seconds")
    figure = Figure(figsize=(11.0, 1.6 + 0.3 * len(cases)), layout="constrained", facecolor="white")
    quality, seconds = figure.subplots(1, 2, sharey=True, gridspec_kw={"width_ratios": [3, 2]})
    lines = range(len(cases))
    medians, tails, times = zip(*cases.values(), strict=True) if cases else ((), (), ())
    quality.hlines(lines, medians, tails, color=_GREY, linewidth=2)
    quality.plot(medians, lines, "o", color=_BLUE, label="median")
    quality.plot(tails, lines, "|", color=_ORANGE, markersize=11, label="90th percentile")
    quality.axvline(1.0, color=_GREY, linewidth=1, linestyle=":")
    quality.set_xscale("log")
    quality.set_xlabel("SSE relative to k-means on the records")
    quality.set_yticks(list(lines), labels=list(cases))
    quality.invert_yaxis()
    quality.legend(frameon=False, loc="lower right")
    seconds.barh(list(lines), times, height=0.5, color=_BLUE)
    seconds.set_xscale("log")
    seconds.set_xlabel("seconds of one decode, one thread")
    figure.suptitle("Centroids from a sketch", fontweight="bold", x=0.01, ha="left")
    figure.savefig(path, dpi=130, format="png")


def draw_fleets(rows: Sequence[Row], path: Path) -> None:
    """Draw relative SSE over the number of sketches of the same records, split and whole."""
    cases = collect(rows, "median_relative_sse")
    figure = Figure(figsize=(7.5, 4.5), layout="constrained", facecolor="white")
    axes = figure.subplots()
    curves = {
        "whole": (_ORANGE, "all frequencies in every sketch"),
        "split": (_BLUE, "few frequencies in each sketch"),
    }
    for form, (colour, label) in curves.items():
        points = sorted(
            (float(name.split("L=")[1].split()[0]), quality)
            for name, (quality,) in cases.items()
            if "n=1e+06" in name and "alike" in name and name.endswith((f" {form}", " one"))
        )
        sizes, qualities = zip(*points, strict=True) if points else ((), ())
        axes.plot(sizes, qualities, "o-", color=colour, label=label)
    axes.axhline(1.0, color=_GREY, linewidth=1, linestyle=":")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("sketches that a million records are divided into")
    axes.set_ylabel("SSE relative to k-means on the records")
    ticks = [1.0, 1.2, 1.5, 2.0, 3.0, 5.0]
    axes.set_yticks(ticks, labels=[f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.legend(frameon=False)
    figure.suptitle("Many small sketches, pure epsilon 0.1", fontweight="bold", x=0.01, ha="left")
    figure.savefig(path, dpi=130, format="png")


def draw_utility(rows: Sequence[Row], places: Mapping[str, tuple[str, float]], path: Path) -> None:
    """Draw relative SSE against n epsilon: measured, predicted, and the seed paper's statement.

    Parameters
    ----------
    rows
        Rows of the benchmark; cases with an unknown name, or on no curve, are left out.
    places
        Name of a case to the name of its curve and n epsilon.
    path
        The PNG file.
    """
    measured = collect(rows, "median_relative_sse", "p90_relative_sse", "predicted_low")
    highs = collect(rows, "predicted_high")
    curves: dict[str, list[tuple[float, ...]]] = {}
    for case, values in measured.items():
        curve, n_epsilon = places.get(case, ("", 0.0))
        if curve:
            high = highs.get(case, (_NO_BOUND,))[0]
            curves.setdefault(curve, []).append((n_epsilon, *values, high))
    figure = Figure(figsize=(10.5, 6.0), layout="constrained", facecolor="white")
    axes = figure.subplots()
    for colour, (curve, points) in zip(_cycle(), curves.items(), strict=False):
        x, median, tail, low, ceiling = zip(*sorted(points), strict=True)
        axes.fill_between(x, low, ceiling, color=colour, alpha=0.1, linewidth=0)
        axes.vlines(x, low, ceiling, color=colour, alpha=0.15, linewidth=7)
        axes.plot(x, median, "o-", color=colour, label=curve)
        axes.vlines(x, median, tail, color=colour, linewidth=1)
    _draw_paper(axes)
    axes.set(xscale="log", yscale="log", ylim=(0.98, _find_top(measured)))
    axes.set_xlabel("n epsilon (all records times the epsilon of each)")
    axes.set_ylabel("SSE relative to k-means on the records")
    axes.set_yticks([1, 1.05, 1.2, 1.5, 2, 3, 5], labels=["1", "1.05", "1.2", "1.5", "2", "3", "5"])
    axes.minorticks_off()
    axes.legend(frameon=False, fontsize=8)
    figure.suptitle(
        "What privacy costs: measured (lines, up to the 90th percentile) and predicted (shaded)",
        fontweight="bold", x=0.01, ha="left",
    )  # fmt: skip
    figure.savefig(path, dpi=130, format="png")


def _find_top(measured: Mapping[str, tuple[float, ...]]) -> float:
    return max([_NO_BOUND, *(1.1 * tail for _, tail, _ in measured.values())])


def find_rule_budget(n_sketches: int, *, n_clusters: int = 10, n_dimensions: int = 10) -> float:
    """Find the n epsilon at which the seed paper's rule starts to promise a relative SSE of 1.2.

    With its m = 10 k d, Laplace noise and ``|z|^2 = 0.35``, SNR m / (k d) = 100 where
    ``V = 32 m^2 L / (n epsilon)^2`` is ``|z|^2 / 10``; sampling is neglected, as its n is 10^7.
    """
    m = 10 * n_clusters * n_dimensions
    return m * math.sqrt(32.0 * n_sketches * 10.0 / DEFAULT_SIGNAL_ENERGY)


def _draw_paper(axes: Axes) -> None:
    """Mark the seed paper's statements: its figure 3, and where its rule begins."""
    axes.plot([1e5], [1.2], "*", color="black", markersize=13, label="paper: 1.2 or less, L=1")
    for n_sketches, marker in ((1, ">"), (100, "D")):
        axes.plot(
            [find_rule_budget(n_sketches)], [1.2], marker, markersize=7, markerfacecolor="white",
            color="black", linestyle="none", label=f"paper's rule for 1.2 begins, L={n_sketches}",
        )  # fmt: skip


def _cycle() -> Iterator[str]:
    return cycle(("#D55E00", "#E69F00", "#0072B2", "#009E73", "#56B4E9", "#CC79A7"))
