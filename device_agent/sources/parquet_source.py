"""The rows of one Parquet file, known by its identity and a keyed digest of the whole of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from device_agent.sources.digests import DigestKey
from device_agent.sources.fields import EARLIEST, LATEST, NAN
from device_agent.sources.file_places import refuse_changed, refuse_replaced
from device_agent.sources.file_source import naming, open_regular
from device_agent.sources.interface import (
    Guarantee,
    KnownPosition,
    Position,
    ReadingReport,
    RecordBatch,
    RecordSource,
    SourceChanges,
)
from device_agent.sources.known_files import KnownFiles
from device_agent.sources.locking import SharedLock
from device_agent.sources.mapping import RecordMapping, RecordTable
from device_agent.sources.settings import LocalSettings, StreamSettings
from shared.errors import ConfigError, RecordError
from shared.file_identity import identify

try:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
except ModuleNotFoundError as error:
    raise ConfigError(
        'needs the extra "parquet"', fix="pip install 'sfumato[agent,parquet]'"
    ) from error

BATCH_RECORDS = 1 << 14
_PLACE_KEY = "row"
_PER_SECOND = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e6}
"""Nanoseconds are cut to microseconds, which floats hold."""


class ParquetSource(RecordSource):
    """The rows of a Parquet file that were not read before; see ``RecordSource``.

    Raises
    ------
    RecordError
        The file cannot be read, or lacks a column.
    LedgerError
        Another file is at its path, another stream has read it, or another agent reads it.
    """

    settings = LocalSettings

    def __init__(
        self,
        stream: StreamSettings,
        dimensions: Sequence[str],
        known: Sequence[KnownPosition],
        digest_key: bytes,
    ) -> None:
        assert isinstance(stream.source, LocalSettings)
        self.report = ReadingReport()
        self._path = stream.source.path
        self._known = KnownFiles(stream.name, known)
        self._mapping = RecordMapping(stream, dimensions)
        with naming(self._path):
            self._file = open_regular(self._path)
        self._lock: SharedLock | None = None
        try:
            if stream.source.lock:
                self._lock = SharedLock(self._path, self._file.fileno())
                if self._lock.note:
                    self.report.notes.append(self._lock.note)
            self._source = identify(self._file.fileno()).source
            key = DigestKey(digest_key)
            self._place = {
                "digest": _compute_digest(self._file, key),
                "key": key.key_id,
                "path": str(self._path),
            }
            self._row = self._find_row()
            self._parquet = self._open()
        except BaseException:
            self.close()
            raise
        self._batches = self._read_rows()

    @property
    def guarantee(self) -> Guarantee:
        """See ``RecordSource``."""
        return Guarantee(delivery="exactly once", loses="nothing; the file must not change")

    @property
    def ended(self) -> bool:
        """See ``RecordSource``."""
        return self._row >= int(self._parquet.metadata.num_rows)

    def close(self) -> None:
        """See ``RecordSource``."""
        self._file.close()
        if self._lock is not None:
            self._lock.close()

    def read_batch(self) -> RecordBatch | None:
        """See ``RecordSource``."""
        return next(self._batches, None)

    def take_changes(self) -> SourceChanges:
        """See ``RecordSource``."""
        return self._known.take_changes()

    def _find_row(self) -> int:
        position = self._known.find(self._source, _PLACE_KEY, name=str(self._path))
        if position is None:
            if self._known.list_at(str(self._path)):
                raise refuse_replaced(str(self._path))
            self._known.note(self._make_position(0))
            return 0
        place = position.place
        if place["key"] == self._place["key"] and place["digest"] != self._place["digest"]:
            raise refuse_changed(str(self._path))
        return int(place[_PLACE_KEY])

    def _make_position(self, row: int) -> Position:
        return Position(source=self._source, place={**self._place, _PLACE_KEY: row})

    def _open(self) -> Any:
        try:
            parquet = pq.ParquetFile(self._file)
        except (pa.ArrowException, OSError) as error:
            raise RecordError(
                "is not a Parquet file", field=str(self._path), fix="name one"
            ) from error
        self._mapping.find(list(parquet.schema_arrow.names), str(self._path))
        return parquet

    def _read_rows(self) -> Iterator[RecordBatch]:
        sizes = [
            self._parquet.metadata.row_group(i).num_rows
            for i in range(self._parquet.metadata.num_row_groups)
        ]
        ends = np.cumsum([0, *sizes])
        # The group in which the next row lies, and how many of its rows were read.
        first = int(np.searchsorted(ends, self._row, side="right")) - 1
        groups, skipped = list(range(first, len(sizes))), self._row - int(ends[first])
        if not groups:
            return
        columns = list(dict.fromkeys(self._mapping.fields))
        try:
            for batch in self._parquet.iter_batches(
                batch_size=BATCH_RECORDS, row_groups=groups, columns=columns
            ):
                fresh = batch.slice(skipped)
                skipped = max(0, skipped - batch.num_rows)
                if fresh.num_rows:
                    yield self._make_batch(fresh)
        except (pa.ArrowException, OSError) as error:
            raise RecordError(
                "cannot be read to its end",
                field=str(self._path),
                fix="write the file again; what is before was read",
            ) from error

    def _make_batch(self, batch: Any) -> RecordBatch:
        first, mapping = self._row, self._mapping
        raw = np.column_stack([_to_numbers(batch.column(name)) for name in mapping.names])
        raw[~np.isfinite(raw)] = NAN
        times = np.full(len(raw), NAN)
        if mapping.timestamp is not None:
            times = self._to_times(batch.column(mapping.timestamp))
        table = RecordTable(values=mapping.convert(raw), timestamps=times, ids=times)
        self._row += len(raw)
        self.report.bytes_read += batch.nbytes
        mapping.note(table, self.report, range(first + 1, self._row + 1))
        return RecordBatch(
            values=table.values,
            timestamps=table.timestamps,
            position_after=lambda i: self._make_position(first + i + 1),
        )

    def _to_times(self, column: Any) -> NDArray[np.float64]:
        kind = column.type
        if pa.types.is_timestamp(kind):
            # Whole numbers first: what a conversion of units cannot hold would be an error of all.
            whole = column.cast(pa.int64())
            if kind.unit == "ns":
                whole = pc.divide(whole, 1000)
            seconds = _to_numbers(whole) / _PER_SECOND[kind.unit]
            return np.where((seconds >= EARLIEST) & (seconds < LATEST), seconds, NAN)
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            # As bytes: not every writer sees to it that text is text.
            raw = column.cast(pa.large_binary()).to_pylist()
            texts = ((text or b"").decode("utf-8", "replace") for text in raw)
            return np.fromiter(map(self._mapping.read_time, texts), np.float64, len(raw))
        if self._mapping.unix_scale is None:
            return np.full(len(column), NAN)
        return self._mapping.read_unix(_to_numbers(column))


def _compute_digest(file: BinaryIO, key: DigestKey) -> str:
    running = key.begin()
    while chunk := file.read(1 << 20):
        running.update(chunk)
    file.seek(0)
    return running.hexdigest()


def _to_numbers(column: Any) -> NDArray[np.float64]:
    """Return a column as floats without a copy where it is one; NaN where it has no number."""
    kind = column.type
    if pa.types.is_boolean(kind) or not (
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    ):
        return np.full(len(column), NAN)
    if kind != pa.float64():
        column = pc.cast(column, pa.float64(), safe=False)
    numbers: NDArray[np.float64] = column.to_numpy(zero_copy_only=False)
    return numbers
