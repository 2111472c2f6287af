"""One open file of lines, read in blocks; whole lines only."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from device_agent.sources.fields import NAN
from device_agent.sources.interface import Position, ReadingReport, RecordBatch
from device_agent.sources.mapping import RecordTable
from device_agent.sources.parsers import MAX_LINE_BYTES, Block, LineParser, Parsed
from device_agent.sources.prefix import TAIL_BYTES, FilePlace
from shared.errors import RecordError

BATCH_RECORDS = 4096
_CHUNK_BYTES = 1 << 20
BOM = b"\xef\xbb\xbf"
_NO_LINES: NDArray[np.int64] = np.empty(0, dtype=np.int64)


class FileCutError(Exception):
    """The file is no longer what was read so far: it was cut, and may have grown again."""


class LineFile:
    """The new records of one open file.

    Parameters
    ----------
    file
        The file; kept open, so that what is read is the file that was verified. Closed with this.
    name
        What messages call it.
    source
        The source of its positions.
    place
        Where to begin.
    parser
        For this file alone.
    report
        Where to count.
    multiline
        Whether a quoted field may contain line ends.
    n_dimensions
        How many values a record has.
    """

    def __init__(
        self,
        file: BinaryIO,
        *,
        name: str,
        source: str,
        place: FilePlace,
        parser: LineParser,
        report: ReadingReport,
        multiline: bool,
        n_dimensions: int,
    ) -> None:
        self.name = name
        self.source = source
        self.inode = os.fstat(file.fileno()).st_ino
        self._file = file
        self._parser = parser
        self._report = report
        self._multiline = multiline
        self._n_dimensions = n_dimensions
        self._place = place  # behind the last line that was handed out
        self._block = b""  # bytes behind it, whole lines up to each of the ends
        self._ends = _NO_LINES
        self._n_taken = 0  # of the ends
        self._long: FilePlace | None = None  # inside a line that is too long to keep
        self._error: RecordError | None = None
        self.identified = place.offset > 0
        """Whether a record of it was handed out: a header alone is that of many files."""
        if parser.needs_header and place.offset:
            self._reread_header()

    @property
    def place(self) -> FilePlace:
        """The place behind the last line that was handed out."""
        return self._place

    @property
    def size(self) -> int:
        """How many bytes it has now."""
        return os.fstat(self._file.fileno()).st_size

    @property
    def modified_ns(self) -> int:
        """When it was last written, ns."""
        return os.fstat(self._file.fileno()).st_mtime_ns

    @property
    def partial_line(self) -> bytes:
        """The bytes behind the last whole line, once there is none left to hand out."""
        return self._block[self._start :]

    @property
    def has_partial_line(self) -> bool:
        """Whether bytes without a line end are left."""
        return bool(self.partial_line) or self._long is not None

    def reopen(self) -> BinaryIO:
        """Return the same file, opened once more, whatever it is called by now."""
        return os.fdopen(os.dup(self._file.fileno()), "rb")

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def read_batch(self, *, finish: bool = False) -> RecordBatch | None:
        """Return the next records, or None when there are none.

        Parameters
        ----------
        finish
            Whether nothing will be written to it any more: its last line needs no end.

        Raises
        ------
        FileCutError
            It was cut. Nothing of what it holds now was handed out.
        RecordError
            Its header lacks a column, or its columns change here.
        """
        while True:
            if self._error is not None:
                raise self._error
            if self._n_taken < len(self._ends):
                batch = self._take()
            elif self._fill():
                batch = self._take_long_line()
            elif finish and self.has_partial_line and not self._parser.needs_header:
                batch = self._take_last_line()
            else:
                return None
            if batch is not None:
                self.identified = True
                return batch

    @property
    def _start(self) -> int:
        return int(self._ends[self._n_taken - 1]) if self._n_taken else 0

    def _fill(self) -> bool:
        """Read on, and find the lines that are whole now; False at the end of the file."""
        rest = self._block[self._start :]
        place = self._long or self._place
        behind = (place.tail + rest)[-TAIL_BYTES:]
        n_tail = len(behind)
        end = place.offset + len(rest)
        # The bytes before are read again with the new ones: they differ if the file was cut.
        chunk = os.pread(self._file.fileno(), n_tail + _CHUNK_BYTES, end - n_tail)
        if chunk[:n_tail] != behind:
            raise FileCutError
        self._block, self._ends, self._n_taken = rest + chunk[n_tail:], _NO_LINES, 0
        if len(chunk) == n_tail:
            return False
        self._find_lines()
        return True

    def _find_lines(self) -> None:
        if self._long is not None:
            return
        if self._place.offset == 0 and self._block.startswith(BOM):
            self._place = self._place.behind(BOM)
            self._block = self._block[len(BOM) :]
        self._ends = find_line_ends(self._block, multiline=self._multiline)
        if len(self._ends) == 0 and len(self._block) > MAX_LINE_BYTES:
            self._long = self._place

    def _take_long_line(self) -> RecordBatch | None:
        """Go on behind a line that is too long, without keeping it; a batch at its end."""
        if self._long is None:
            return None
        end = self._block.find(b"\n") + 1
        self._long = self._long.behind(self._block[: end or len(self._block)])
        if not end:
            self._block = b""
            return None
        return self._end_long_line(self._block[end:])

    def _end_long_line(self, rest: bytes) -> RecordBatch | None:
        assert self._long is not None
        before, self._place, self._long = self._place, self._long, None
        self._block = rest
        self._find_lines()
        if self._parser.needs_header:
            # Raises: no header is that long.
            self._parser.read_header(bytes(MAX_LINE_BYTES + 1), self.name)
        self._report.bytes_read += self._place.offset - before.offset
        self._report.add_unusable(before.line + 1, "line")
        missing = np.full(1, NAN)
        table = RecordTable(
            values=np.full((1, self._n_dimensions), NAN), timestamps=missing, ids=missing
        )
        position = self._place.to_position(self.source, self.inode)
        return RecordBatch(
            values=table.values, timestamps=table.timestamps, position_after=lambda _: position
        )

    def _take_last_line(self) -> RecordBatch | None:
        if self._long is not None:
            return self._end_long_line(b"")
        self._ends, self._n_taken = np.array([len(self._block)], dtype=np.int64), 0
        return self._take()

    def _take(self) -> RecordBatch | None:
        """Parse the next lines; None if they hold no record."""
        if self._parser.needs_header:
            first = self._slice(self._n_taken, self._n_taken + 1)
            self._parser.read_header(first, self.name)
            self._advance(first, 1)
            return None
        stop = min(self._n_taken + BATCH_RECORDS, len(self._ends))
        data, before = self._slice(self._n_taken, stop), self._place
        ends = self._ends[self._n_taken : stop] - self._start
        block = Block(data=data, ends=ends, line=before.line + 1)
        parsed = self._parser.parse(block, self._report, self.name)
        self._error = parsed.error
        if parsed.error is None:
            self._advance(data, stop - self._n_taken)
        self._report.bytes_read += len(data) if parsed.error is None else 0
        if len(parsed.ends) == 0:
            return None
        return RecordBatch(
            values=parsed.table.values,
            timestamps=parsed.table.timestamps,
            position_after=self._make_positions(before, data, parsed),
        )

    def _slice(self, first: int, stop: int) -> bytes:
        return self._block[self._start : int(self._ends[stop - 1])]

    def _advance(self, data: bytes, n_lines: int) -> None:
        self._place = self._place.behind(data)
        self._n_taken += n_lines

    def _make_positions(
        self, before: FilePlace, data: bytes, parsed: Parsed
    ) -> Callable[[int], Position]:
        ends = parsed.ends
        hashed, done = before, 0

        def position_after(i: int) -> Position:
            # Asked for in order, so that each byte is hashed once.
            nonlocal hashed, done
            end = int(ends[i])
            if end < done:
                raise ValueError("positions must be asked for in order")
            hashed, done = hashed.behind(data[done:end]), end
            return hashed.to_position(self.source, self.inode)

        return position_after

    def _reread_header(self) -> None:
        """Read the header of a file that was read before."""
        line = os.pread(self._file.fileno(), MAX_LINE_BYTES + 1, 0).removeprefix(BOM)
        ends = find_line_ends(line, multiline=self._multiline)
        self._parser.read_header(line[: int(ends[0])] if len(ends) else line, self.name)


def find_line_ends(data: bytes, *, multiline: bool) -> NDArray[np.int64]:
    """Return where each whole record ends.

    With ``multiline`` a line end between quotes belongs to the field, unless the record would
    become longer than ``MAX_LINE_BYTES``: then its first line stands alone, and is unusable.
    """
    codes = np.frombuffer(data, dtype=np.uint8)
    ends = np.flatnonzero(codes == ord("\n")) + 1
    if not multiline or b'"' not in data:
        return ends
    found: list[int] = []
    start, i, lines = 0, 0, ends.tolist()
    quotes = np.cumsum(codes == ord('"'))[ends - 1].tolist()
    n_before = 0
    while i < len(lines):
        j = i
        while j < len(lines) and (quotes[j] - n_before) % 2 and lines[j] - start <= MAX_LINE_BYTES:
            j += 1
        if j == len(lines) and len(data) - start <= MAX_LINE_BYTES:
            break
        j = j if j < len(lines) and lines[j] - start <= MAX_LINE_BYTES else i
        start, n_before = lines[j], quotes[j]
        found.append(start)
        i = j + 1
    return np.array(found, dtype=np.int64)
