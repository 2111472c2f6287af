"""Tables of any library, and files, as estimators read them: cells by row and column, with names.

What a cell becomes depends on that cell and on the declared type of its column, never on another
cell: no type is guessed from values.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sfumato.shared.arrays import Floats
from sfumato.shared.errors import TableError
from sfumato.shared.reading import BOM
from sfumato.shared.reading.arrow import require_pyarrow
from sfumato.shared.reading.csv_lines import split_line

__all__ = ["Frame", "open_frame"]

_KINDS: Final = ".parquet, .csv, .npy, or a folder of Parquet files"


@dataclass(frozen=True, eq=False)
class Frame:
    """A table with names.

    Parameters
    ----------
    columns
        Names of the columns.
    cells
        Each column: numbers, or objects.
    """

    columns: list[str]
    cells: list[NDArray[Any]]

    @property
    def dtypes(self) -> list[np.dtype[Any]]:
        """The type of each column."""
        return [each.dtype for each in self.cells]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return all cells, shape ``(n, d)``; objects where a column is of objects."""
        del copy
        has_objects = any(each.dtype.kind not in "fiub" for each in self.cells)
        made = object if has_objects else np.float64
        array = np.empty((len(self.cells[0]) if self.cells else 0, len(self.cells)), dtype=made)
        for i, each in enumerate(self.cells):
            array[:, i] = each
        return array if dtype is None else array.astype(dtype)


def open_frame(table: Any) -> Any:
    """Return a table of another library, a file or batches as a frame; others as they are.

    Parameters
    ----------
    table
        Anything with ``__arrow_c_stream__`` (tables, batches and readers of pyarrow, relations of
        DuckDB), a data set of pyarrow, a ``LazyFrame`` of Polars, a path, or an iterator or a list
        of tables. Arrays, lists of rows, and data frames of pandas, Polars and Dask are returned.

    Raises
    ------
    TableError
        A file cannot be read, or is of another kind; batches have different columns; or it is one
        column alone.
    """
    if isinstance(table, str | os.PathLike):
        return _open_file(Path(table))
    if isinstance(table, np.ndarray) or hasattr(table, "toarray"):
        return table
    if isinstance(table, Iterator) or _are_tables(table):
        return _join(table)
    if hasattr(table, "collect") and hasattr(table, "lazy"):
        return table.collect()
    if hasattr(table, "dtypes") and hasattr(table, "columns") and hasattr(table, "__array__"):
        return table
    if hasattr(table, "to_table") and hasattr(table, "schema"):
        return _read_arrow(table.to_table())
    if hasattr(table, "__arrow_c_stream__") or hasattr(table, "__arrow_c_array__"):
        arrow = require_pyarrow("pyarrow", "X")
        try:
            return _read_arrow(arrow.table(table))
        except arrow.ArrowInvalid as error:
            raise TableError(
                "is one column, and no table", field="X", fix="pass a table, such as X.to_frame()"
            ) from error
    return table


def _are_tables(table: Any) -> bool:
    is_list = isinstance(table, list | tuple) and bool(table)
    return is_list and all(
        hasattr(each, "columns") or hasattr(each, "__arrow_c_stream__") for each in table
    )


def _join(tables: Iterable[Any]) -> Any:
    """Put the rows of tables behind each other."""
    opened = [open_frame(each) for each in tables]
    names = [[str(name) for name in getattr(each, "columns", ())] for each in opened]
    arrays = [np.asarray(each) for each in opened]
    if not arrays:
        raise TableError("gives no batch", field="X", fix="pass at least one table")
    if any(each != names[0] for each in names) or len({each.shape[1:] for each in arrays}) > 1:
        raise TableError(
            "has batches of different columns", field="X", fix="give all of them the same columns"
        )
    joined = np.concatenate(arrays)
    return Frame(names[0], list(joined.T)) if names[0] else joined


def _read_arrow(table: Any) -> Frame:
    columns = [
        column.combine_chunks() if hasattr(column, "combine_chunks") else column
        for column in table.columns
    ]
    return Frame([str(name) for name in table.column_names], [_read_cells(c) for c in columns])


def _read_cells(column: Any) -> NDArray[Any]:
    """Return a column of Arrow: numbers with NaN for null, or what Python makes of each cell."""
    types = require_pyarrow("pyarrow.types", "X")
    kind = column.type
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
        float64 = require_pyarrow("pyarrow", "X").float64()
        numbers: Floats = np.asarray(
            column.cast(float64, safe=False).to_numpy(zero_copy_only=False), dtype=np.float64
        )
        return numbers
    cells = np.empty(len(column), dtype=object)
    cells[:] = column.to_pylist()
    return cells


def _open_file(path: Path) -> Any:
    kind = "folder" if path.is_dir() else path.suffix.lower()
    if kind not in ("folder", ".parquet", ".csv", ".npy"):
        raise TableError(
            f"is the file {path.name}, which is none of {_KINDS}",
            field="X",
            fix="read it by a library of tables, and pass that",
        )
    try:
        if kind == ".npy":
            return np.load(path, allow_pickle=False)
        if kind == ".csv":
            return _read_csv(path.read_bytes())
        dataset = require_pyarrow("pyarrow.dataset", "X").dataset(path, format="parquet")
        return _read_arrow(dataset.to_table())
    except TableError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is damaged, or of another kind"
        raise TableError(
            f"cannot be read from {path} ({reason})", field="X", fix="check the path and the file"
        ) from error


def _read_csv(data: bytes) -> Frame:
    """Read lines of fields with commas between; a line of another number of them has no value."""
    text = data.removeprefix(BOM).decode("utf-8", "replace")
    head, *lines = [line.removesuffix("\r") for line in text.split("\n")]
    names = [name.strip() for name in split_line(head, ",") or ()]
    other = next((mark for mark in ";\t|" if len(names) == 1 and mark in names[0]), None)
    if other is not None:
        raise TableError(
            f"is a file whose fields seem to stand between {other!r}, and commas are read",
            field="X",
            fix=f"pass pandas.read_csv(path, sep={other!r}), with decimal=',' if its numbers have "
            "commas",
        )
    if lines and not lines[-1]:
        lines.pop()
    cells = np.full((len(lines), len(names)), None, dtype=object)
    for i, line in enumerate(lines):
        row = split_line(line, ",")
        if row is not None and len(row) == len(names):
            cells[i] = row
    return Frame(names, list(cells.T))
