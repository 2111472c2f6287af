"""Pictures of marginals: as they are, with the choices made from them, and beside later ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from sfumato.analyst.plots import COLOURS, Picture
from sfumato.learning.calibration.drift import BlockDrift, ColumnDrift
from sfumato.learning.calibration.words import describe_block
from sfumato.shared.core.logarithm import compress, expand
from sfumato.shared.wire.objects.statistics import BarBody, ColumnBody, HistogramBody, MarginalBody

Resolutions = Mapping[str, float | None]
"""r of the logarithmic scale by the name of a dimension, data units; None for a linear one."""

_BAND = 2.0
"""Standard deviations of noise on each side of a bar."""
_STANDS_OUT = 3.0
_SPANS_OCTAVES = 16.0
_PER_ROW = 3
_NARROW = 0.003
_ATOM = 0.05
_AROUND = 0.5
"""Margin on each side of a search box, in widths of it."""
_MOST_TICKS = 5
_READABLE, _WHOLE = (1e-3, 1e7), 1000.0
_HIGHEST, _STEP, _N_STEPS = 0.75, 0.12, 5
"""Heights of the shares of values beside each other, which take turns."""
_FIRST, _SECOND, _BAD = COLOURS[0], COLOURS[4], COLOURS[1]


@dataclass(frozen=True, kw_only=True)
class _Scale:
    """The scale of a panel; ticks show data units on every scale."""

    resolution: float | None

    def place(self, values: Sequence[float]) -> list[float]:
        """Return the places of values, data units."""
        array = np.asarray(values, dtype=np.float64)
        placed: list[float] = (
            array if self.resolution is None else compress(array, self.resolution)
        ).tolist()
        return placed

    def finish(self, panel: Axes, name: str, unit: str) -> None:
        """Label the axis."""
        ticks = self._choose_ticks(*panel.get_xlim())
        if len(ticks) > 1:
            panel.set_xticks(self.place(ticks), [show_value(tick) for tick in ticks])
        else:
            panel.xaxis.set_major_locator(MaxNLocator(_MOST_TICKS))
            panel.xaxis.set_major_formatter(FuncFormatter(self._label))
        words = ["" if unit == "1" else unit, "log scale" if self.resolution else ""]
        where = ", ".join(filter(None, words))
        panel.set_xlabel(f"{name} ({where})" if where else name)
        panel.spines[["top", "right"]].set_visible(False)

    def _choose_ticks(self, low: float, high: float) -> list[float]:
        """Choose round values of a logarithmic scale, powers of ten first; none of a linear one."""
        if self.resolution is None:
            return []
        ends = expand(np.array([low, high]), self.resolution)
        top = math.ceil(math.log10(max(*np.abs(ends), self.resolution)))
        powers = 10.0 ** np.arange(math.floor(math.log10(self.resolution)) - 1, top + 1)
        rounds = np.outer([2.0, 5.0, 1.0], powers)
        chosen: dict[float, float] = {}
        for tick in [0.0, *(sign * value for value in rounds.ravel()[::-1] for sign in (1, -1))]:
            (place,) = self.place([tick])
            gap = (high - low) / _MOST_TICKS
            if low <= place <= high and all(abs(place - x) >= gap for x in chosen.values()):
                chosen[tick] = place
        return sorted(chosen)

    def _label(self, place: float, _: object) -> str:
        if self.resolution is None:
            return show_value(place)
        return show_value(float(expand(np.array([place]), self.resolution)[0]))


def show_value(value: float) -> str:
    """Write a value with about four digits, without an exponent where it is readable so."""
    size = abs(value)
    if size and not _READABLE[0] <= size < _READABLE[1]:
        return f"{value:.3g}"
    return f"{value:,.0f}" if size >= _WHOLE else f"{value:.4g}"


def plot_histogram(answer: HistogramBody, *, resolutions: Resolutions, title: str) -> Figure:
    """Draw the marginals: bars with their noise, and the bounds of the median.

    A number is on its logarithmic scale where its records span many octaves on one side of zero.

    Parameters
    ----------
    answer
        What was read from a server or a sketch file.
    resolutions
        Resolutions of the dimensions.
    title
        Above the figure.
    """
    figure, panels = _open(len(answer.marginals), title)
    for panel, marginal in zip(panels, answer.marginals, strict=True):
        if marginal.levels:
            _draw_levels(panel, marginal)
            continue
        bars = _find_occupied(marginal.bars)
        low, high = sorted((abs(bars[0].lower), abs(bars[-1].upper)))
        has_sign = bars[0].lower > 0.0 or bars[-1].upper < 0.0
        is_long = has_sign and high > _SPANS_OCTAVES * low
        scale = _Scale(resolution=resolutions.get(marginal.name) if is_long else None)
        _draw_bars(panel, bars, scale)
        _draw_median(panel, marginal, scale)
        scale.finish(panel, marginal.name, marginal.unit)
        if marginal.missing > _BAND * marginal.error:
            panel.set_title(f"{marginal.missing:.1%} without a value", fontsize=9)
    return figure


def plot_calibration(
    answer: HistogramBody,
    columns: Sequence[ColumnBody],
    *,
    search_box: Mapping[str, Sequence[float]],
    bounds: Mapping[str, Sequence[float]],
    title: str,
) -> Figure:
    """Draw what a main plan took from a pilot: marginals, bounds, search box and scale.

    Parameters
    ----------
    answer, columns
        The pilot's marginals, and its calibration.
    search_box, bounds
        Lower and upper bound by the name of each dimension that the plan keeps, data units.
    title
        Above the figure.
    """
    of_name = {each.name: each for each in columns}
    shown = [each for each in answer.marginals if each.levels or each.name in of_name]
    figure, panels = _open(len(shown), title)
    for panel, marginal in zip(panels, shown, strict=True):
        if marginal.levels:
            _draw_levels(panel, marginal)
            continue
        column = of_name[marginal.name]
        scale = _Scale(resolution=column.resolution)
        limits = scale.place(bounds.get(column.name, (column.lower, column.upper)))
        box = search_box.get(column.name, (column.search_lower, column.search_upper))
        searched = scale.place(box)
        # Bounds are so wide that the records would be a line between them.
        margin = _AROUND * (searched[1] - searched[0])
        view = [max(limits[0], searched[0] - margin), min(limits[1], searched[1] + margin)]
        _draw_bars(panel, marginal.bars, scale, view=view)
        panel.set_xlim(*view)
        if column.is_kept:
            panel.axvspan(*searched, color=COLOURS[2], alpha=0.13)
            centre = scale.place([column.centre])[0]
            _mark(panel, [centre - column.scale / 2.0, centre + column.scale / 2.0], "scale")
        scale.finish(panel, column.name, column.unit)
        low, high = bounds.get(column.name, (column.lower, column.upper))
        words = f"bounds {show_value(low)} to {show_value(high)}; green: search box"
        panel.set_title(words if column.is_kept else "left out", fontsize=9)
    return figure


def plot_drift(
    drifts: Sequence[ColumnDrift],
    *,
    resolutions: Resolutions,
    units: Mapping[str, str],
    title: str,
) -> Figure:
    """Draw two pilots over each other: what noise and sampling explain, and what has moved.

    Parameters
    ----------
    drifts
        The comparison.
    resolutions, units
        Resolutions and units of the dimensions, by name.
    title
        Above the figure.
    """
    figure, panels = _open(len(drifts), title)
    for panel, drift in zip(panels, drifts, strict=True):
        if any(block.level is not None for block in drift.blocks):
            _draw_level_drift(panel, drift)
        else:
            scale = _Scale(resolution=resolutions[drift.name])
            _draw_bin_drift(panel, drift, scale)
            scale.finish(panel, drift.name, units[drift.name])
        words = "no drift stands out"
        if drift.has_moved:
            words = f"{drift.largest.change:+.1%} {describe_block(drift.largest)}"
        panel.set_title(words, fontsize=9)
    return figure


def _open(n_panels: int, title: str) -> tuple[Figure, list[Axes]]:
    n_columns = max(1, min(_PER_ROW, n_panels))
    n_rows = max(1, math.ceil(n_panels / n_columns))
    figure = Picture(figsize=(4.3 * n_columns, 3.2 * n_rows + 0.5))
    axes: list[Axes] = figure.subplots(n_rows, n_columns, squeeze=False).ravel().tolist()
    for unused in axes[n_panels:]:
        unused.set_visible(False)
    figure.suptitle(title, fontsize=13, fontweight="bold", x=0.01, ha="left")
    return figure, axes[:n_panels]


def _find_occupied(bars: Sequence[BarBody]) -> Sequence[BarBody]:
    """Return the bars between the outermost that stand out; all of them if none does."""
    seen = [i for i, bar in enumerate(bars) if bar.share > _STANDS_OUT * bar.error]
    return bars[seen[0] : seen[-1] + 1] if seen else bars


def _draw_bars(
    panel: Axes, bars: Sequence[BarBody], scale: _Scale, *, view: Sequence[float] | None = None
) -> None:
    """Draw bars whose areas are shares; one that the view cuts off keeps its density."""
    edges = np.array(scale.place([bars[0].lower, *(bar.upper for bar in bars)]))
    widths = np.maximum(np.diff(edges), np.finfo(float).tiny)
    heights = np.array([bar.share for bar in bars]) / widths
    bands = _BAND * np.array([bar.error for bar in bars]) / widths
    panel.stairs(heights, edges, fill=True, color=_FIRST, alpha=0.55)
    panel.stairs(
        heights + bands,
        edges,
        baseline=np.maximum(heights - bands, 0.0),
        fill=True,
        color="#222222",
        alpha=0.18,
    )
    low, high = (edges[0], edges[-1]) if view is None else view
    # A bar too narrow to be seen, such as one around zero, must not flatten the others.
    inside = (edges[1:] > low) & (edges[:-1] < high) & (widths > _NARROW * (high - low))
    top = float(np.max((heights + bands)[inside], initial=0.0))
    panel.set_ylim(0.0, 1.15 * top if top > 0.0 else 1.0)
    atoms = [
        (float(middle), bar.share)
        for bar, middle, is_seen in zip(bars, (edges[1:] + edges[:-1]) / 2.0, inside, strict=True)
        if not is_seen and low <= middle <= high and bar.share > _ATOM
    ]
    for i, (middle, share) in enumerate(atoms):
        _draw_atom(panel, middle, share, height=_HIGHEST - _STEP * (i % _N_STEPS))
    panel.set_yticks([])
    panel.set_ylabel("density; grey: noise")


def _draw_atom(panel: Axes, place: float, share: float, *, height: float) -> None:
    """Draw many records in a bar too narrow to be seen, such as zeros, with their share."""
    panel.axvline(place, color=_FIRST, linewidth=2.0)
    panel.annotate(
        f"{share:.0%}",
        (place, height * panel.get_ylim()[1]),
        xytext=(4, 0),
        textcoords="offset points",
        fontsize=8,
        color="#222222",
    )


def _draw_median(panel: Axes, marginal: MarginalBody, scale: _Scale) -> None:
    for quantile in marginal.quantiles:
        if quantile.share == 0.5 and quantile.low is not None and quantile.high is not None:
            _mark(panel, scale.place([quantile.low, quantile.high]), "median")


def _mark(panel: Axes, ends: Sequence[float], words: str) -> None:
    """Draw a length near the top, with its name."""
    height = 0.9 * panel.get_ylim()[1]
    panel.plot(ends, [height, height], color=_BAD, linewidth=3.0, solid_capstyle="butt")
    panel.annotate(
        words,
        (sum(ends) / 2.0, height),
        xytext=(0, 4),
        textcoords="offset points",
        ha="center",
        fontsize=8,
        color=_BAD,
    )


def _draw_levels(panel: Axes, marginal: MarginalBody) -> None:
    names = [*(each.level for each in marginal.levels), "other or none"]
    shares = [*(100 * each.share for each in marginal.levels), 100 * marginal.missing]
    errors = [*(each.error for each in marginal.levels), marginal.error]
    panel.barh(
        range(len(names)),
        shares,
        xerr=[100 * _BAND * error for error in errors],
        color=[_FIRST] * len(marginal.levels) + ["#9AA0A6"],
        alpha=0.7,
        height=0.6,
    )
    _finish_levels(panel, names, marginal.name)


def _finish_levels(panel: Axes, names: Sequence[str], name: str) -> None:
    size = max(2.0, min(9.0, 180.0 / len(names)))
    panel.set_yticks(range(len(names)), names, fontsize=size)
    panel.set_ylim(len(names) - 0.4, -0.6)
    panel.set_xlabel(f"{name}: share of the records (%)")
    panel.spines[["top", "right"]].set_visible(False)


def _draw_bin_drift(panel: Axes, drift: ColumnDrift, scale: _Scale) -> None:
    blocks = [each for each in drift.blocks if each.lower is not None and each.upper is not None]
    seen = [i for i, each in enumerate(blocks) if max(each.first, each.second) > each.limit]
    if seen:
        blocks = blocks[max(0, seen[0] - 1) : seen[-1] + 2]
    ends = [blocks[0].lower or 0.0, *(each.upper or 0.0 for each in blocks)]
    edges = scale.place(ends)
    first = np.array([each.first for each in blocks])
    limits = np.array([each.limit for each in blocks])
    panel.stairs(
        100 * (first + limits),
        edges,
        baseline=100 * np.maximum(first - limits, 0.0),
        fill=True,
        color=_FIRST,
        alpha=0.18,
    )
    panel.stairs(100 * first, edges, color=_FIRST, label="first; area: what noise explains")
    second = np.array([each.second for each in blocks])
    panel.stairs(100 * second, edges, color=_SECOND, linewidth=1.6, label="second")
    for block, (low, high) in zip(blocks, pairwise(edges), strict=True):
        if block.has_moved:
            panel.axvspan(low, high, color=_BAD, alpha=0.15)
    panel.set_ylim(0.0)
    panel.set_ylabel("share of the records (%)")
    panel.legend(loc="best", fontsize=7, frameon=False)


def _draw_level_drift(panel: Axes, drift: ColumnDrift) -> None:
    names = [each.level or "other or none" for each in drift.blocks]
    rows = np.arange(len(names))

    def draw(offset: float, shares: Sequence[float], blocks: Sequence[BlockDrift]) -> None:
        is_first = offset < 0.0
        panel.barh(
            rows + offset,
            [100 * share for share in shares],
            xerr=[100 * each.limit for each in blocks] if is_first else None,
            color=_FIRST if is_first else [_BAD if each.has_moved else _SECOND for each in blocks],
            height=0.36,
        )

    draw(-0.2, [each.first for each in drift.blocks], drift.blocks)
    draw(0.2, [each.second for each in drift.blocks], drift.blocks)
    _finish_levels(panel, names, drift.name)
