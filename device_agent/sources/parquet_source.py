"""The rows of one Parquet file, known by the digest of the whole of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from device_agent.settings import StreamSettings
from device_agent.source_settings import ParquetSettings
from device_agent.sources.fields import NAN
from device_agent.sources.file_source import naming, open_regular
from device_agent.sources.interface import (
    Guarantee,
    KnownPosition,
    Position,
    ReadingReport,
    RecordBatch,
    RecordSource,
)
from device_agent.sources.locking import lock_open_file
from device_agent.sources.mapping import RecordMapping, RecordTable
from device_agent.sources.prefix import refuse_changed
from shared.errors import ConfigError, LedgerError, RecordError

try:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
except ModuleNotFoundError as error:
    raise ConfigError(
        'needs the extra "parquet"',
        field="streams.source.kind",
        fix="pip install 'sfumato[agent,parquet]'",
    ) from error

BATCH_RECORDS = 1 << 14


class ParquetSource(RecordSource):
    """The rows of a Parquet file that were not read before; see ``RecordSource``.

    Raises
    ------
    RecordError
        The file cannot be read, or lacks a column.
    LedgerError
        Another file is at its path, another stream has read it, or another agent reads it.
    """

    def __init__(
        self, stream: StreamSettings, dimensions: Sequence[str], known: Sequence[KnownPosition]
    ) -> None:
        assert isinstance(stream.source, ParquetSettings)
        self.report = ReadingReport()
        self._path = stream.source.path
        self._source = f"parquet:{self._path}"
        self._mapping = RecordMapping(stream, dimensions)
        with naming(self._path):
            self._file = open_regular(self._path)
        try:
            if stream.source.lock and (note := lock_open_file(self._file.fileno(), self._path)):
                self.report.notes.append(note)
            self._digest = _compute_digest(self._file)
            self._row = self._find_row(stream.name, known)
            self._parquet = self._open()
        except BaseException:
            self._file.close()
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

    def read_batch(self) -> RecordBatch | None:
        """See ``RecordSource``."""
        return next(self._batches, None)

    def _find_row(self, stream: str, known: Sequence[KnownPosition]) -> int:
        candidates = [k for k in known if k.position.source.startswith("parquet:")]
        same = [k for k in candidates if k.position.place["sha256"] == self._digest]
        for k in candidates:
            if k not in same and (k.stream, k.position.source) == (stream, self._source):
                raise refuse_changed(str(self._path))
        for k in same:
            if k.stream != stream:
                raise LedgerError(
                    f"its records were already sketched in stream {k.stream!r}",
                    field=str(self._path),
                    fix=f"name the stream {k.stream!r}, or remove it here",
                )
        return max((int(k.position.place["row"]) for k in same), default=0)

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
                f"cannot be read behind row {self._row}",
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
            position_after=lambda i: Position(
                source=self._source, place={"sha256": self._digest, "row": first + i + 1}
            ),
        )

    def _to_times(self, column: Any) -> NDArray[np.float64]:
        if pa.types.is_timestamp(column.type):
            seconds = _to_numbers(column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()))
            found: NDArray[np.float64] = seconds / 1e6
            return found
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            texts = [text or "" for text in column.to_pylist()]
            return np.fromiter(map(self._mapping.read_time, texts), np.float64, len(texts))
        if self._mapping.unix_scale is None:
            return np.full(len(column), NAN)
        return self._mapping.read_unix(_to_numbers(column))


def _compute_digest(file: BinaryIO) -> str:
    running = hashlib.sha256()
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
