"""Picture of the methods: quality over n epsilon for each set, what 1.2 costs, and fleets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.contenders import CONTENDERS, SKETCH
from benchmarks.rows import Row, find_crossing

_TICKS = (1.0, 1.2, 1.5, 2.0, 5.0, 10.0)
_TARGET = 1.2
_ACROSS = 3
_FEWEST = 4
"""Values of n epsilon of a set that says what 1.2 takes."""
_SHOWN = tuple(name for name in CONTENDERS if "alone" not in name and "hybrid" not in name)

Points = list[tuple[float, float]]
Curves = Mapping[str, Points]


def draw_methods(rows: Sequence[Row], path: Path) -> None:
    """Draw a panel for each set, one of what 1.2 costs, and one for each fleet."""
    sets = {
        name: curves
        for name, curves in collect_sets(rows, "median_relative_sse").items()
        # One point is in the tables.
        if any(len(points) > 1 for points in curves.values())
    }
    tails = collect_sets(rows, "p90_relative_sse")
    fleets = collect_fleets(rows)
    needs = find_needs(sets)
    n_panels = len(sets) + bool(needs) + len(fleets)
    down = max(1, -(-n_panels // _ACROSS))
    figure = Figure(figsize=(4.6 * _ACROSS, 3.6 * down + 1.2), layout="constrained")
    panels = figure.subplots(down, _ACROSS, squeeze=False).ravel()
    free = iter(panels)
    for name, curves in sets.items():
        _draw_set(next(free), name, curves, tails.get(name, {}))
    if needs:
        _draw_needs(next(free), needs)
    if sets:
        # Some methods run on some sets only.
        shown = {
            label: handle
            for axes in panels[: len(sets)]
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        names = [name for name in _SHOWN if name in shown]
        handles = [shown[name] for name in names]
        figure.legend(handles, names, loc="outside lower center", ncols=4, fontsize="small")
    for name, curves in fleets.items():
        _draw_fleet(next(free), name, curves)
    for axes in free:
        axes.set_axis_off()
    figure.savefig(path, dpi=110, format="png")


def collect_sets(rows: Sequence[Row], figure: str) -> dict[str, dict[str, Points]]:
    """Return the points of each method over n epsilon, by set of records in one place."""
    found: dict[str, dict[str, Points]] = {}
    for row in rows:
        case, _, name = row.case.rpartition(" ")
        source, _, n_epsilon = case.partition(" n_eps=")
        if row.figure == figure and name in _SHOWN and not source.startswith(("fleet", "local")):
            # Shapes for the choice alone, and those without a scale, would be twenty panels more.
            if "n=2e+04" in source or "no scale" in source:
                continue
            points = found.setdefault(source, {}).setdefault(name, [])
            points.append((float(n_epsilon), row.value))
    return {
        source: {name: sorted(points) for name, points in curves.items()}
        for source, curves in sorted(found.items())
    }


def collect_fleets(rows: Sequence[Row]) -> dict[str, dict[str, Points]]:
    """Return the points of each method over the number of devices, by set and n epsilon."""
    found: dict[str, dict[str, Points]] = {}
    for row in rows:
        case, _, name = row.case.rpartition(" ")
        head, _, size = case.partition(" L=")
        if row.figure == "median_relative_sse" and head.startswith("fleet "):
            points = found.setdefault(head.removeprefix("fleet "), {}).setdefault(name, [])
            points.append((float(size), row.value))
    return {
        head: {name: sorted(points) for name, points in curves.items()}
        for head, curves in sorted(found.items())
    }


def _draw_set(axes: Axes, name: str, curves: Curves, tails: Curves) -> None:
    for i, method in enumerate(_SHOWN):
        if method not in curves:
            continue
        style = "--" if "published" in method else "-"
        colour = "black" if method == SKETCH else colormaps["tab20"](i)
        x, y = np.array(curves[method]).T
        axes.plot(x, np.maximum(y, 1.0), style, color=colour, marker=".", label=method)
        high = np.array(tails.get(method, curves[method])).T[1]
        axes.plot(x, np.maximum(high, 1.0), style, color=colour, linewidth=0.5, alpha=0.5)
    _set_quality(axes, name, "n epsilon")


def find_needs(sets: Mapping[str, Curves]) -> dict[str, float]:
    """Return the median over sets of the n epsilon that 1.2 takes, where most sets reach it."""
    wide = [curves for curves in sets.values() if len(next(iter(curves.values()))) >= _FEWEST]
    needs: dict[str, float] = {}
    for method in _SHOWN:
        found = [find_crossing(curves[method], _TARGET) for curves in wide if method in curves]
        need = float(np.median([np.inf if each is None else each for each in found] or [np.inf]))
        if np.isfinite(need):
            needs[method] = need
    return dict(sorted(needs.items(), key=lambda each: each[1]))


def _draw_needs(axes: Axes, needs: Mapping[str, float]) -> None:
    axes.barh(list(needs), list(needs.values()), color="grey")
    axes.invert_yaxis()
    axes.set(xscale="log", title="n epsilon for 1.2, median over sets")
    axes.tick_params(labelsize="small")


def _draw_fleet(axes: Axes, name: str, curves: Curves) -> None:
    for method, points in curves.items():
        x, y = np.array(points).T
        axes.plot(x, np.maximum(y, 1.0), marker=".", label=method)
    _set_quality(axes, f"fleet: {name}", "devices")
    axes.legend(fontsize="small")


def _set_quality(axes: Axes, title: str, label: str) -> None:
    axes.axhline(_TARGET, color="grey", linewidth=0.5)
    axes.set(xscale="log", yscale="log", title=title, xlabel=label, ylim=(0.98, 12.0))
    axes.set_ylabel("SSE relative to k-means")
    axes.set_yticks(list(_TICKS), labels=[f"{tick:g}" for tick in _TICKS])
    axes.minorticks_off()
