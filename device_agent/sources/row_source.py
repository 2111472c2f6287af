"""The rows of one file of rows, known by its identity and a keyed digest of the whole of it."""

from __future__ import annotations

from collections.abc import Iterator

from sfumato.device_agent.sources.interface import Guarantee, RecordBatch
from sfumato.device_agent.sources.local_source import LocalSource
from sfumato.device_agent.sources.positions import Position, refuse_changed, refuse_replaced
from sfumato.device_agent.sources.settings import LocalSettings
from sfumato.shared.file_identity import identify
from sfumato.shared.reading import RecordTable, WatchedFile, open_rows

BATCH_RECORDS = 1 << 14
_CHUNK_BYTES = 1 << 20
_PLACE_KEY = "row"
_LOSES = {
    "npy": "nothing; the file must not change",
    # Its pages are decoded as a whole, each with all values in it.
    "parquet": "nothing; the file must not change, and memory must hold a page of each column",
}


class RowSource(LocalSource):
    """The rows of a Parquet or NumPy file that were not read before; see ``RecordSource``.

    Raises
    ------
    RecordError
        The file cannot be read, or lacks a column.
    LedgerError
        Another file is at its path, another stream has read it, or another agent reads it.
    """

    settings = LocalSettings

    def _open(self) -> None:
        self._path = self._settings.path
        self._file = WatchedFile(self._path)
        self._resources.callback(self._file.close)
        self._hold_lock(self._path, self._file.fileno())
        self._source = identify(self._file.fileno()).source
        running = self._key.begin()
        for chunk in self._file.chunks(_CHUNK_BYTES):
            running.update(chunk)
        self._place = {
            "digest": running.hexdigest(),
            "key": self._key.key_id,
            "path": str(self._path),
        }
        self._row = self._find_row()
        self._rows = open_rows(self._settings.kind, self._file, self._mapping.fields)
        self._batches = self._read_rows()

    @property
    def guarantee(self) -> Guarantee:
        """See ``RecordSource``."""
        return Guarantee(delivery="exactly once", loses=_LOSES[self._settings.kind])

    @property
    def ended(self) -> bool:
        """See ``RecordSource``."""
        return self._row >= self._rows.n_records

    def read_batch(self) -> RecordBatch | None:
        """See ``RecordSource``."""
        return next(self._batches, None)

    def _find_row(self) -> int:
        position = self._files.find(self._source, _PLACE_KEY, name=str(self._path))
        if position is None:
            if self._files.list_at(str(self._path)):
                raise refuse_replaced(str(self._path))
            self._files.note(self._make_position(0))
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
        return RecordBatch.of_table(table, lambda i: self._make_position(first + i + 1))
