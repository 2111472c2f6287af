"""The records of one file, in order, in memory that does not grow with the file."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from typing import Protocol

from shared.core import Records
from shared.core.parallel import map_in_order
from shared.errors import ConfigError
from shared.reading import (
    BOM,
    MAX_LINE_BYTES,
    Block,
    Fields,
    LineCutter,
    WatchedFile,
    make_parser,
    open_rows,
)

BLOCK_BYTES = 1 << 22


class RecordReader(Protocol):
    """Reads the records of one file, once."""

    @property
    def n_records(self) -> int | None:
        """Records in the file, where that is known before they are read."""
        ...

    @property
    def bytes_read(self) -> int:
        """Bytes of the file that were read so far; an estimate for files of rows."""
        ...

    def batches(self, n_threads: int) -> Generator[Records, None, None]:
        """Yield all records, in order; ``n_threads`` may help to read them.

        Raises
        ------
        RecordError
            The file is damaged, or shrinks meanwhile.
        """
        ...


class LineReader:
    """The records of a file of lines: blocks of bytes cut at line ends, parsed on threads."""

    n_records = None

    def __init__(self, file: WatchedFile, fields: Fields, form: str) -> None:
        self._file = file
        self._parser = make_parser(form, fields, use_arrow=True)
        self._cutter, self.bytes_read = LineCutter(), 0
        if self._parser.needs_header:
            name, end, _ = file.read(MAX_LINE_BYTES + 1).partition(b"\n")
            self._parser.read_header((name + end).removeprefix(BOM), str(file.path))
            self.bytes_read = len(name + end)
            self._cutter = LineCutter(offset=self.bytes_read, n_lines=1)

    def batches(self, n_threads: int) -> Generator[Records, None, None]:
        """See ``RecordReader``; blocks are parsed on ``n_threads`` threads."""
        parsed = map_in_order(self._parser.parse_values, self._cut(), n_threads=n_threads)
        with closing(parsed) as found:
            yield from found

    def _cut(self) -> Iterator[Block]:
        for chunk in self._file.chunks(BLOCK_BYTES, self.bytes_read):
            block = self._cutter.feed(chunk)
            self.bytes_read += len(chunk)
            if block is not None:
                yield block
        last = self._cutter.finish()
        if last is not None:
            yield last


class RowReader:
    """The records of a file of rows."""

    def __init__(self, file: WatchedFile, fields: Fields, form: str) -> None:
        self._size = file.size
        self._rows = open_rows(form, file, fields)
        self.n_records = self._rows.n_records
        self.bytes_read = 0

    def batches(self, n_threads: int) -> Generator[Records, None, None]:
        """See ``RecordReader``."""
        n_read = 0
        for table in self._rows.tables(n_threads=n_threads):
            n_read += len(table.values)
            self.bytes_read = self._size * n_read // self.n_records
            yield table.values


FORMATS: dict[str, Callable[[WatchedFile, Fields, str], RecordReader]] = {
    ".csv": LineReader,
    ".jsonl": LineReader,
    ".npy": RowReader,
    ".parquet": RowReader,
}


def open_reader(file: WatchedFile, fields: Fields) -> RecordReader:
    """Return the reader of a file, whose name says its format.

    Raises
    ------
    ConfigError, RecordError
        The format is unknown, or the file is not of it; or a column is missing.
    """
    suffix = file.path.suffix.lower()
    if suffix not in FORMATS:
        raise ConfigError(
            f"ends with none of {', '.join(FORMATS)}",
            field=str(file.path),
            fix="name the file by its format, or convert it",
        )
    return FORMATS[suffix](file, fields, suffix.removeprefix("."))


def choose_fields(dimensions: Sequence[str], options: Sequence[str] = ()) -> Fields:
    """Return the fields that ``dimension=column`` options name; the plan names all others.

    Raises
    ------
    ConfigError
        An option has another form, or names no dimension, or one that has a column already.
    """
    given: dict[str, str] = {}
    for option in options:
        dimension, equals, column = option.partition("=")
        if not equals or not column or dimension not in dimensions or dimension in given:
            raise ConfigError(
                f"must be DIMENSION=COLUMN, once a dimension, and is {option!r}",
                field="--column",
                fix=f"the plan's dimensions are {', '.join(dimensions)}",
            )
        given[dimension] = column
    return Fields(
        values=tuple(given.get(name, name) for name in dimensions),
        are_chosen=bool(given),
        advice="name the column with --column DIMENSION=COLUMN, or correct the header; in CSV it "
        "is one line of UTF-8, and columns are separated by commas",
        shows_header=True,
    )
