"""Pictures of benchmarks, drawn from rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from benchmarks.contenders import CONTENDERS, SKETCH
from benchmarks.pages.tables import collect_curves, split_methods
from benchmarks.runner import Row, find_crossing

Points = Sequence[tuple[float, float]]
Curves = Mapping[str, Points]
_GREY: Final = "#9AA0A6"


def _draw_curves(axes: Axes, curves: Curves, style: Callable[[str], dict[str, Any]]) -> None:
    """Draw the points of each curve, with the look of its name."""
    for name, points in curves.items():
        if points:
            x, y = zip(*sorted(points), strict=True)
            axes.plot(x, y, **{"label": name, **style(name)})


def _set_quality(axes: Axes, label: str, ticks: Sequence[float], top: float | None = None) -> None:
    """Label both axes, logarithmic, for quality relative to k-means."""
    axes.set(xscale="log", yscale="log", xlabel=label, ylabel="SSE relative to k-means")
    axes.set_yticks(list(ticks), labels=[f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    if top is not None:
        axes.set_ylim(0.98, top)


def draw_fleets(rows: Sequence[Row]) -> Figure:
    """Draw relative SSE over the number of sketches of the same records, split and whole."""
    figure = Figure(figsize=(7.5, 4.5), layout="constrained", facecolor="white")
    axes = figure.subplots()
    found = [
        (float(row.case.split("L=")[1].split()[0]), row.case.rpartition(" ")[2], row.value)
        for row in rows
        if row.figure == "median_relative_sse" and "n=1e+06" in row.case and "alike" in row.case
    ]
    labels = {
        "whole": "all frequencies in every sketch",
        "split": "few frequencies in each sketch",
    }
    curves = {
        label: [(size, value) for size, name, value in found if name in (form, "one")]
        for form, label in labels.items()
    }
    colours = {labels["whole"]: "#D55E00", labels["split"]: "#0072B2"}
    _draw_curves(axes, curves, lambda name: {"marker": "o", "color": colours[name]})
    axes.axhline(1.0, color=_GREY, linewidth=1, linestyle=":")
    _set_quality(
        axes, "sketches that a million records are divided into", (1.0, 1.2, 1.5, 2.0, 3.0, 5.0)
    )
    axes.set_ylabel("SSE relative to k-means on the records")
    axes.legend(frameon=False)
    figure.suptitle("Many small sketches, pure epsilon 0.1", fontweight="bold", x=0.01, ha="left")
    return figure


# ---- the seed paper ----

_STATED: Final = 100.0
"""SNR m / (k d) from which the paper's text promises 1.2, for m of 10 k d and more."""
_PAPER_TICKS: Final = (1.0, 1.2, 1.5, 2.0, 3.0, 5.0)


