"""One open file of lines, read in batches of whole lines."""

from __future__ import annotations

import os
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from device_agent.sources.digests import DigestKey
from device_agent.sources.file_places import TAIL_BYTES, FilePlace
from device_agent.sources.interface import Position, ReadingReport, RecordBatch
from device_agent.sources.mapping import RecordMapping
from shared.file_identity import identify
from shared.reading import (
    BOM,
    MAX_LINE_BYTES,
    Block,
    LineCutter,
    LineParser,
    RecordTable,
    join_tables,
)

BATCH_RECORDS = 4096
_CHUNK_BYTES = 1 << 20


class FileCutError(Exception):
    """The file is shorter than what was read, or differs before the place of reading."""


class LineFile:
    """The new records of one open file.

    A batch is full with ``BATCH_RECORDS`` records, or ends where the file does: how long lines are
    decides nothing.

    Parameters
    ----------
    file
        The file; kept open, so that what is read is the file that was verified. Closed with this.
    name
        What messages call it.
    path
        What its positions call it.
    place
        Where to begin.
    parser, mapping
        Parse its lines; the parser is for this file alone.
    report
        Where to count.
    key
        Of the digests in its positions.
    generation
        Which of the files at its path it is.
    """

    def __init__(
        self,
        file: BinaryIO,
        *,
        name: str,
        path: str,
        place: FilePlace,
        parser: LineParser,
        mapping: RecordMapping,
        report: ReadingReport,
        key: DigestKey,
        generation: int = 0,
    ) -> None:
        self.name = name
        self.identity = identify(file.fileno())
        self._path = path
        self._generation = generation
        self._file = file
        self._parser = parser
        self._mapping = mapping
        self._report = report
        self._key = key
        self._place = place  # up to which bytes were digested: at most what was handed out
        self._offset, self._line = place.offset, place.line  # behind what was handed out
        self._cutter = LineCutter(offset=place.offset, n_lines=place.line)
        self._block: Block | None = None  # whole lines that were not handed out
        self._end = place.offset  # behind what was read of the file
        self._tail = self.tail
        self.first_position = self.position
        """Where it was when it was opened."""
        if parser.needs_header and place.offset:
            self._reread_header()

    @property
    def source(self) -> str:
        """The source of its positions."""
        return self.identity.source

    @property
    def is_begun(self) -> bool:
        """True if it is a file of records: if its header, where it needs one, was read."""
        return not self._parser.needs_header

    @property
    def place(self) -> FilePlace:
        """The place behind the last line that was handed out."""
        return self._advance(self._offset, self._line)

    @property
    def position(self) -> Position:
        """The position there."""
        return self._make_position(self._offset, self._line)

    @property
    def tail(self) -> bytes:
        """The last bytes before that place."""
        n_bytes = min(TAIL_BYTES, self._offset)
        return os.pread(self._file.fileno(), n_bytes, self._offset - n_bytes)

    @property
    def line(self) -> int:
        """Number of lines that were handed out, the header among them."""
        return self._line

    @property
    def size(self) -> int:
        """Its present size in bytes."""
        return os.fstat(self._file.fileno()).st_size

    @property
    def modified_ns(self) -> int:
        """When it was last written, ns."""
        return os.fstat(self._file.fileno()).st_mtime_ns

    @property
    def has_partial_line(self) -> bool:
        """True if bytes without a line end are left, once nothing else is."""
        return self._cutter.has_partial_line

    @property
    def caveats(self) -> list[str]:
        """See ``LineParser``."""
        return self._parser.caveats

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
            Its header lacks a column.
        """
        first = self._line
        tables: list[RecordTable] = []
        ends: list[NDArray[np.int64]] = []
        n_records = 0
        while n_records < BATCH_RECORDS and (block := self._next_block(finish)) is not None:
            if self._parser.needs_header:
                self._parser.read_header(block.part(0, 1).data, self.name)
                self._take(block, 1)
                first = self._line
                continue
            part = block.part(0, min(BATCH_RECORDS - n_records, block.n_lines))
            tables.append(self._mapping.parse(self._parser, part, self._report))
            ends.append(part.start + part.ends)
            n_records += part.n_lines
            before = self._offset
            self._take(block, part.n_lines)
            self._report.bytes_read += self._offset - before
        if not tables:
            return None
        table = join_tables(tables)
        offsets = ends[0] if len(ends) == 1 else np.concatenate(ends)
        return RecordBatch(
            values=table.to_matrix(),
            timestamps=table.timestamps,
            position_after=lambda i: self._make_position(int(offsets[i]), first + i + 1),
        )

    def _next_block(self, finish: bool) -> Block | None:
        """Return the lines that are whole and were not handed out; None if there are none."""
        while self._block is None:
            data = self._read_on()
            if not data:
                # Without its end a header may have half a name.
                self._block = (
                    self._cutter.finish() if finish and not self._parser.needs_header else None
                )
                break
            self._block = self._cutter.feed(data)
        return self._block

    def _take(self, block: Block, n_lines: int) -> None:
        self._offset = block.start + int(block.ends[n_lines - 1])
        self._line += n_lines
        n_left = block.n_lines - n_lines
        self._block = block.part(n_lines, block.n_lines) if n_left else None

    def _read_on(self) -> bytes:
        n_tail = len(self._tail)
        # The bytes before are read again with the new ones: they differ if the file was cut.
        chunk = os.pread(self._file.fileno(), n_tail + _CHUNK_BYTES, self._end - n_tail)
        if chunk[:n_tail] != self._tail:
            raise FileCutError
        data = chunk[n_tail:]
        self._end += len(data)
        self._tail = chunk[-TAIL_BYTES:]
        return data

    def _make_position(self, offset: int, line: int) -> Position:
        place = self._advance(offset, line)
        return place.to_position(
            self.source, self._key, path=self._path, generation=self._generation
        )

    def _advance(self, offset: int, line: int) -> FilePlace:
        # What was parsed is read again from the page cache, so that a batch of long lines need not
        # be kept, and a dry run digests nothing. Asked for in order, each byte is digested once.
        if offset < self._place.offset:
            raise ValueError("positions must be asked for in order")
        self._place = self._place.advance(self._file, offset=offset, line=line)
        return self._place

    def _reread_header(self) -> None:
        """Read the header of a file that was read before."""
        data = os.pread(self._file.fileno(), MAX_LINE_BYTES + 1, 0)
        self._parser.read_header(data[: data.find(b"\n") + 1].removeprefix(BOM), self.name)
