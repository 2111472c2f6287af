"""Tables in memory: records that are read by the plan's columns, and frames that are returned."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sfumato.shared.arrays import Floats
from sfumato.shared.errors import ConfigError, TableError
from sfumato.shared.plan import SketchPlan

FRAMES = {"pandas": "DataFrame", "polars": "DataFrame"}
"""Libraries of tables, and the class that a dictionary of columns is passed to."""


def read_records(table: Any, plan: SketchPlan) -> Floats:
    """Read records in the order of a plan's dimensions: shape ``(n, d)``; NaN where none is.

    Parameters
    ----------
    table
        A frame, or a mapping of columns, which are found by name in any order; others are left
        alone. Or rows of d numbers in the plan's order. A category is text, and becomes the number
        of its level.

    Raises
    ------
    TableError
        A column is missing or holds no numbers, or rows do not have d of them.
    """
    names = _list_names(table)
    dimensions = plan.dimensions
    if names is None:
        rows = np.asarray(table)
        if rows.ndim != 2 or rows.shape[1] != len(dimensions):
            raise TableError(
                f"must have shape (n, {len(dimensions)}) and has {rows.shape}",
                field="X",
                fix="pass the columns " + ", ".join(map(repr, (each.name for each in dimensions))),
            )
        columns: list[Any] = list(rows.T)
    else:
        if missing := [each.name for each in dimensions if each.name not in names]:
            raise TableError(
                f"has no column {', '.join(map(repr, missing))}; it has "
                + ", ".join(map(repr, names)),
                field="X",
                fix="rename its columns as the plan's dimensions are",
            )
        columns = [table[each.name] for each in dimensions]
    read = [
        _read_levels(column, each.levels) if each.levels else _read_numbers(column, each.name)
        for column, each in zip(columns, dimensions, strict=True)
    ]
    return np.stack(read, axis=1)


def _list_names(table: Any) -> list[str] | None:
    """Return the names of the columns of a table that has any."""
    if isinstance(table, Mapping):
        return [str(name) for name in table]
    # Arrow's tables have `columns` too, which are not their names.
    for attribute in ("column_names", "columns"):
        names = getattr(table, attribute, None)
        if names is not None and all(isinstance(name, str) for name in names):
            return list(names)
    return None


def _read_numbers(column: Any, name: str) -> Floats:
    values = np.asarray(column)
    if values.dtype.kind in "fiub":
        return values.astype(np.float64)
    try:
        if values.dtype.kind != "O":
            raise ValueError
        return np.array([_read_cell(cell) for cell in values], dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TableError(
            f"must hold numbers in the column {name!r}",
            field="X",
            fix="convert the column to numbers; leave out units and separators",
        ) from error


def _read_cell(cell: Any) -> float:
    if isinstance(cell, str | bytes):
        raise TypeError
    # Libraries of tables have marks of their own for a missing value.
    is_missing = cell is None or type(cell).__name__ in ("NAType", "NaTType")
    return math.nan if is_missing else float(cell)


def _read_levels(column: Any, levels: Sequence[str]) -> Floats:
    numbers = {level: float(i) for i, level in enumerate(levels)}
    return np.array([numbers.get(str(cell), math.nan) for cell in np.asarray(column, object)])


def make_frame(columns: Mapping[str, Any], library: str) -> Any:
    """Return columns as a frame of a library.

    Raises
    ------
    ConfigError
        The library is not known, or not installed.
    """
    if library not in FRAMES:
        raise ConfigError(
            f"must be {' or '.join(FRAMES)}", field="library", fix="choose one of them"
        )
    try:
        module = importlib.import_module(library)
    except ImportError as error:
        raise ConfigError(
            f"is not installed: {library}", field="library", fix=f"run `pip install {library}`"
        ) from error
    return getattr(module, FRAMES[library])(dict(columns))
