"""Parquet files, through pyarrow, by record batches."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager

from analyst.sketching.arrow import require_pyarrow
from analyst.sketching.interface import ColumnNames, choose_batch_records, find_columns
from analyst.sketching.watched import WatchedFile
from shared.core import Columns, Records
from shared.errors import RecordError

_BUFFER_BYTES = 1 << 20


class ParquetReader:
    """The records of a Parquet file; only the columns of the plan are read.

    Raises
    ------
    ConfigError
        pyarrow is not installed, or a column is missing.
    RecordError
        No Parquet file, or damaged.
    """

    def __init__(self, file: WatchedFile, columns: ColumnNames) -> None:
        parquet = require_pyarrow("pyarrow.parquet", str(file.path))
        self._arrow = require_pyarrow("pyarrow", str(file.path))
        self._file, self._names = file, columns.names
        self.bytes_read = 0
        with self._naming():
            # Without read-ahead, through a buffer a column: a row group may be as large as the
            # file, and would be held in memory otherwise.
            self._parquet = parquet.ParquetFile(
                file.path, memory_map=False, pre_buffer=False, buffer_size=_BUFFER_BYTES
            )
            self.n_records: int = self._parquet.metadata.num_rows
            header = list(self._parquet.schema_arrow.names)
        find_columns(header, columns, path=str(file.path))

    def batches(self, n_threads: int) -> Generator[Records, None, None]:
        """Yield all records in order; pyarrow decodes columns on ``n_threads`` threads."""
        self._arrow.set_cpu_count(n_threads)
        rows = choose_batch_records(8 * len(self._names))
        n_read = 0
        with self._naming():
            found = self._parquet.iter_batches(
                batch_size=rows, columns=list(dict.fromkeys(self._names)), use_threads=n_threads > 1
            )
            for batch in found:
                n_read += len(batch)
                self.bytes_read = self._file.size * n_read // max(1, self.n_records)
                yield Columns.from_arrow(batch, self._names)
        if n_read != self.n_records:
            raise RecordError(
                f"holds {n_read} records, and its footer says {self.n_records}",
                field=str(self._file.path),
                fix="write the file again",
            )

    @contextmanager
    def _naming(self) -> Iterator[None]:
        try:
            yield
        except (self._arrow.ArrowException, OSError) as error:
            reason = str(error).partition("\n")[0]
            raise RecordError(
                f"cannot be read as Parquet ({reason})",
                field=str(self._file.path),
                fix="write the file again and copy it whole",
            ) from error
