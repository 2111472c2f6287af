"""Pictures of the seed paper's figures as :mod:`benchmarks.paper` measures them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from benchmarks.rows import Row

_TICKS = (1.0, 1.2, 1.5, 2.0, 3.0, 5.0)
_STATED = 100.0
"""SNR m / (k d) from which the paper's text promises 1.2, for m of 10 k d and more."""

Curves = Mapping[str, Sequence[tuple[float, float]]]


def draw_paper(rows: Sequence[Row], path: Path) -> None:
    """Draw those of the three figures that were measured, with what the paper's text states."""
    figure = Figure(figsize=(17.0, 5.2), layout="constrained", facecolor="white")
    left, right, third = figure.subplots(1, 3)
    _draw_curves(left, collect(rows, "fig2 left", "median_relative_sse"), "SNR")
    left.set_title("Figure 2, left: m = 10 k d")
    _draw_area(figure, right, collect(rows, "fig2 right", "mean_relative_sse"))
    right.set_title("Figure 2, right: mean SSE over SNR and m / (k d)")
    _draw_curves(third, collect(rows, "fig3", "median_relative_sse"), "epsilon, n = 10^7")
    third.plot([1e-2], [1.2], "*", color="black", markersize=14, label="paper's text, L=1")
    third.set_title("Figure 3")
    for axes, place in ((left, {}), (third, {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)})):
        if axes.get_legend_handles_labels()[1]:
            axes.legend(frameon=False, fontsize=7, **place)
    figure.savefig(path, dpi=120, format="png")


def collect(rows: Sequence[Row], name: str, figure: str) -> dict[str, list[tuple[float, float]]]:
    """Return the points of each curve of a figure, in order."""
    curves: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        head, _, place = row.case.rpartition(" ")
        if row.figure == figure and head.startswith(f"{name} "):
            curve = head.removeprefix(f"{name} ")
            curves.setdefault(curve, []).append((float(place.partition("=")[2]), row.value))
    return {curve: sorted(points) for curve, points in curves.items()}


def _draw_curves(axes: Axes, curves: Curves, label: str) -> None:
    for i, (curve, points) in enumerate(curves.items()):
        x, y = zip(*points, strict=True)
        style = "--" if "cl-ompr" in curve or "L=" not in curve else "-"
        axes.plot(x, y, style, marker=".", color=colormaps["tab20"](i), label=curve)
    axes.axhline(1.2, color="grey", linewidth=0.5)
    axes.set(xscale="log", yscale="log", ylim=(0.98, 6.0), xlabel=label)
    axes.set_ylabel("SSE relative to k-means")
    axes.set_yticks(list(_TICKS), labels=[f"{tick:g}" for tick in _TICKS])
    axes.minorticks_off()


def _draw_area(figure: Figure, axes: Axes, curves: Curves) -> None:
    points = {
        float(curve.partition("m=")[2].removesuffix("kd")): dict(found)
        for curve, found in curves.items()
    }
    snrs = sorted({snr for found in points.values() for snr in found})
    axes.set(xscale="log", yscale="log", xlabel="SNR", ylabel="m / (k d)")
    if len(points) < 2 or len(snrs) < 2:
        return
    features = sorted(points)
    values = [[points[f].get(snr, np.nan) for snr in snrs] for f in features]
    image = axes.pcolormesh(
        snrs,
        features,
        np.array(values),
        shading="nearest",
        norm=LogNorm(1.0, 6.0),
        cmap="viridis_r",
    )
    bar = figure.colorbar(image, ax=axes)
    bar.set_ticks(list(_TICKS), labels=[f"{tick:g}" for tick in _TICKS])
    line = np.array(features)
    axes.plot(_STATED / line, line, color="black", label="paper: SNR m / (k d) = 100")
    axes.axhline(1.0, color="red", linestyle="--", linewidth=1, label="m = k d")
    axes.set_xlim(snrs[0], snrs[-1])
    axes.legend(fontsize=7, loc="upper right")
