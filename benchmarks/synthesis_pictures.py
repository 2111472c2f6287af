"""Picture of synthetic records: errors of ranges over epsilon, and of item sets over their size."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

from matplotlib.figure import Figure, FigureBase

from benchmarks.rows import Row
from benchmarks.synthesis_page import LENGTHS, Found, collect
from benchmarks.synthesis_ways import SKETCH, WAYS

_FIGURES = {"relative_error": "uniform ends", "relative_error, whole bins": "whole bins"}
_ITEMS = "any_item_error, "
_TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10)


def draw_synthesis(rows: Sequence[Row], path: Path) -> None:
    """Draw a column of panels for each set, one panel for each kind of box; item sets below."""
    found = collect([row for row in rows if row.figure in _FIGURES])
    items = collect([row for row in rows if row.figure.startswith(_ITEMS)])
    sets = sorted({name for name, _ in found})
    figure = Figure(figsize=(4.4 * len(sets), 7.0 + 3.6 * bool(items)), layout="constrained")
    if items:
        above, below = figure.subfigures(2, 1, squeeze=False, height_ratios=(2, 1.1))[:, 0]
        _draw_ranges(above, found, sets)
        _draw_items(below, items)
    else:
        _draw_ranges(figure, found, sets)
    figure.savefig(path, dpi=110, format="png")


def _draw_ranges(figure: FigureBase, found: Found, sets: Sequence[str]) -> None:
    panels = figure.subplots(len(_FIGURES), len(sets), squeeze=False, sharey=True)
    for across, name in enumerate(sets):
        for down, (kind, words) in enumerate(_FIGURES.items()):
            axes = panels[down][across]
            for i, way in enumerate(WAYS):
                points = [
                    (float(Fraction(epsilon)), ways[way][kind].value)
                    for (each, epsilon), ways in found.items()
                    if each == name and kind in ways.get(way, {})
                ]
                if points:
                    x, y = zip(*points, strict=True)
                    colour = "black" if way == SKETCH else f"C{i}"
                    axes.plot(x, y, color=colour, marker="o", label=way)
            axes.set_title(f"{name}, {words}", fontsize="medium")
            axes.set(xscale="log", yscale="log", xlabel="epsilon")
            shown = sorted({epsilon for _, epsilon in found}, key=Fraction)
            axes.set_xticks([float(Fraction(epsilon)) for epsilon in shown], shown)
            axes.set_yticks(_TICKS, [f"{tick:g}" for tick in _TICKS])
            axes.minorticks_off()
            axes.grid(alpha=0.3)
        panels[0][across].set_xlabel("")
    for down in range(len(_FIGURES)):
        panels[down][0].set_ylabel("mean relative error")
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize="small")


def _draw_items(figure: FigureBase, items: Found) -> None:
    """Draw a panel for each set of items and epsilon."""
    panels = figure.subplots(1, len(items), squeeze=False, sharey=True)[0]
    names = sorted({way for ways in items.values() for way in ways})
    for axes, ((name, epsilon), ways) in zip(panels, items.items(), strict=True):
        for way, each in sorted(ways.items()):
            lengths = [length for length in LENGTHS if _ITEMS + length in each]
            errors = [each[_ITEMS + length].value for length in lengths]
            axes.plot(lengths, errors, color=f"C{names.index(way)}", marker="o", label=way)
        axes.set_title(f'{name}, "holds any item of a set", epsilon {epsilon}', fontsize="medium")
        axes.set(yscale="log", xlabel="size of sets: items, or parts of the largest record")
        axes.grid(alpha=0.3)
        axes.legend(fontsize="x-small")
    panels[0].set_ylabel("mean relative error")
