"""The rows of one file of rows, known by its identity and a keyed digest of the whole of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from device_agent.sources.digests import DigestKey
from device_agent.sources.file_places import refuse_changed, refuse_replaced
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
from device_agent.sources.mapping import RecordMapping
from device_agent.sources.settings import LocalSettings, StreamSettings
from shared.file_identity import identify
from shared.reading import RecordTable, WatchedFile, open_rows

BATCH_RECORDS = 1 << 14
_CHUNK_BYTES = 1 << 20
_PLACE_KEY = "row"


class RowSource(RecordSource):
    """The rows of a Parquet or NumPy file that were not read before; see ``RecordSource``.

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
        self._file = WatchedFile(self._path)
        self._lock: SharedLock | None = None
        try:
            if stream.source.lock:
                self._lock = SharedLock(self._path, self._file.fileno())
                if self._lock.note:
                    self.report.notes.append(self._lock.note)
            self._source = identify(self._file.fileno()).source
            key = DigestKey(digest_key)
            running = key.begin()
            for chunk in self._file.chunks(_CHUNK_BYTES):
                running.update(chunk)
            self._place = {
                "digest": running.hexdigest(),
                "key": key.key_id,
                "path": str(self._path),
            }
            self._row = self._find_row()
            self._rows = open_rows(stream.source.kind, self._file, self._mapping.fields)
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
        return self._row >= self._rows.n_records

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

    def _read_rows(self) -> Iterator[RecordBatch]:
        for table in self._rows.tables(first=self._row, most_rows=BATCH_RECORDS):
            yield self._make_batch(table)

    def _make_batch(self, table: RecordTable) -> RecordBatch:
        first = self._row
        self._row += len(table.values)
        self.report.bytes_read = self._file.size * self._row // self._rows.n_records
        table = self._mapping.convert(table, self.report, range(first + 1, self._row + 1))
        return RecordBatch(
            values=table.to_matrix(),
            timestamps=table.timestamps,
            position_after=lambda i: self._make_position(first + i + 1),
        )
