"""Pictures of recovered centroids, principal directions and correlations."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sfumato.learning.answers.moments import describe_components
from sfumato.learning.answers.words import name_clusters
from sfumato.learning.estimate.moments import PrincipalComponents
from sfumato.shared.arrays import Floats
from sfumato.shared.errors import ConfigError
from sfumato.shared.wire.objects.statistics import ComponentBody, MomentsAnswerBody

# Okabe and Ito's colours, which people with any colour vision can tell apart.
COLOURS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#7A7A7A",
    "#F0E442",
)
_GREY = "#9AA0A6"
_LETTERS = 7.5
"""Letters of a title to an inch."""
_MARGIN = 0.14
"""Share of the range of centroids that is left free around them."""
PICTURES = (".png", ".svg")
"""Endings of the files that pictures are written to."""


class Picture(Figure):
    """A figure that a notebook shows as it is: matplotlib shows those of pyplot alone."""

    def __init__(self, *, figsize: tuple[float, float]) -> None:
        super().__init__(figsize=figsize, layout="constrained", facecolor="white")

    def _repr_png_(self) -> bytes:
        written = io.BytesIO()
        self.savefig(written, format="png")
        return written.getvalue()


class Centroids(Protocol):
    """Contents of a picture of centroids."""

    @property
    def names(self) -> Sequence[str]:
        """Names of the axes."""

    @property
    def units(self) -> Sequence[str]:
        """Their units."""

    @property
    def centroids(self) -> Floats:
        """Shape ``(k, d)``, data units."""

    @property
    def weights(self) -> Floats:
        """Shares of the records: shape ``(k,)``."""


def plot_centroids(
    result: Centroids,
    *,
    pairs: Sequence[tuple[int, int]],
    title: str,
    readings: Sequence[str] | None = None,
    first_number: int = 1,
    records: Floats | None = None,
    baseline: Floats | None = None,
) -> Figure:
    """Draw centroids over pairs of dimensions, and their weights.

    Parameters
    ----------
    result
        What was decoded.
    pairs
        Pairs of dimension numbers, one panel each.
    title
        Above the figure.
    readings
        A few words for each centroid; by default where it differs most from the others.
    first_number
        The number of the heaviest centroid.
    records
        Shape ``(n, d)``, data units: raw records to show faintly behind. Only a demonstration has
        them; an analyst does not.
    baseline
        Shape ``(k', d)``: centroids of k-means on the raw records, drawn as crosses.
    """
    figure = Picture(figsize=(4.6 * len(pairs) + 4.4, 4.8))
    axes = figure.subplots(
        1, len(pairs) + 1, gridspec_kw={"width_ratios": [1.0] * len(pairs) + [0.95]}
    )
    for panel, (x, y) in zip(axes[:-1], pairs, strict=True):
        _draw_pair(panel, result, x, y, records, baseline, first_number)
    words = readings or name_clusters(result.centroids, result.weights, result.names)
    _draw_weights(axes[-1], result, words, first_number)
    _write_title(figure, title)
    return figure


def plot_components(
    answer: PrincipalComponents,
    *,
    names: Sequence[str],
    units: Sequence[str],
    title: str,
    n_directions: int = 3,
) -> Figure:
    """Draw shares of variance with their bands, and the loadings of the first directions.

    A direction that noise does not tell apart from its neighbours is grey: its loadings alone mean
    nothing.

    Parameters
    ----------
    answer
        What was estimated.
    names, units
        Name and unit of each dimension.
    title
        Above the figure.
    n_directions
        How many directions to draw, at most d.
    """
    d, n = len(names), min(n_directions, len(names))
    figure = Picture(figsize=(3.6 + 2.9 * n, 1.9 + 0.32 * max(d, 6)))
    axes = figure.subplots(1, n + 1, gridspec_kw={"width_ratios": [1.15] + [1.0] * n})
    _draw_components(list(axes), describe_components(answer), names, units)
    _write_title(figure, title)
    return figure


def plot_moments(answer: MomentsAnswerBody, *, title: str, n_directions: int = 3) -> Figure:
    """Draw correlations, shares of variance, and the first directions, as `plot_components` does.

    The number of a correlation whose band contains 0 is grey.

    Parameters
    ----------
    answer
        What was read from a server or a sketch file.
    title, n_directions
        As for :func:`plot_components`.
    """
    names = [axis.name for axis in answer.axes]
    d, n = len(names), min(n_directions, len(names))
    side = 1.6 + 0.5 * max(d, 4)
    figure = Picture(figsize=(side + 3.6 + 2.9 * n, max(side, 1.9 + 0.32 * max(d, 6))))
    ratios = [side / 2.9, 1.15] + [1.0] * n
    axes = figure.subplots(1, n + 2, gridspec_kw={"width_ratios": ratios})
    _draw_correlations(axes[0], answer, names)
    units = [axis.unit for axis in answer.axes]
    _draw_components(list(axes[1:]), answer.components, names, units)
    _write_title(figure, title)
    return figure


def require_picture(path: Path, field: str) -> None:
    """Refuse a file whose name does not end as a picture's.

    Raises
    ------
    ConfigError
        It ends with neither .png nor .svg.
    """
    if path.suffix.lower() not in PICTURES:
        raise ConfigError(
            f"must end with {' or '.join(PICTURES)}, not {path.suffix!r}",
            field=field,
            fix="choose another name",
        )


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure as SVG if its name ends so, else as PNG."""
    is_vector = path.suffix.lower() == ".svg"
    figure.savefig(path, dpi=130, format="svg" if is_vector else "png")


def _write_title(figure: Figure, title: str) -> None:
    """Write a title in as many lines as it takes."""
    width = int(figure.get_figwidth() * _LETTERS)
    figure.suptitle(textwrap.fill(title, width), fontsize=13, fontweight="bold", x=0.01, ha="left")


def _name_axis(result: Centroids, i: int) -> str:
    name, unit = result.names[i], result.units[i]
    return name if unit == "1" else f"{name} ({unit})"


def _draw_pair(
    panel: Axes,
    result: Centroids,
    x: int,
    y: int,
    records: Floats | None,
    baseline: Floats | None,
    first_number: int,
) -> None:
    if records is not None:
        panel.scatter(
            records[:, x],
            records[:, y],
            s=3,
            color=_GREY,
            alpha=0.10,
            linewidths=0,
            rasterized=True,
            label="raw records (never sent)",
        )
    for i, centroid in enumerate(result.centroids):
        panel.scatter(
            centroid[x],
            centroid[y],
            s=200 + 2200 * result.weights[i],
            color=COLOURS[i % len(COLOURS)],
            alpha=0.85,
            edgecolors="white",
            linewidths=1.5,
            zorder=3,
        )
        panel.annotate(
            str(i + first_number),
            (centroid[x], centroid[y]),
            ha="center",
            va="center",
            color="white",
            fontweight="bold",
            zorder=6,
        )
    if baseline is not None:
        panel.scatter(
            baseline[:, x],
            baseline[:, y],
            marker="x",
            s=70,
            color="black",
            linewidths=1.6,
            zorder=5,
            label="k-means on the raw records",
        )
    # A marker is drawn around its centroid, and would be cut at the edge.
    panel.margins(_MARGIN)
    panel.set_xlabel(_name_axis(result, x))
    panel.set_ylabel(_name_axis(result, y))
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(color="#E6E6E6", linewidth=0.6)
    panel.set_axisbelow(True)
    if records is not None or baseline is not None:
        legend = panel.legend(loc="best", fontsize=8, frameon=True, framealpha=0.9)
        for handle in legend.legend_handles:
            if handle is not None:
                handle.set_alpha(1.0)


def _draw_weights(
    panel: Axes, result: Centroids, readings: Sequence[str], first_number: int
) -> None:
    rows = np.arange(len(result.weights))
    colours = [COLOURS[i % len(COLOURS)] for i in rows]
    panel.barh(rows, 100 * result.weights, color=colours, height=0.36)
    for i, words in enumerate(readings):
        panel.text(
            0,
            i - 0.30,
            f"{i + first_number}  {words}",
            va="bottom",
            ha="left",
            fontsize=9,
            color="#222222",
        )
        panel.text(
            100 * result.weights[i] + 0.6, i, f"{result.weights[i]:.0%}", va="center", fontsize=9
        )
    panel.set_ylim(len(rows) - 0.5, -0.75)
    panel.set_xlim(0, max(100 * result.weights) * 1.25)
    panel.set_yticks([])
    panel.set_xlabel("share of all records (%)")
    panel.spines[["top", "right", "left"]].set_visible(False)


def _draw_components(
    panels: Sequence[Axes],
    components: Sequence[ComponentBody],
    names: Sequence[str],
    units: Sequence[str],
) -> None:
    _draw_shares(panels[0], components)
    for i, panel in enumerate(panels[1:]):
        _draw_direction(panel, components[i], i, units)
        panel.set_yticks(range(len(names)), names if i == 0 else [""] * len(names))


def _draw_shares(panel: Axes, components: Sequence[ComponentBody]) -> None:
    for i, each in enumerate(components):
        panel.barh(i, 100 * each.share, color=_colour_of(each, i), height=0.5)
        band = [100 * each.share_low, 100 * each.share_high]
        panel.plot(band, [i, i], color="#222222", linewidth=1.4)
    panel.set_ylim(len(components) - 0.4, -0.6)
    panel.set_xlim(0, 100 * min(1.0, 1.05 * max(each.share_high for each in components)))
    panel.set_yticks(range(len(components)), [f"{i + 1}" for i in range(len(components))])
    panel.set_ylabel("direction")
    panel.set_xlabel("share of variance, 95 % band (%)")
    panel.spines[["top", "right"]].set_visible(False)


def _draw_direction(panel: Axes, component: ComponentBody, i: int, units: Sequence[str]) -> None:
    """Draw one direction: bars in the metric, and in words how far one spread moves each."""
    direction = component.direction
    panel.axvline(0.0, color="#BBBBBB", linewidth=0.8)
    panel.barh(range(len(direction)), direction, color=_colour_of(component, i), height=0.5)
    for j, length in enumerate(direction):
        panel.text(
            length + (0.04 if length >= 0 else -0.04),
            j,
            f"{component.loadings[j]:+.3g} {units[j]}",
            ha="left" if length >= 0 else "right",
            va="center",
            fontsize=8,
            color="#222222",
        )
    turn = (
        f"noise turns it by about {_degrees(component.expected_sin_squared):.0f}°"
        if component.is_told_apart
        else "not told apart"
    )
    panel.set_title(f"direction {i + 1}: {turn}", fontsize=9)
    panel.set_xlim(-1.75, 1.75)
    panel.set_ylim(len(direction) - 0.4, -0.6)
    panel.set_xlabel("loading; text: one spread")
    panel.tick_params(axis="y", length=0)
    panel.spines[["top", "right", "left"]].set_visible(False)


def _draw_correlations(panel: Axes, answer: MomentsAnswerBody, names: Sequence[str]) -> None:
    matrix = np.array(answer.correlation)
    panel.imshow(matrix, cmap="RdBu_r", vmin=-1.0, vmax=1.0)
    for (row, column), value in np.ndenumerate(matrix):
        low, high = answer.correlation_low[row][column], answer.correlation_high[row][column]
        is_known = not low <= 0.0 <= high
        dark = "white" if abs(value) > 0.6 else "#222222"
        panel.text(
            column,
            row,
            f"{value:.2f}",
            ha="center",
            va="center",
            fontsize=8,
            color=dark if is_known else _GREY,
        )
    panel.set_xticks(range(len(names)), names, rotation=45, ha="right")
    panel.set_yticks(range(len(names)), names)
    panel.set_title("correlations; grey: maybe none", fontsize=9)
    panel.tick_params(length=0)


def _degrees(sin_squared: float) -> float:
    return float(np.degrees(np.arcsin(np.sqrt(sin_squared))))


def _colour_of(component: ComponentBody, i: int) -> str:
    return COLOURS[i % len(COLOURS)] if component.is_told_apart else _GREY
