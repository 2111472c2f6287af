"""The table of centroids that commands print."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from sfumato.analyst.results.notebook import write_centroids
from sfumato.shared.arrays import Bools, Floats

MOST_ACROSS = 6
"""Axes above which centroids are columns of a table, not rows."""


def tabulate_centroids(
    names: Sequence[str],
    units: Sequence[str],
    weights: Floats,
    centroids: Floats,
    *,
    resolved: Bools | None = None,
    errors: Floats | None = None,
    weight_errors: Floats | None = None,
) -> Table:
    """Tabulate a centroid a row, or a column where axes are many; numbers are never cut short.

    Parameters
    ----------
    names, units
        Names and units of the d axes.
    weights, centroids
        Shapes ``(k,)`` and ``(k, d)``.
    resolved
        Shape ``(k,)``: False where a centroid is shown dim.
    errors, weight_errors
        Standard errors of both; None without bars.
    """
    axes = [
        name if unit == "1" else f"{name} ({unit})" for name, unit in zip(names, units, strict=True)
    ]
    written = write_centroids(weights, centroids, errors, weight_errors)
    styles = [None if resolved is None or resolved[i] else "dim" for i in range(len(weights))]
    table = Table()
    table.add_column("weight", overflow="fold")
    if len(axes) <= MOST_ACROSS:
        for axis in axes:
            table.add_column(Text(axis), justify="right", overflow="fold")
        for row, style in zip(written, styles, strict=True):
            table.add_row(*row, style=style)
        return table
    for row, style in zip(written, styles, strict=True):
        table.add_column(row[0], justify="right", overflow="fold", style=style or "")
    for i, axis in enumerate(axes):
        table.add_row(Text(axis), *(row[1 + i] for row in written))
    return table