def draw_paper(rows: Sequence[Row]) -> Figure:
    """Draw those of the three figures that were measured, with what the paper's text states."""
    figure = Figure(figsize=(17.0, 5.2), layout="constrained", facecolor="white")
    left, right, third = figure.subplots(1, 3)
    for axes, start, label in ((left, "fig2 left", "SNR"), (third, "fig3", "epsilon, n = 10^7")):
        curves = _list_points(rows, start, "median_relative_sse")
        colours = dict(zip(curves, map(colormaps["tab20"], range(len(curves))), strict=True))
        _draw_curves(
            axes,
            curves,
            lambda name, colours=colours: {  # type: ignore[misc]
                "linestyle": "--" if "cl-ompr" in name or "L=" not in name else "-",
                "marker": ".",
                "color": colours[name],
            },
        )
        axes.axhline(1.2, color="grey", linewidth=0.5)
        _set_quality(axes, label, _PAPER_TICKS, 6.0)
    left.set_title("Figure 2, left: m = 10 k d")
    _draw_area(figure, right, _list_points(rows, "fig2 right", "mean_relative_sse"))
    right.set_title("Figure 2, right: mean SSE over SNR and m / (k d)")
    third.plot([1e-2], [1.2], "*", color="black", markersize=14, label="paper's text, L=1")
    third.set_title("Figure 3")
    if left.get_legend_handles_labels()[1]:
        left.legend(frameon=False, fontsize=7)
    third.legend(frameon=False, fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def _list_points(rows: Sequence[Row], start: str, figure: str) -> dict[str, Points]:
    curves = collect_curves(rows, start, figure).items()
    return {name: sorted((x, row.value) for x, row in curve.items()) for name, curve in curves}


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
    values = np.array([[points[f].get(snr, np.nan) for snr in snrs] for f in features])
    look: dict[str, Any] = {"shading": "nearest", "norm": LogNorm(1.0, 6.0), "cmap": "viridis_r"}
    bar = figure.colorbar(axes.pcolormesh(snrs, features, values, **look), ax=axes)
    bar.set_ticks(list(_PAPER_TICKS), labels=[f"{tick:g}" for tick in _PAPER_TICKS])
    line = np.array(features)
    axes.plot(_STATED / line, line, color="black", label="paper: SNR m / (k d) = 100")
    axes.axhline(1.0, color="red", linestyle="--", linewidth=1, label="m = k d")
    axes.set_xlim(snrs[0], snrs[-1])
    axes.legend(fontsize=7, loc="upper right")


# ---- private k-means ----

_TARGET: Final = 1.2
_FEWEST: Final = 4
"""Values of n epsilon of a set that says what 1.2 takes."""
_ACROSS: Final = 3
_KMEANS: Final = tuple(name for name in CONTENDERS if "alone" not in name and "hybrid" not in name)
_KMEANS_TICKS: Final = (1.0, 1.2, 1.5, 2.0, 5.0, 10.0)


def draw_methods(rows: Sequence[Row]) -> Figure:
    """Draw a panel for each set, one of what 1.2 costs, and one for each fleet."""
    medians = _collect_sets(rows, "median_relative_sse")
    # One point is in the tables.
    sets = {n: own for n, own in medians.items() if any(len(each) > 1 for each in own.values())}
    tails, fleets, needs = (
        _collect_sets(rows, "p90_relative_sse"),
        _collect_fleets(rows),
        find_needs(sets),
    )
    n_panels = len(sets) + bool(needs) + len(fleets)
    down = max(1, -(-n_panels // _ACROSS))
    figure = Figure(figsize=(4.6 * _ACROSS, 3.6 * down + 1.2), layout="constrained")
    panels = figure.subplots(down, _ACROSS, squeeze=False).ravel()
    for axes in panels[n_panels:]:
        axes.set_axis_off()
    free = iter(panels)
    for name, curves in sets.items():
        axes = next(free)
        _draw_curves(axes, _raise(curves), _look_of_method)
        _draw_curves(axes, _raise(tails.get(name, {})), _look_of_tail)
        _finish_panel(axes, name, "n epsilon")
    if needs:
        axes = next(free)
        axes.barh(list(needs), list(needs.values()), color="grey")
        axes.invert_yaxis()
        axes.set(xscale="log", title="n epsilon for 1.2, median over sets")
        axes.tick_params(labelsize="small")
    _add_legend(figure, panels[: len(sets)])
    for name, curves in fleets.items():
        axes = next(free)
        _draw_curves(axes, _raise(curves), lambda _: {"marker": "."})
        _finish_panel(axes, f"fleet: {name}", "devices")
        axes.legend(fontsize="small")
    return figure


def _add_legend(figure: Figure, panels: Iterable[Axes]) -> None:
    """Name every method once, because some run on some sets only."""
    shown = {
        label: handle
        for axes in panels
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    names = [name for name in _KMEANS if name in shown]
    handles = [shown[name] for name in names]
    if names:
        figure.legend(handles, names, loc="outside lower center", ncols=4, fontsize="small")


def _raise(curves: Curves) -> dict[str, Points]:
    return {name: [(x, max(y, 1.0)) for x, y in points] for name, points in curves.items()}


def _look_of_method(name: str) -> dict[str, Any]:
    colour = "black" if name == SKETCH else colormaps["tab20"](_KMEANS.index(name))
    return {"linestyle": "--" if "published" in name else "-", "color": colour, "marker": "."}


def _look_of_tail(name: str) -> dict[str, Any]:
    thin = {"linewidth": 0.5, "alpha": 0.5, "marker": "", "label": "_"}
    return {**_look_of_method(name), **thin}


def _finish_panel(axes: Axes, title: str, label: str) -> None:
    axes.axhline(_TARGET, color="grey", linewidth=0.5)
    axes.set_title(title)
    _set_quality(axes, label, _KMEANS_TICKS, 12.0)


def _collect_sets(rows: Sequence[Row], figure: str) -> dict[str, dict[str, Points]]:
    """Return the points of each method over n epsilon, by set of records in one place."""
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    # Shapes for the choice alone, and those without a scale, would be twenty panels more.
    others = ("n=2e+04", "no scale")
    for case, methods in split_methods(row for row in rows if row.figure == figure).items():
        source, _, n_epsilon = case.partition(" n_eps=")
        for name in methods.keys() & set(_KMEANS):
            if not source.startswith(("fleet", "local")) and not any(o in source for o in others):
                points = found.setdefault(source, {}).setdefault(name, [])
                points.append((float(n_epsilon), methods[name][figure].value))
    return {
        source: {name: sorted(curves[name]) for name in _KMEANS if name in curves}
        for source, curves in sorted(found.items())
    }


def _collect_fleets(rows: Sequence[Row]) -> dict[str, dict[str, Points]]:
    """Return the points of each method over the number of devices, by set and n epsilon."""
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for row in rows:
        case, _, name = row.case.rpartition(" ")
        head, _, size = case.partition(" L=")
        if row.figure == "median_relative_sse" and head.startswith("fleet "):
            points = found.setdefault(head.removeprefix("fleet "), {}).setdefault(name, [])
            points.append((float(size), row.value))
    return {head: dict(curves) for head, curves in sorted(found.items())}


def find_needs(sets: Mapping[str, Curves]) -> dict[str, float]:
    """Return the median over sets of the n epsilon that 1.2 takes, where most sets reach it."""
    wide = [curves for curves in sets.values() if len(next(iter(curves.values()))) >= _FEWEST]
    needs: dict[str, float] = {}
    for method in _KMEANS:
        found = [find_crossing(curves[method], _TARGET) for curves in wide if method in curves]
        need = float(
            np.median([math.inf if each is None else each for each in found] or [math.inf])
        )
        if math.isfinite(need):
            needs[method] = need
    return dict(sorted(needs.items(), key=lambda each: each[1]))


_DRAWINGS: Final[Mapping[str, tuple[Callable[[Sequence[Row]], Figure], int]]] = {
    "fleets": (draw_fleets, 130),
    "methods": (draw_methods, 110),
    "paper": (draw_paper, 120),
}


def draw(name: str, rows: Sequence[Row], path: Path) -> None:
    """Draw the picture of a page into a PNG file."""
    make, dpi = _DRAWINGS[name]
    make(rows).savefig(path, dpi=dpi, format="png")
