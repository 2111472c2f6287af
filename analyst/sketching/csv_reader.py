"""CSV files: blocks of bytes cut at line ends, parsed on several threads."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing

from analyst.sketching.csv_blocks import MAX_LINE_BYTES, Block, BlockParser
from analyst.sketching.interface import ColumnNames, find_columns
from analyst.sketching.watched import WatchedFile
from shared.core import Records
from shared.core.parallel import map_in_order
from shared.core.text import split_line
from shared.errors import RecordError

BLOCK_BYTES = 1 << 22

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class CsvReader:
    """The records of a CSV file: a header, then one record a line.

    UTF-8, with or without a byte order mark; commas; a point in decimals. Fields may be quoted, but
    a record is one line.

    Guarantees
    ----------
    Every line behind the header is one record, whatever it says. One that is empty, has a value
    that is not a number, another number of fields than the header, a quote that does not end on it,
    or more than ``MAX_LINE_BYTES`` cannot be sketched; it keeps its place and changes no other.

    Raises
    ------
    ConfigError, RecordError
        A column is missing, or the header is not one line of UTF-8 text.
    """

    n_records = None

    def __init__(
        self, file: WatchedFile, columns: ColumnNames, *, block_bytes: int = BLOCK_BYTES
    ) -> None:
        self._file = file
        self._block_bytes = block_bytes
        self.bytes_read = 0
        header, self._start = self._read_header()
        places = find_columns(
            header, columns, path=str(file.path), hint="; columns are separated by commas"
        )
        self._parser = BlockParser(len(header), places)

    def batches(self, n_threads: int) -> Generator[Records, None, None]:
        """Yield all records in order; blocks are parsed on ``n_threads`` threads."""
        parsed = map_in_order(self._parser.parse, self._split(), n_threads=n_threads)
        with closing(parsed) as arrays:
            yield from arrays

    def _split(self) -> Iterator[Block]:
        """Yield blocks that end where a line does; the last may lack a line end."""
        offset, rest = self._start, b""
        while offset < self._file.size:
            piece = bytearray(min(self._block_bytes, self._file.size - offset))
            self._file.fill(memoryview(piece), offset)
            offset += len(piece)
            end = len(piece) if offset == self._file.size else piece.rfind(b"\n") + 1
            if end:
                yield Block(rest + piece[:end])
                rest = b""
            # Of a line that is too long no more is kept than shows that.
            rest += piece[end : end + MAX_LINE_BYTES + 1 - len(rest)]
            self.bytes_read = offset

    def _read_header(self) -> tuple[list[str], int]:
        piece = bytearray(min(MAX_LINE_BYTES, self._file.size))
        self._file.fill(memoryview(piece), 0)
        line, end, _ = bytes(piece).partition(b"\n")
        if not end and len(piece) < self._file.size:
            raise self._refuse(1, f"is longer than {MAX_LINE_BYTES} bytes")
        try:
            text = line.removeprefix(_BYTE_ORDER_MARK).removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            raise self._refuse(1, "is not UTF-8 text") from error
        fields = None if "\r" in text else split_line(text)
        if fields is None:
            raise self._refuse(1, "is not a header of comma-separated names on one line")
        return fields, len(line) + len(end)

    def _refuse(self, line: int, rule: str) -> RecordError:
        return RecordError(
            rule,
            field=f"{self._file.path}, line {line}",
            fix="write a header and one record a line, each line ended by a line feed",
        )
