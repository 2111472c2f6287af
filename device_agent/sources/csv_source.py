"""CSV files: one record a line, read once, in order, going on where the last reading ended.

A resumed reading is exact: positions are byte offsets, and the digest of everything before them.
"""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

import numpy as np

from device_agent.settings import SourceSettings, StreamSettings
from device_agent.sources.fields import NAN, read_iso8601, read_number, read_unix, split_line
from device_agent.sources.interface import KnownPosition, Position, ReadingReport, RecordBatch
from device_agent.sources.prefix import FilePlace, resume
from shared.errors import RecordError

BATCH_RECORDS = 4096
MAX_LINE_BYTES = 1 << 16
"""A longer line is a record that cannot be sketched; it is skipped without being kept."""


@dataclass(frozen=True, kw_only=True)
class _Columns:
    """Which fields of a line are what, from the header."""

    n_fields: int
    values: tuple[int, ...]
    value_names: tuple[str, ...]
    timestamp: int | None
    timestamp_name: str
    read_time: Callable[[str], float]


class CsvSource:
    """The new records of one CSV file; see ``RecordSource``.

    UTF-8, with or without a byte order mark; commas; a header; fields may be quoted but a record is
    one line. Empty lines between records of several fields are skipped, as CSV readers do.

    Raises
    ------
    RecordError
        The file cannot be opened, or its header lacks a column: before any record is read.
    LedgerError
        The file is not the one that was read before, or another stream has read it.
    """

    def __init__(
        self, stream: StreamSettings, dimensions: Sequence[str], known: Sequence[KnownPosition]
    ) -> None:
        self.report = ReadingReport()
        self._path = stream.source.path
        self._source = f"csv:{self._path}"
        self._columns: _Columns | None = None
        # Kept open, so that what is read is the file that was verified.
        self._file = _open_regular(self._path)
        try:
            with _naming(self._path):
                self._place, position = resume(self._file, self._source, stream.name, known)
                header = self._read_header()
            if header is not None:
                self._columns = _find_columns(header, stream, dimensions)
        except BaseException:
            self._file.close()
            raise
        if position is not None and position.source != self._source:
            self.report.notes.append(
                f"begins with records already read from {position.source.removeprefix('csv:')}; "
                f"went on behind line {self._place.line}"
            )

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def read(self) -> Iterator[RecordBatch]:
        """Yield the new records, at most ``BATCH_RECORDS`` at a time."""
        if self._columns is None:
            return
        with _naming(self._path):
            batch = _BatchBuilder(self._columns, self.report, self._seek_first_record())
            while line := self._file.readline(MAX_LINE_BYTES):
                if line.endswith(b"\n"):
                    batch.add(line)
                elif len(line) < MAX_LINE_BYTES or not _has_line_end(self._file):
                    # It may still be being written.
                    self.report.unfinished_line = batch.next_line
                    break
                else:
                    if batch.n_records:
                        yield batch.build(self._source)
                    place = self._skip_line(batch.place, line)
                    batch = _BatchBuilder(self._columns, self.report, place)
                    batch.add_skipped_line()
                if batch.n_records == BATCH_RECORDS:
                    yield batch.build(self._source)
                    batch = _BatchBuilder(self._columns, self.report, batch.place)
            if batch.n_records:
                yield batch.build(self._source)

    def _seek_first_record(self) -> FilePlace:
        self._file.seek(self._place.offset)
        return self._place if self._place.offset else self._place.behind([self._file.readline()])

    def _skip_line(self, place: FilePlace, piece: bytes) -> FilePlace:
        """Go behind a line that is too long, without keeping it."""
        start, place = place, place.behind([piece])
        while piece and not piece.endswith(b"\n"):
            piece = self._file.readline(MAX_LINE_BYTES)
            place = replace(place.behind([piece]), line=place.line)
        self.report.bytes_read += place.offset - start.offset
        return place

    def _read_header(self) -> list[str] | None:
        """Return the names of the columns, or None while there is no whole header yet."""
        self._file.seek(0)
        line = self._file.readline(MAX_LINE_BYTES)
        if not line.endswith(b"\n") and len(line) < MAX_LINE_BYTES:
            self.report.notes.append(
                "the file is empty" if not line else "the header line has no end yet"
            )
            return None
        try:
            names = split_line(line.decode("utf-8-sig").rstrip("\r\n"))
        except UnicodeDecodeError:
            names = None
        if names is None or not line.endswith(b"\n"):
            raise RecordError(
                "must be a header in UTF-8 with the names of the columns",
                field=f"{self._path}, line 1",
                fix="save the file as CSV in UTF-8, with commas",
            )
        return [name.strip() for name in names]


