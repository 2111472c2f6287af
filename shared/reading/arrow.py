"""Tables of Arrow, through pyarrow, which only some sources need."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.shared.arrays import Floats
from sfumato.shared.core import Columns
from sfumato.shared.errors import ConfigError, RecordError
from sfumato.shared.reading.records import (
    PER_SECOND,
    Fields,
    RecordTable,
    TimeField,
    count_seconds,
    make_table,
    match_levels,
    read_levels,
)


def find_pyarrow(module: str) -> Any | None:
    """Return a module of pyarrow, or None where it is not installed."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        return None


def find_arrow_levels(texts: Any, levels: Sequence[str]) -> Floats:
    """Return ``read_levels`` of an array of pyarrow that holds text."""
    arrow, compute = find_pyarrow("pyarrow"), find_pyarrow("pyarrow.compute")
    assert arrow is not None
    assert compute is not None
    known = arrow.array(levels, type=texts.type)
    places = compute.index_in(compute.ascii_trim_whitespace(texts), value_set=known)
    found: Floats = compute.cast(places, arrow.float64()).to_numpy(
        **({} if isinstance(places, arrow.ChunkedArray) else {"zero_copy_only": False})
    )
    return found


class ArrowColumns:
    """Batches of Arrow to tables of records, a row a record.

    Integers, floating-point numbers and decimals are values; levels may be text, also in
    dictionaries, whole or floating-point numbers, and truth values; times may be timestamps, dates,
    numbers or text, also in dictionaries.

    Parameters
    ----------
    fields
        Which column holds each dimension.
    schema
        The schema of every batch, of pyarrow.
    where
        What messages call the source.

    Raises
    ------
    ConfigError
        pyarrow is not installed.
    RecordError
        A column is missing, or holds no numbers.
    """

    def __init__(self, fields: Fields, schema: Any, where: str) -> None:
        self._fields = fields
        self._arrow = require_pyarrow("pyarrow", where)
        self._compute = require_pyarrow("pyarrow.compute", where)
        fields.find(list(schema.names), where)
        for name, levels in fields.columns:
            self._require_type(name, schema.field(name).type, has_levels=bool(levels))

    @property
    def names(self) -> list[str]:
        """The columns that are needed, each once."""
        return list(dict.fromkeys(self._fields.names))

    def make_table(self, batch: Any) -> RecordTable:
        """Return the records of a batch."""
        values = Columns(
            tuple(
                self._to_levels(batch.column(name), levels)
                if levels
                else self._to_numbers(batch.column(name))
                for name, levels in self._fields.columns
            )
        )
        time = self._fields.time
        table = make_table(
            values, None if time is None else self._to_times(batch.column(time.name), time)
        )
        keys = [batch.column(name).to_pylist() for name in self._fields.keys]
        return replace(table, kinds=self._fields.find_kinds(keys))

    def _to_numbers(self, column: Any) -> NDArray[np.floating]:
        """Return a column of numbers, without a copy where it can be; NaN for a null."""
        if column.type not in (self._arrow.float64(), self._arrow.float32()):
            column = self._compute.cast(column, self._arrow.float64(), safe=False)
        return self._fields.spelling.clear(column.to_numpy(zero_copy_only=False))

    def _to_levels(self, column: Any, levels: Sequence[str]) -> Floats:
        """Return the levels of a column; NaN for a null."""
        types = self._arrow.types
        if types.is_dictionary(column.type):
            return self._look_up(column, self._to_levels(column.dictionary, levels))
        if self._is_text(column.type):
            return read_levels(self._to_texts(column), levels)
        null = column.is_null().to_numpy(zero_copy_only=False)
        numbers = column.fill_null(False if types.is_boolean(column.type) else 0)
        found = match_levels(numbers.to_numpy(zero_copy_only=False), levels)
        found[null] = np.nan
        return found

    def _look_up(self, column: Any, words: Floats) -> Floats:
        """Return what each record's word of a dictionary was read as.

        Each word by itself: what cannot be used is for its own records alone.
        """
        places = self._to_numbers(column.indices)
        present = np.isfinite(places)
        found = np.full(len(places), np.nan)
        found[present] = words[places[present].astype(np.int64)]
        return found

    def _to_texts(self, column: Any) -> list[str]:
        # As bytes: not every writer sees to it that text is text.
        raw = column.cast(self._arrow.large_binary()).to_pylist()
        return [(text or b"").decode("utf-8", "replace") for text in raw]

    def _is_text(self, kind: Any) -> bool:
        types = self._arrow.types
        return bool(
            types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
        )

    def _to_times(self, column: Any, time: TimeField) -> Floats:
        kind, types = column.type, self._arrow.types
        if types.is_dictionary(kind):
            return self._look_up(column, self._to_times(column.dictionary, time))
        if self._is_text(kind):
            return time.read_all(self._to_texts(column))
        if types.is_decimal(kind):
            return time.read_all([str(number) for number in column.to_pylist()])
        if not (self._is_number(kind) or types.is_timestamp(kind) or types.is_date(kind)):
            return np.full(len(column), np.nan)
        null = column.is_null().to_numpy(zero_copy_only=False)
        return np.where(null, np.nan, self._convert_times(column, time))

    def _convert_times(self, column: Any, time: TimeField) -> Floats:
        kind, types = column.type, self._arrow.types
        if types.is_floating(kind):
            return time.convert(self._to_numbers(column))
        if not types.is_integer(kind):
            # Whole numbers: what a conversion of units cannot hold would be an error of all.
            bits = self._arrow.int32() if types.is_date32(kind) else self._arrow.int64()
            column = column.view(bits)
        ticks = column.fill_null(0).to_numpy(zero_copy_only=False)
        if types.is_date32(kind):
            return time.convert_local(ticks.astype(np.int64) * 86400, 1)
        if types.is_date64(kind):
            return time.convert_local(ticks, PER_SECOND["ms"])
        if types.is_integer(kind):
            return time.convert(ticks)
        rate = PER_SECOND[kind.unit]
        return time.convert_local(ticks, rate) if kind.tz is None else count_seconds(ticks, rate)

    def _is_number(self, kind: Any) -> bool:
        types = self._arrow.types
        return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))

    def _require_type(self, name: str, kind: Any, *, has_levels: bool) -> None:
        if has_levels:
            self._require_levels(name, kind)
        elif not self._is_number(kind):
            raise RecordError(
                f"must hold numbers and holds {kind}",
                field=name,
                fix="convert the column to a floating-point type",
            )

    def _require_levels(self, name: str, kind: Any) -> None:
        types = self._arrow.types
        word = kind.value_type if types.is_dictionary(kind) else kind
        if not (
            self._is_text(word)
            or types.is_boolean(word)
            or types.is_integer(word)
            or types.is_floating(word)
        ):
            raise RecordError(
                f"must hold text, numbers or truth values and holds {kind}",
                field=name,
                fix="convert the column to text",
            )


def require_pyarrow(module: str, where: str) -> Any:
    """Return a module of pyarrow, or refuse to go on without it."""
    found = find_pyarrow(module)
    if found is None:
        raise ConfigError(
            "needs pyarrow, which is not installed here",
            field=where,
            fix="install it: pip install 'sfumato[parquet]'",
        )
    return found
