"""NumPy files: an array of records, or a structured array with a field a dimension."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyst.sketching.interface import ColumnNames, choose_batch_records, find_columns
from analyst.sketching.watched import WatchedFile, naming
from shared.core import Columns, Records
from shared.errors import RecordError

_SKETCHED = (np.dtype(np.float64), np.dtype(np.float32))


class NpyReader:
    """The records of an ``.npy`` file: shape ``(n, d)`` in either order, or structured ``(n,)``.

    Values that are neither float64 nor float32 are converted to float64, batch by batch.

    Raises
    ------
    RecordError
        No NumPy file, cut short, or of a shape or type that the plan does not take.
    """

    def __init__(self, file: WatchedFile, columns: ColumnNames) -> None:
        self._file = file
        self.bytes_read = 0
        self._read_header()
        self._fields: tuple[str, ...] | None = None
        if self._type.names is not None:
            self._fields = self._find_fields(columns)
        else:
            self._require_matrix(columns)
            self._require_numbers(self._type, "the array")
        self.n_records: int = self._shape[0]

    def batches(self, n_threads: int) -> Generator[Records, None, None]:
        """Yield all records in order; reading takes one thread."""
        rows = choose_batch_records(self._bytes_per_record)
        for start in range(0, self.n_records, rows):
            count = min(rows, self.n_records - start)
            if self._is_fortran:
                batch: Records = self._read_columns(start, count)
            elif self._fields is not None:
                batch = self._read_fields(self._fields, start, count)
            else:
                d = self._shape[1]
                place = start * d * self._type.itemsize
                batch = _to_float(self._read_values(count * d, place)).reshape(count, d)
            self.bytes_read += count * self._bytes_per_record
            yield batch

    def _read_columns(self, start: int, count: int) -> Columns:
        n, d = self._shape
        places = ((j * n + start) * self._type.itemsize for j in range(d))
        return Columns(tuple(_to_float(self._read_values(count, place)) for place in places))

    def _read_fields(self, fields: tuple[str, ...], start: int, count: int) -> Columns:
        table: NDArray[np.void] = self._read_values(count, start * self._type.itemsize)
        return Columns(tuple(_to_float(table[name]) for name in fields))

    def _read_values(self, count: int, place: int) -> NDArray[Any]:
        values: NDArray[Any] = np.empty(count, dtype=self._type)
        # Fresh memory every time: the sketching threads still hold the batches before.
        self._file.fill(values.view(np.uint8).data, self._offset + place)
        return values

    def _read_header(self) -> None:
        """Let NumPy read the header: it maps the file for that, and no page of it is touched."""
        path = self._file.path
        try:
            with naming(path):
                array = np.lib.format.open_memmap(path, mode="r")
        except ValueError as error:
            raise RecordError(
                f"is not a NumPy file of numbers, or is cut short ({error})",
                field=str(path),
                fix="write it with numpy.save and copy it whole",
            ) from error
        self._offset = int(array.offset)
        self._shape, self._type = array.shape, array.dtype
        self._is_fortran = array.ndim == 2 and not array.flags.c_contiguous
        self._bytes_per_record = array.dtype.itemsize * int(np.prod(array.shape[1:], dtype=int))
        expected = self._offset + array.nbytes
        if self._file.size != expected:
            raise RecordError(
                f"has {self._file.size} bytes, and its header says {expected}",
                field=str(path),
                fix="write it with numpy.save and copy it whole",
            )
        # What NumPy opened by name must be what is being read.
        self._file.require_unchanged()

    def _require_matrix(self, columns: ColumnNames) -> None:
        d = len(columns.names)
        if len(self._shape) != 2 or self._shape[1] != d:
            raise RecordError(
                f"must have shape (n, {d}), one column a dimension of the plan in its order, and "
                f"has {self._shape}",
                field=str(self._file.path),
                fix="save the array in that shape, or as a structured array with named fields",
            )
        if columns.are_given:
            raise RecordError(
                "has no column names to choose from",
                field=str(self._file.path),
                fix="leave out --column: columns are the plan's dimensions in their order",
            )

    def _find_fields(self, columns: ColumnNames) -> tuple[str, ...]:
        path = str(self._file.path)
        if len(self._shape) != 1:
            raise RecordError(
                f"must have shape (n,) as a structured array and has {self._shape}",
                field=path,
                fix="save one element a record",
            )
        find_columns(self._type.names or (), columns, path=path)
        for name in columns.names:
            self._require_numbers(self._type[name], f"the field {name}")
        return columns.names

    def _require_numbers(self, kind: np.dtype[np.generic], what: str) -> None:
        if kind.kind not in "iuf" or kind.shape:
            raise RecordError(
                f"{what} must hold one number a value and holds {kind}",
                field=str(self._file.path),
                fix="convert it to float64 or float32 before saving",
            )


def _to_float(values: NDArray[Any]) -> NDArray[np.floating]:
    """Return the values as they are, or as float64 where no engine takes their type."""
    if values.dtype in _SKETCHED:
        return values
    with np.errstate(over="ignore"):  # a longer double's infinity cannot be sketched
        return values.astype(np.float64)