class _BatchBuilder:
    """Turns lines into a batch, and finds the place behind each of its records."""

    def __init__(self, columns: _Columns, report: ReadingReport, start: FilePlace) -> None:
        self._columns = columns
        self._report = report
        self._values: list[list[float]] = []
        self._timestamps: list[float] = []
        self._lines: list[bytes] = []
        self._n_lines_behind: list[int] = []  # of each record
        # How far positions were asked for: they are asked for in order, and each byte hashed once.
        self._n_lines_hashed = 0
        self._hashed = start
        self.next_line = start.line + 1

    @property
    def n_records(self) -> int:
        return len(self._values)

    @property
    def place(self) -> FilePlace:
        """The place behind the last line."""
        return self._place_behind(len(self._lines))

    def add(self, line: bytes) -> None:
        number = self.next_line
        self.next_line += 1
        self._lines.append(line)
        self._report.bytes_read += len(line)
        if self._columns.n_fields > 1 and not line.strip():
            return
        self._add_fields(_split(line), number)
        self._n_lines_behind.append(len(self._lines))

    def add_skipped_line(self) -> None:
        """Add the record of the line that ends where this batch starts."""
        self._add_fields(None, self.next_line - 1)
        self._n_lines_behind.append(0)

    def _add_fields(self, fields: list[str] | None, number: int) -> None:
        columns, report = self._columns, self._report
        if fields is None or len(fields) != columns.n_fields:
            # Which field is missing is unknown, so none can be trusted, nor the time.
            report.add_unusable(number, "line" if fields is None else "number of fields")
            self._values.append([NAN] * len(columns.values))
            self._timestamps.append(NAN)
            return
        values = [read_number(fields[i]) for i in columns.values]
        for value, name in zip(values, columns.value_names, strict=True):
            if math.isnan(value):
                report.add_unusable(number, name)
                break
        self._values.append(values)
        self._timestamps.append(self._read_time(fields, number))

    def _read_time(self, fields: list[str], number: int) -> float:
        columns = self._columns
        if columns.timestamp is None:
            return NAN
        time = columns.read_time(fields[columns.timestamp])
        if math.isnan(time):
            self._report.add_untimed(number, columns.timestamp_name)
        return time

    def build(self, source: str) -> RecordBatch:
        def position_after(i: int) -> Position:
            return self._place_behind(self._n_lines_behind[i]).to_position(source)

        return RecordBatch(
            values=np.array(self._values, dtype=np.float64),
            timestamps=np.array(self._timestamps, dtype=np.float64),
            position_after=position_after,
        )

    def _place_behind(self, n_lines: int) -> FilePlace:
        if n_lines < self._n_lines_hashed:
            raise ValueError("positions must be asked for in order")
        self._hashed = self._hashed.behind(self._lines[self._n_lines_hashed : n_lines])
        self._n_lines_hashed = n_lines
        return self._hashed


def _split(line: bytes) -> list[str] | None:
    try:
        return split_line(line.decode("utf-8").rstrip("\r\n"))
    except UnicodeDecodeError:
        return None


def _open_regular(path: Path) -> BinaryIO:
    with _naming(path):
        # A pipe would block here until someone writes to it.
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise RecordError("is not a regular file", field=str(path), fix="name a CSV file")
        return open(path, "rb")


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Turn the system's complaints about a file into ours."""
    try:
        yield
    except OSError as error:
        raise RecordError(
            f"cannot be read ({error.strerror})",
            field=str(path),
            fix="name a file that exists and that this user may read",
        ) from error


def _has_line_end(file: BinaryIO) -> bool:
    """Tell whether the line that is being read ends somewhere; the file stays where it is."""
    here = file.tell()
    found = False
    while not found and (piece := file.readline(MAX_LINE_BYTES)):
        found = piece.endswith(b"\n")
    file.seek(here)
    return found


def _find_columns(header: list[str], stream: StreamSettings, dimensions: Sequence[str]) -> _Columns:
    settings = stream.source
    names = tuple(stream.columns.get(dimension, dimension) for dimension in dimensions)
    timestamp = None
    if settings.timestamp is not None:
        timestamp = _find_column(header, settings.timestamp, settings)
    return _Columns(
        n_fields=len(header),
        values=tuple(_find_column(header, name, settings) for name in names),
        value_names=names,
        timestamp=timestamp,
        timestamp_name=settings.timestamp or "",
        read_time=read_unix if settings.timestamp_format == "unix" else read_iso8601,
    )


def _find_column(header: list[str], name: str, settings: SourceSettings) -> int:
    if header.count(name) == 1:
        return header.index(name)
    what = "is in the header more than once" if name in header else "is not in the header"
    raise RecordError(
        f"the column {what} of {settings.path}",
        field=name,
        fix="correct the header, or name the column in [streams.columns] or [streams.source]; "
        "columns are separated by commas",
    )
