"""Pictures of analyses: comparisons, timelines, groups, and the health of devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

import numpy as np
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from sfumato.analyst.plots import COLOURS, Picture
from sfumato.shared.arrays import Floats
from sfumato.shared.wire.objects.analyses import (
    AnswerBody,
    ChangeBody,
    ComparisonBody,
    DeviceHealthBody,
    DevicesBody,
    GroupsBody,
    TimelineBody,
    WindowBody,
    WindowClusterBody,
)
from sfumato.shared.wire.objects.answers import DimensionBody

_ALARM, _QUIET, _GREY = "#B2362E", "#9CBFD0", "#9AA0A6"
_MOST_DIMENSIONS = 6
_MOST_DEVICES = 20
_MOST_CHANGES = 40
_SURE = 0.05
_LONGEST_NAME = 28


def plot_comparison(body: ComparisonBody, *, title: str | None = None) -> Figure:
    """Draw the change of every quantity of every cluster, with two standard errors.

    What noise may have made is grey. Shares and variances are on a logarithmic scale.

    Parameters
    ----------
    title
        Above the figure; by default the answer in words.
    """
    changes = sorted(body.changes, key=lambda each: (not each.is_named, -abs(each.z)))
    shown = sorted(changes[:_MOST_CHANGES], key=lambda each: each.cluster)
    figure = Picture(figsize=(7.5, 1.4 + 0.27 * len(shown)))
    panel = figure.subplots()
    panel.axvline(0.0, color="#BBBBBB", linewidth=0.8)
    for i, change in enumerate(shown):
        colour = _colour_of(change.cluster) if change.is_named else _GREY
        panel.errorbar(
            change.estimate, i, xerr=2 * change.error, fmt="o", markersize=4, color=colour
        )
    panel.set_yticks(range(len(shown)), [_name_quantity(each) for each in shown], fontsize=8)
    for label, change in zip(panel.get_yticklabels(), shown, strict=True):
        label.set_color("#222222" if change.is_named else _GREY)
    panel.set_ylim(len(shown) - 0.4, -0.6)
    panel.set_xlabel("change, in standard deviations of the cluster; of shares, in logarithms")
    _clear(panel)
    return _entitle(figure, title or body.words[0])


def plot_timeline(body: TimelineBody, *, title: str | None = None) -> Figure:
    """Draw windows in time: how far each differs, and the clusters' shares and centres.

    A red bar is an alarm, a dashed line a lasting change, and a band one standard error.

    Parameters
    ----------
    title
        Above the figure; by default the answer in words.
    """
    dimensions = body.dimensions[:_MOST_DIMENSIONS]
    rows = 2 + len(dimensions)
    figure = Picture(figsize=(9.0, 1.2 + 1.7 * rows))
    panels = figure.subplots(
        rows,
        1,
        sharex=True,
        squeeze=False,
        gridspec_kw={"height_ratios": [1.3] + [1.0] * (rows - 1)},
    )[:, 0]
    _draw_sizes(panels[0], body)
    _draw_series(panels[1], body, lambda each: (each.weight, each.weight_error), scale=100.0)
    panels[1].set_ylabel("share (%)")
    panels[1].set_ylim(bottom=0.0)
    for i, (panel, dimension) in enumerate(zip(panels[2:], dimensions, strict=True)):
        _draw_series(panel, body, _pick_centre(i))
        panel.set_ylabel(_name_dimension(dimension), fontsize=8)
    for panel in panels:
        for point in body.change_points:
            panel.axvline(_time(point.start), color="#444444", linewidth=0.9, linestyle="--")
        _clear(panel)
    locator = AutoDateLocator()  # type: ignore[no-untyped-call]
    panels[-1].xaxis.set_major_locator(locator)
    panels[-1].xaxis.set_major_formatter(
        ConciseDateFormatter(locator)  # type: ignore[no-untyped-call]
    )
    panels[-1].set_xlabel("UTC")
    return _entitle(figure, title or body.words[0])


def plot_groups(body: GroupsBody, *, title: str | None = None) -> Figure:
    """Draw a map of groups, near ones being alike, and the differences of all pairs.

    A difference that noise explains is grey.

    Parameters
    ----------
    title
        Above the figure; by default the answer in words.
    """
    names = [_cut(value) for value in body.values]
    figure = Picture(figsize=(10.5, 4.8))
    chart, matrix = figure.subplots(1, 2)
    for i, place in enumerate(body.map):
        chart.plot(place.x, place.y, "o", color=_colour_of(i), markersize=9)
        chart.annotate(
            _cut(place.value), (place.x, place.y), xytext=(7, 5), textcoords="offset points"
        )
    chart.set_aspect("equal", adjustable="datalim")
    chart.margins(0.25)
    chart.set_xlabel("scales of the plan")
    chart.set_title("near groups are alike", fontsize=9)
    _clear(chart)
    sizes, p = np.array(body.sizes), np.array(body.p)
    drawn = np.where((p < _SURE) & ~np.eye(len(names), dtype=bool), sizes, np.nan)
    matrix.set_facecolor("#F2F2F2")
    largest = float(np.nanmax(drawn)) if np.isfinite(drawn).any() else 1.0
    matrix.imshow(drawn, cmap="Blues", vmin=0.0, vmax=max(largest, 1e-9))
    for (row, column), size in np.ndenumerate(sizes):
        if row != column:
            is_sure, is_dark = p[row, column] < _SURE, size > 0.6 * largest
            colour = _GREY if not is_sure else "white" if is_dark else "#222222"
            text = f"{size:.2f}\n± {body.errors[row][column]:.2f}"
            matrix.text(column, row, text, ha="center", va="center", fontsize=8, color=colour)
    matrix.set_xticks(range(len(names)), names, rotation=45, ha="right", fontsize=8)
    matrix.set_yticks(range(len(names)), names, fontsize=8)
    matrix.set_title("differences; grey: noise may explain it", fontsize=9)
    matrix.tick_params(length=0)
    return _entitle(figure, title or body.words[0])


def plot_devices(body: DevicesBody, *, title: str | None = None) -> Figure:
    """Draw how far the devices that are most unlike the rest differ from it.

    Parameters
    ----------
    title
        Above the figure; by default the answer in words.
    """
    shown = [each for each in body.devices if each.size is not None][:_MOST_DEVICES]
    figure = Picture(figsize=(7.5, 1.6 + 0.3 * len(shown)))
    panel = figure.subplots()
    for i, device in enumerate(shown):
        is_lit = any(vars(device.lamps).values())
        panel.barh(
            i,
            device.size or 0.0,
            xerr=device.size_error,
            color=_ALARM if is_lit else _QUIET,
            height=0.6,
            error_kw={"linewidth": 1.0},
        )
    panel.set_yticks(range(len(shown)), [_name_device(each) for each in shown], fontsize=8)
    panel.set_ylim(len(shown) - 0.4, -0.6)
    panel.set_xlim(left=0.0)
    panel.set_xlabel("difference from the rest, in scales of the plan")
    panel.legend(
        handles=[Patch(color=_ALARM, label="a lamp is lit"), Patch(color=_QUIET, label="no lamp")],
        fontsize=8,
        frameon=False,
    )
    _clear(panel)
    return _entitle(figure, title or body.words[0])


def plot_analysis(body: AnswerBody, *, title: str | None = None) -> Figure:
    """Draw an answer of any kind."""
    match body:
        case ComparisonBody():
            return plot_comparison(body, title=title)
        case TimelineBody():
            return plot_timeline(body, title=title)
        case GroupsBody():
            return plot_groups(body, title=title)
        case DevicesBody():
            return plot_devices(body, title=title)
    raise AssertionError(type(body))


def _draw_sizes(panel: Axes, body: TimelineBody) -> None:
    for window in body.windows:
        start, end = _time(window.start), _time(window.end)
        width = end - start
        if window.size is None:
            panel.axvspan(start, end, facecolor="#F2F2F2", edgecolor="none")
            continue
        panel.bar(
            start,
            window.size,
            width,
            align="edge",
            yerr=window.size_error,
            color=_ALARM if window.is_alarm else _QUIET,
            edgecolor="white",
            linewidth=0.4 if len(body.windows) > _MOST_CHANGES else 1.0,
            error_kw={"linewidth": 0.8, "ecolor": "#444444"},
        )
    panel.axhline(body.smallest_shift, color=_GREY, linewidth=0.9, linestyle=":")
    panel.set_ylim(bottom=0.0)
    panel.set_ylabel("difference from\nits reference", fontsize=8)
    panel.legend(
        handles=[Patch(color=_ALARM, label="alarm"), Patch(color=_QUIET, label="no alarm")],
        fontsize=8,
        frameon=False,
        loc="upper left",
        ncols=2,
    )


Value = Callable[[WindowClusterBody], tuple[float | None, float | None]]


def _pick_centre(number: int) -> Value:
    def pick(each: WindowClusterBody) -> tuple[float | None, float | None]:
        errors = each.centre_error
        return each.centre[number], None if errors is None else errors[number]

    return pick


def _draw_series(panel: Axes, body: TimelineBody, value: Value, *, scale: float = 1.0) -> None:
    every = [_read_series(body.windows, k, value)[0] for k in range(len(body.clusters))]
    if not np.isfinite(every).any():
        panel.text(
            *(0.5, 0.5, "noise hides it"),
            transform=panel.transAxes,
            ha="center",
            va="center",
            color=_GREY,
        )
        panel.set_yticks([])
    times = np.array([(_time(each.start) + _time(each.end)) / 2 for each in body.windows])
    for k in range(len(body.clusters)):
        values, errors = scale * _read_series(body.windows, k, value)
        colour = _colour_of(k)
        panel.plot(
            times, values, "-o", color=colour, markersize=2.5, linewidth=1.2, label=f"{k + 1}"
        )
        panel.fill_between(times, values - errors, values + errors, color=colour, alpha=0.18, lw=0)
    if scale != 1.0:
        panel.legend(title="cluster", fontsize=7, title_fontsize=7, ncols=4, frameon=False)


def _read_series(windows: Sequence[WindowBody], k: int, value: Value) -> Floats:
    """Return values and errors, shape ``(2, T)``; NaN where noise hides them."""
    pairs = [(None, None) if each.clusters is None else value(each.clusters[k]) for each in windows]
    return np.array(pairs, dtype=float).T


def _time(text: str) -> float:
    return float(date2num(datetime.fromisoformat(text)))  # type: ignore[no-untyped-call]


def _name_quantity(change: ChangeBody) -> str:
    quantity = {"weight": "share", "variance": "width"}.get(change.quantity, change.quantity)
    return f"{change.cluster + 1}: {_cut(change.dimension or quantity)}"


def _name_dimension(dimension: DimensionBody) -> str:
    unit = "" if dimension.unit == "1" else f"\n({_cut(dimension.unit)})"
    return f"{_cut(dimension.name)}{unit}"


def _name_device(device: DeviceHealthBody) -> str:
    name = device.name or ", ".join(device.labels.values())
    return f"{_cut(name)} {device.device_id[:8]}".strip()


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 1]}…"


def _colour_of(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def _clear(panel: Axes) -> None:
    panel.spines[["top", "right"]].set_visible(False)


def _entitle(figure: Figure, title: str) -> Figure:
    figure.suptitle(title, fontsize=11, fontweight="bold", x=0.01, ha="left", wrap=True)
    return figure
