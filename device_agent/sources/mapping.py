"""From the fields of a source to the plan's dimensions: names, times and units."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from device_agent.sources.fields import (
    EARLIEST,
    LATEST,
    NAN,
    UNIX_SCALES,
    make_time_reader,
    read_value,
    require_plausible,
)
from device_agent.sources.interface import ReadingReport
from device_agent.sources.settings import StreamSettings
from shared.errors import RecordError


@dataclass(frozen=True, kw_only=True)
class RecordTable:
    """Some records, in the plan's dimensions and units.

    Parameters
    ----------
    values
        Shape ``(n, d)``; a record with a value that cannot be used has a NaN.
    timestamps
        Shape ``(n,)``, seconds since 1970-01-01 UTC; NaN when unreadable.
    ids
        Shape ``(n,)``; NaN when unreadable, or when no field is an id.
    """

    values: NDArray[np.float64]
    timestamps: NDArray[np.float64]
    ids: NDArray[np.float64]


class RecordMapping:
    """Which field is which dimension, in which unit, and which holds time and id.

    Parameters
    ----------
    stream
        The stream's settings.
    dimensions
        The plan's dimensions, in order.
    identity
        The field that only ever grows, or None.
    """

    def __init__(
        self, stream: StreamSettings, dimensions: Sequence[str], identity: str | None = None
    ) -> None:
        fields = [stream.find_field(name) for name in dimensions]
        self.names = tuple(field.name for field in fields)
        self.timestamp = stream.source.timestamp
        self.identity = identity
        self.read_time: Callable[[str], float] = make_time_reader(stream.source)
        self.unix_scale = UNIX_SCALES.get(stream.source.timestamp_format)
        self._scale = np.array([field.conversion.scale for field in fields])
        self._offset = np.array([field.conversion.offset for field in fields])
        self._converts = bool((self._scale != 1).any() or (self._offset != 0).any())

    @property
    def fields(self) -> tuple[str, ...]:
        """All fields that are read: dimensions, time, id."""
        return (*self.names, *filter(None, (self.timestamp, self.identity)))

    @property
    def public(self) -> tuple[str, ...]:
        """The fields that decide where a record belongs: time, id."""
        return self.fields[len(self.names) :]

    def convert(self, raw: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return raw values, shape ``(n, d)``, in the plan's units; what overflows is NaN."""
        if not self._converts:
            return raw
        with np.errstate(over="ignore"):
            values: NDArray[np.float64] = raw * self._scale + self._offset
        values[~np.isfinite(values)] = NAN
        return values

    def read_unix(self, raw: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return numbers in the unix format of the settings as seconds; NaN when implausible."""
        seconds = raw / (self.unix_scale or 1.0)
        return np.where((seconds >= EARLIEST) & (seconds < LATEST), seconds, NAN)

    def map_rows(self, rows: Sequence[Sequence[object]]) -> RecordTable:
        """Map rows whose items are the fields in the order of ``fields``.

        Numbers or text are values; anything else cannot be used.
        """
        d = len(self.names)
        values = np.empty((len(rows), d))
        timestamps = np.full(len(rows), NAN)
        ids = np.full(len(rows), NAN)
        for i, row in enumerate(rows):
            values[i] = [read_value(item) for item in row[:d]]
            if self.timestamp is not None:
                timestamps[i] = self._read_any_time(row[d])
            if self.identity is not None:
                ids[i] = read_value(row[-1])
        return RecordTable(values=self.convert(values), timestamps=timestamps, ids=ids)

    def map_columns(self, columns: Sequence[Sequence[object]]) -> RecordTable:
        """Map columns, one for each of ``fields``; at once where all are numbers."""
        d = len(self.names)
        numbers = all({float, int}.issuperset(map(type, column)) for column in columns)
        if numbers and (self.timestamp is None or self.unix_scale is not None):
            try:
                cells = np.array(columns, dtype=np.float64).reshape(len(columns), -1)
            except OverflowError:
                cells = np.full((len(columns), len(columns[0])), np.inf)
            if np.isfinite(cells[:d]).all():
                missing = np.full(cells.shape[1], NAN)
                return RecordTable(
                    values=self.convert(cells[:d].T.copy()),
                    timestamps=missing if self.timestamp is None else self.read_unix(cells[d]),
                    ids=missing if self.identity is None else cells[-1],
                )
        return self.map_rows(list(zip(*columns, strict=True)))

    def note(self, table: RecordTable, report: ReadingReport, places: Sequence[int]) -> None:
        """Count the records that cannot be sketched, or have no time."""
        bad = np.isnan(table.values)
        for i in np.flatnonzero(bad.any(axis=1)).tolist():
            report.add_unusable(places[i], self.names[int(bad[i].argmax())])
        if self.timestamp is not None:
            for i in np.flatnonzero(np.isnan(table.timestamps)).tolist():
                report.add_untimed(places[i], self.timestamp)

    def find(self, header: Sequence[str], where: str) -> list[int]:
        """Return where in a header each of ``fields`` stands.

        Raises
        ------
        RecordError
            One is absent, or there more than once.
        """
        return [_find_column(header, name, where) for name in self.fields]

    def _read_any_time(self, value: object) -> float:
        if isinstance(value, str):
            return self.read_time(value)
        if self.unix_scale is None:
            return NAN
        return require_plausible(read_value(value) / self.unix_scale)


def _find_column(header: Sequence[str], name: str, where: str) -> int:
    if header.count(name) == 1:
        return header.index(name)
    what = "is in the header more than once" if name in header else "is not in the header"
    raise RecordError(
        f"the column {what} of {where}",
        field=name,
        fix="correct the header, or name the column in [streams.columns] or [streams.source]; "
        "check the delimiter too",
    )
