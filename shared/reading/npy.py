"""NumPy files: an array of records, or a structured array with a field a dimension."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.shared.arrays import Floats
from sfumato.shared.core import Columns
from sfumato.shared.core.masks import BLOCK_RECORDS
from sfumato.shared.errors import RecordError
from sfumato.shared.reading.files import WatchedFile, naming
from sfumato.shared.reading.interface import choose_rows
from sfumato.shared.reading.records import (
    NAN,
    PER_SECOND,
    Fields,
    RecordTable,
    TimeField,
    make_table,
    match_levels,
)

_SKETCHED = (np.dtype(np.float64), np.dtype(np.float32))
_SECONDS = {"m": 60, "h": 3600, "D": 86400}
_SAVE_AGAIN = "write it with numpy.save and copy it whole"


class NpyRows:
    """The rows of an ``.npy`` file: shape ``(n, d)`` in either order, or structured ``(n,)``.

    Values that are neither float64 nor float32 are converted to float64; a level is text, a number
    or a truth value; a time is a number or a ``datetime64``. See ``RowFile``.

    Raises
    ------
    RecordError
        No NumPy file, cut short, or of a shape or type that the fields do not fit.
    """

    def __init__(self, file: WatchedFile, fields: Fields) -> None:
        self._file, self._fields = file, fields
        self._read_header()
        if self._type.names is None:
            self._require_matrix()
            for _, levels in fields.columns:
                self._require_type(self._type, "the array", has_levels=bool(levels))
        else:
            self._require_fields(self._type.names)
        self.n_records: int = self._shape[0]

    def tables(
        self, *, first: int = 0, most_rows: int = BLOCK_RECORDS, n_threads: int = 1
    ) -> Iterator[RecordTable]:
        """See ``RowFile``; reading takes one thread."""
        rows = choose_rows(most_rows, self._bytes_per_record)
        for start in range(first, self.n_records, rows):
            yield self._read_table(start, min(rows, self.n_records - start))

    def _read_table(self, start: int, count: int) -> RecordTable:
        if self._type.names is not None:
            rows: NDArray[np.void] = self._read_values(count, start * self._type.itemsize)
            columns = Columns(
                tuple(self._read(rows[name], levels) for name, levels in self._fields.columns)
            )
            time = self._fields.time
            table = make_table(columns, None if time is None else _to_times(rows[time.name], time))
            keys = [rows[name].astype("U").tolist() for name in self._fields.keys]
            return replace(table, kinds=self._fields.find_kinds(keys))
        n, d = self._shape
        if self._is_fortran:
            places = [(j * n + start) * self._type.itemsize for j in range(d)]
            return make_table(self._read_columns([self._read_values(count, p) for p in places]))
        place = start * d * self._type.itemsize
        matrix = self._read_values(count * d, place).reshape(count, d)
        if self._fields.has_levels:
            return make_table(self._read_columns(list(matrix.T)))
        return make_table(self._fields.spelling.clear(_to_float(matrix)))

    def _read_columns(self, columns: list[NDArray[Any]]) -> Columns:
        found = zip(columns, self._fields.columns, strict=True)
        return Columns(tuple(self._read(column, levels) for column, (_, levels) in found))

    def _read(self, column: NDArray[Any], levels: tuple[str, ...]) -> NDArray[np.floating]:
        if levels:
            return match_levels(column, levels)
        return self._fields.spelling.clear(_to_float(column))

    def _read_values(self, count: int, place: int) -> NDArray[Any]:
        values: NDArray[Any] = np.empty(count, dtype=self._type)
        # Fresh memory every time: the sketching threads still hold the tables before.
        self._file.fill(values.view(np.uint8).data, self._offset + place)
        return values

    def _read_header(self) -> None:
        """Let NumPy read the header: it maps the file for that, and no page of it is touched."""
        path = self._file.path
        try:
            with naming(path):
                array = np.lib.format.open_memmap(path, mode="r")
        except ValueError as error:
            raise self._refuse(
                f"is not a NumPy file of numbers, or is cut short ({error})", _SAVE_AGAIN
            ) from error
        self._offset = int(array.offset)
        self._shape, self._type = array.shape, array.dtype
        self._is_fortran = array.ndim == 2 and not array.flags.c_contiguous
        self._bytes_per_record = array.dtype.itemsize * int(np.prod(array.shape[1:], dtype=int))
        expected = self._offset + array.nbytes
        if self._file.size != expected:
            raise self._refuse(
                f"has {self._file.size} bytes, and its header says {expected}", _SAVE_AGAIN
            )
        # What NumPy opened by name must be what is being read.
        self._file.require_unchanged()

    def _require_matrix(self) -> None:
        d = len(self._fields.values)
        if len(self._shape) != 2 or self._shape[1] != d:
            raise self._refuse(
                f"must have shape (n, {d}), one column a dimension of the plan in its order, and "
                f"has {self._shape}",
                "save the array in that shape, or as a structured array with named fields",
            )
        if self._fields.are_chosen or self._fields.public:
            raise self._refuse(
                "has no column names to choose from",
                "name no columns: they are the plan's dimensions in their order; or save a "
                "structured array with named fields",
            )

    def _require_fields(self, header: tuple[str, ...]) -> None:
        if len(self._shape) != 1:
            raise self._refuse(
                f"must have shape (n,) as a structured array and has {self._shape}",
                "save one element a record",
            )
        self._fields.find(header, str(self._file.path))
        for name, levels in self._fields.columns:
            self._require_type(self._type[name], f"the field {name}", has_levels=bool(levels))
        if self._fields.time is not None:
            name = self._fields.time.name
            kind = self._type[name]
            if kind.kind != "M" or np.datetime_data(kind) not in {
                (u, 1) for u in PER_SECOND | _SECONDS
            }:
                self._require_type(kind, f"the field {name}", has_levels=False)

    def _require_type(self, kind: np.dtype[np.generic], what: str, *, has_levels: bool) -> None:
        if kind.kind not in ("iufbUS" if has_levels else "iuf") or kind.shape:
            raise self._refuse(
                f"{what} must hold one {'text' if has_levels else 'number'} a value and holds "
                f"{kind}",
                "convert it to "
                f"{'text of fixed length' if has_levels else 'float64 or float32'} before saving",
            )

    def _refuse(self, rule: str, fix: str) -> RecordError:
        return RecordError(rule, field=str(self._file.path), fix=fix)


def _to_times(column: NDArray[Any], time: TimeField) -> Floats:
    if column.dtype.kind != "M":
        return time.convert(column)
    unit, _ = np.datetime_data(column.dtype)
    ticks = column.astype(np.int64)
    if unit in _SECONDS:
        # No year that can be used has so many, and nothing wraps.
        ticks = np.clip(ticks, -(1 << 40), 1 << 40) * _SECONDS[unit]
    seconds = time.convert_local(ticks, PER_SECOND.get(unit, 1))
    return np.where(np.isnat(column), NAN, seconds)


def _to_float(values: NDArray[Any]) -> NDArray[np.floating]:
    """Return the values as they are, or as float64 where no engine takes their type."""
    if values.dtype in _SKETCHED:
        return values
    with np.errstate(over="ignore"):  # a longer double's infinity cannot be sketched
        return values.astype(np.float64)
