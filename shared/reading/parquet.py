"""Parquet files, through pyarrow, which only some files need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from sfumato.shared.core.masks import BLOCK_RECORDS
from sfumato.shared.errors import RecordError
from sfumato.shared.reading.arrow import ArrowColumns, require_pyarrow
from sfumato.shared.reading.files import WatchedFile
from sfumato.shared.reading.interface import choose_rows
from sfumato.shared.reading.records import Fields, RecordTable

_BUFFER_BYTES = 1 << 20


class ParquetRows:
    """The rows of a Parquet file; only the columns that are needed are read.

    See ``RowFile``, and ``ArrowColumns`` for the types that columns may have.

    Raises
    ------
    ConfigError
        pyarrow is not installed.
    RecordError
        No Parquet file, or damaged; or a column is missing or holds no numbers.
    """

    def __init__(self, file: WatchedFile, fields: Fields) -> None:
        self._file, self._fields = file, fields
        self._arrow = require_pyarrow("pyarrow", str(file.path))
        parquet = require_pyarrow("pyarrow.parquet", str(file.path))
        with self._naming():
            # Without read-ahead, through a buffer a column: a row group may be as large as the
            # file, and would be held in memory otherwise.
            self._parquet = parquet.ParquetFile(
                file.path,
                memory_map=False,
                pre_buffer=False,
                buffer_size=_BUFFER_BYTES,
                # Milliseconds hold every day that such a timestamp can state; finer units wrap.
                coerce_int96_timestamp_unit="ms",
            )
            schema = self._parquet.schema_arrow
        # What pyarrow opened by name must be what is being read.
        file.require_unchanged()
        self.n_records: int = self._parquet.metadata.num_rows
        self._columns = ArrowColumns(fields, schema, str(file.path))

    def tables(
        self, *, first: int = 0, most_rows: int = BLOCK_RECORDS, n_threads: int = 1
    ) -> Iterator[RecordTable]:
        """See ``RowFile``; pyarrow decodes columns on ``n_threads`` threads."""
        if n_threads > 1:
            self._arrow.set_cpu_count(n_threads)
        metadata = self._parquet.metadata
        sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        ends = np.cumsum([0, *sizes])
        # The group in which the next row lies, and how many of its rows were read.
        group = int(np.searchsorted(ends, first, side="right")) - 1
        n_skipped, n_read = first - int(ends[group]), first
        with self._naming():
            batches = self._parquet.iter_batches(
                batch_size=choose_rows(most_rows, 8 * len(self._fields.names)),
                row_groups=list(range(group, len(sizes))),
                columns=self._columns.names,
                use_threads=n_threads > 1,
            )
            for batch in batches:
                fresh = batch.slice(n_skipped)
                n_skipped = max(0, n_skipped - batch.num_rows)
                n_read += fresh.num_rows
                if fresh.num_rows:
                    yield self._columns.make_table(fresh)
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
            # Without pyarrow's own words, which may name the row where it failed.
            raise RecordError(
                "cannot be read as Parquet",
                field=str(self._file.path),
                fix="write the file again and copy it whole",
            ) from error
