"""Batches of whole lines, and one open file that they are read from."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Literal

import numpy as np

from sfumato.device_agent.sources.interface import RecordBatch
from sfumato.device_agent.sources.local_source import LocalSource
from sfumato.device_agent.sources.mapping import ReadingReport, RecordMapping
from sfumato.device_agent.sources.positions import (
    TAIL_BYTES,
    DigestKey,
    FilePlace,
    Position,
    begin,
    refuse_changed,
)
from sfumato.device_agent.sources.settings import LocalSettings, TextSettings
from sfumato.shared.arrays import Integers
from sfumato.shared.errors import ConfigError
from sfumato.shared.file_identity import identify
from sfumato.shared.reading import (
    BOM,
    MAX_LINE_BYTES,
    Block,
    FileLayout,
    LineCutter,
    LineParser,
    RecordTable,
    TextFile,
    join_tables,
)
from sfumato.shared.structure import declared, member

BATCH_RECORDS = 4096
_CHUNK_BYTES = 1 << 20


class LineBatcher:
    """Batches of lines: full with ``BATCH_RECORDS`` records, or all that there are now.

    How long lines are decides nothing.

    Parameters
    ----------
    parser, mapping
        Parse the lines; the parser is for this file alone.
    report
        Where to count.
    name
        What messages call the file.
    offset, line
        Bytes and lines before the first that is read.
    """

    def __init__(
        self,
        parser: LineParser,
        mapping: RecordMapping,
        report: ReadingReport,
        *,
        name: str,
        offset: int = 0,
        line: int = 0,
    ) -> None:
        self.parser = parser
        self.offset, self.line = offset, line
        """Bytes and lines that were handed out, the header among them."""
        self.name = name
        self._mapping = mapping
        self._report = report
        self._block: Block | None = None

    @property
    def is_empty(self) -> bool:
        """True if every line was handed out."""
        return self._block is None

    def read(self, fetch: Callable[[], Block | None]) -> tuple[RecordTable, Integers] | None:
        """Return the next records and the offset behind each, or None when there are none.

        Parameters
        ----------
        fetch
            Returns further whole lines; None if there are none now.

        Raises
        ------
        RecordError
            The header lacks a column.
        """
        tables: list[RecordTable] = []
        offsets: list[Integers] = []
        n_records = 0
        while n_records < BATCH_RECORDS:
            self._block = self._block or fetch()
            if self._block is None:
                break
            if self.parser.needs_header:
                part = self._block.part(0, 1)
                self.parser.read_header(part.data, self.name)
            else:
                part = self._block.part(0, min(BATCH_RECORDS - n_records, self._block.n_lines))
                tables.append(self._mapping.parse(self.parser, part, self._report))
                offsets.append(part.start + part.ends)
                n_records += part.n_lines
                self._report.bytes_read += int(offsets[-1][-1]) - self.offset
            self._take(self._block, part)
        return (join_tables(tables), np.concatenate(offsets)) if tables else None

    def _take(self, block: Block, part: Block) -> None:
        self.offset = part.start + int(part.ends[-1])
        self.line += part.n_lines
        has_more = part.n_lines < block.n_lines
        self._block = block.part(part.n_lines, block.n_lines) if has_more else None


class LineFile:
    """The new records of one open file.

    Parameters
    ----------
    file
        The file; kept open, so that what is read is the file that was verified. Closed with this.
    lines
        Batches of its lines, from the place on.
    place
        Where to begin.
    path
        What its positions call it.
    key
        Key of the digests in its positions.
    generation
        Which of the files at its path it is.
    """

    def __init__(
        self,
        file: TextFile,
        lines: LineBatcher,
        place: FilePlace,
        *,
        path: str,
        key: DigestKey,
        generation: int = 0,
    ) -> None:
        self.name = lines.name
        self.source = identify(file.file.fileno()).source
        """The source of its positions."""
        self._path = path
        self._generation = generation
        self._file = file
        self._lines = lines
        self._key = key
        self._place = place  # up to which bytes were digested: at most what was handed out
        self._cutter = LineCutter(offset=place.offset, n_lines=place.line)
        self._end = place.offset  # behind what was read of the file
        self._tail = self.tail
        self.first_position = self.position
        """Where it was when it was opened."""
        if lines.parser.needs_header and place.offset:
            self._reread_header()

    @property
    def is_begun(self) -> bool:
        """True if it is a file of records: if its header, where it needs one, was read."""
        return not self._lines.parser.needs_header

    @property
    def place(self) -> FilePlace:
        """The place behind the last line that was handed out."""
        return self._advance(self._lines.offset, self.line)

    @property
    def position(self) -> Position:
        """The position there."""
        return self._make_position(self._lines.offset, self.line)

    @property
    def tail(self) -> bytes:
        """The last bytes before that place."""
        n_bytes = min(TAIL_BYTES, self._lines.offset)
        return os.pread(self._file.fileno(), n_bytes, self._lines.offset - n_bytes)

    @property
    def line(self) -> int:
        """Number of lines that were handed out, the header among them."""
        return self._lines.line

    @property
    def status(self) -> os.stat_result:
        """Its present size and times."""
        return os.fstat(self._file.file.fileno())

    @property
    def size(self) -> int:
        """Present number of bytes of its lines."""
        return os.fstat(self._file.fileno()).st_size

    @property
    def has_partial_line(self) -> bool:
        """True if bytes without a line end are left, once nothing else is."""
        return self._cutter.has_partial_line

    @property
    def caveats(self) -> list[str]:
        """See ``LineParser``."""
        return self._lines.parser.caveats

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
        LedgerError
            It was cut. Nothing of what it holds now was handed out.
        RecordError
            Its header lacks a column.
        """
        found = self._lines.read(lambda: self._fetch(finish))
        if found is None:
            return None
        table, offsets = found
        first = self.line - len(offsets)
        return RecordBatch.of_table(
            table, lambda i: self._make_position(int(offsets[i]), first + i + 1)
        )

    def _fetch(self, finish: bool) -> Block | None:
        while (data := self._read_on()) or self._file.is_outdated:
            if not data:
                self._renew()
            elif (block := self._cutter.feed(data)) is not None:
                return block
        # Without its end a header may have half a name.
        return self._cutter.finish() if finish and self.is_begun else None

    def _read_on(self) -> bytes:
        n_tail = len(self._tail)
        # The bytes before are read again with the new ones: they differ if the file was cut.
        chunk = os.pread(self._file.fileno(), n_tail + _CHUNK_BYTES, self._end - n_tail)
        if chunk[:n_tail] != self._tail:
            raise refuse_changed(self.name)
        data = chunk[n_tail:]
        self._end += len(data)
        self._tail = chunk[-TAIL_BYTES:]
        return data

    def _renew(self) -> None:
        """Make the lines of a file anew that has changed: what was handed out must be as it was."""
        offset, line = self._lines.offset, self.line
        before = self._place.advance(self._file, offset=offset, line=line)
        self._file.renew()
        now = begin(self._key).advance(self._file, offset=offset, line=line)
        if now.running.digest() != before.running.digest():
            raise refuse_changed(self.name)
        self._cutter = LineCutter(offset=offset, n_lines=line)
        self._end, self._tail = offset, self.tail

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
        parser, place = self._lines.parser, 0
        while parser.needs_header:
            line = b""
            while b"\n" not in line and (data := os.pread(self._file.fileno(), 1 << 16, place)):
                part = data[: data.find(b"\n") + 1] or data
                line, place = (line + part)[: MAX_LINE_BYTES + 1], place + len(part)
                if part.endswith(b"\n"):
                    break
            parser.read_header(line.removeprefix(BOM), self.name)


@declared
class LineFileSettings(FileLayout, LocalSettings, TextSettings):
    """Settings of a source that reads files of lines."""

    copies: Literal["refuse", "new_records"] | None = member(
        "The meaning of a file that may be a copy of another, by its name and age: `refuse`, or "
        "`new_records`, where no file repeats records of another, as you declare. Default: "
        "`refuse`, and a stream does not join where there is one.",
        default=None,
    )

    def __post_init__(self) -> None:
        TextSettings.__post_init__(self)
        if self.records and self.format != "jsonl":
            raise ConfigError(
                "cannot be combined with a format other than JSON",
                field="records",
                fix="remove it, or state jsonl as the format",
            )


class LineFileSource(LocalSource):
    """Source that reads files of lines, one after the other; see ``RecordSource``."""

    _settings: LineFileSettings

    def _read_lines(
        self, file: TextFile, place: FilePlace, *, name: str, path: str, generation: int = 0
    ) -> LineFile:
        lines = LineBatcher(
            self._mapping.make_parser(self._settings),
            self._mapping,
            self.report,
            name=name,
            offset=place.offset,
            line=place.line,
        )
        return LineFile(file, lines, place, path=path, key=self._key, generation=generation)
