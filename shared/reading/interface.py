"""The interfaces of formats: lines of text, and files of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from sfumato.shared.core import Records
from sfumato.shared.core.masks import BLOCK_RECORDS
from sfumato.shared.reading.files import WatchedFile
from sfumato.shared.reading.layout import PLAIN_TEXT, Layout
from sfumato.shared.reading.lines import Block
from sfumato.shared.reading.records import Fields, RecordTable


class LineParser(Protocol):
    """Turns blocks of lines into records, in any order, on any thread.

    Guarantees
    ----------
    Every line behind the header is one record, whatever it holds, and what it becomes depends on no
    other line but the header. Its time and id depend on nothing behind them in their line.
    """

    @property
    def needs_header(self) -> bool:
        """True while lines stand before the records: a header, or what is skipped before it."""
        ...

    @property
    def caveats(self) -> list[str]:
        """Warnings for the owner about fields that can disturb the time or id of their record."""
        ...

    def read_header(self, line: bytes, where: str) -> None:
        """Take the next line before the records: learn the columns, skip it, or refuse it."""
        ...

    def parse(self, block: Block) -> RecordTable:
        """Return as many records as there are lines."""
        ...

    def read_texts(self, line: bytes) -> Sequence[str] | None:
        """Return what a line spells for each of ``Fields.names``, to show it to a person.

        None if it cannot be split into fields.
        """
        ...

    def parse_values(self, block: Block) -> Records:
        """Return the values that are wanted of ``parse``, perhaps faster.

        An infinite one may stand for NaN.
        """
        ...


class RowFile(Protocol):
    """A file that states the number and the types of its rows; each row is a record.

    Guarantees
    ----------
    What a row becomes depends on no other row.
    """

    @property
    def n_records(self) -> int:
        """Number of rows."""
        ...

    def tables(
        self, *, first: int = 0, most_rows: int = BLOCK_RECORDS, n_threads: int = 1
    ) -> Iterator[RecordTable]:
        """Yield the records from row ``first`` on, at most ``most_rows``, a power of two, a table.

        Raises
        ------
        RecordError
            The file is damaged, or shrinks meanwhile.
        """
        ...


def make_parser(
    form: str, fields: Fields, layout: Layout = PLAIN_TEXT, *, use_arrow: bool = False
) -> LineParser:
    """Return a new parser of one file of ``csv``, ``influx`` or JSON lines; see ``CsvParser``."""
    # Only what is used is imported: a device is small.
    if form == "csv":
        from sfumato.shared.reading.csv_lines import CsvParser  # noqa: PLC0415

        return CsvParser(fields, layout, use_arrow=use_arrow)
    if form == "influx":
        from sfumato.shared.reading.line_protocol import LineProtocolParser  # noqa: PLC0415

        return LineProtocolParser(fields, encoding=layout.line_encoding)
    from sfumato.shared.reading.json_lines import JsonLinesParser  # noqa: PLC0415

    return JsonLinesParser(fields, encoding=layout.line_encoding)


def open_rows(form: str, file: WatchedFile, fields: Fields) -> RowFile:
    """Return the rows of an open file, ``npy`` or ``parquet``.

    Raises
    ------
    ConfigError
        pyarrow is not installed, and the format needs it.
    RecordError
        The file is of another format, or cut short; or a column is missing or holds no numbers.
    """
    if form == "npy":
        from sfumato.shared.reading.npy import NpyRows  # noqa: PLC0415

        return NpyRows(file, fields)
    from sfumato.shared.reading.parquet import ParquetRows  # noqa: PLC0415

    return ParquetRows(file, fields)


_TABLE_BYTES = 1 << 23


def choose_rows(most_rows: int, bytes_per_record: int) -> int:
    """Return how many rows to read at a time: ``most_rows``, halved until they fit into memory.

    Then no table crosses the boundary of a block of masks, where a masked sketch starts anew.
    """
    rows = most_rows
    while rows > 1 and rows * bytes_per_record > _TABLE_BYTES:
        rows //= 2
    return rows
