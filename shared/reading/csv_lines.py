"""Write lines of CSV, and parse them: in bulk where they are plain, else one by one.

The line is the definition: every line is one record, also a blank one, and one that repeats the
header. Fields may be quoted, but a record ends with its line. All ways to parse give the same
records and differ in speed alone: pyarrow where it is asked for, ``numpy.loadtxt`` for numbers, a
split in one go for other plain text. A block with quotes, gaps or garbage is cut into ever smaller
parts, of which the smallest are parsed line by line.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress

import numpy as np

from sfumato.shared.core import Columns, Records
from sfumato.shared.errors import RecordError
from sfumato.shared.reading.arrow import find_arrow_levels, find_pyarrow
from sfumato.shared.reading.intact import split_intact
from sfumato.shared.reading.layout import BLANKS, PLAIN_TEXT, Layout
from sfumato.shared.reading.lines import BOM, MAX_LINE_BYTES, Block
from sfumato.shared.reading.records import (
    Fields,
    RecordTable,
    join_records,
    join_tables,
    make_table,
    read_number,
    read_numbers,
)
from sfumato.shared.reading.spelling import PLAIN

_CAREFUL_LINES = 32
"""Parts of so many lines are parsed line by line rather than cut further."""
_CUTS = 8

# The quote stands before what must be before it: so the search can jump from quote to quote.
_QUOTED = re.compile(rb'"(?<![^,\n]")[^"\r\n]*+(?:""[^"\r\n]*+)*+"(?![^,\r\n])')
"""A quoted field that no two readers of CSV understand differently."""

_BETWEEN = re.compile(rb"[ \t]+")
# Each run of blanks is looked at once, however long it is.
_AROUND = re.compile(rb"^[ \t]++|(?<![ \t])[ \t]++(?=\r?$)", re.MULTILINE)

_FORMULA = ("=", "+", "-", "@", "\t", "\r")

_MISSING = ("", "NA", "N/A", "NaN", "nan", "NULL", "null", "None", "-", "?")
"""Usual ways to write that a value is missing: pyarrow need not give up at them."""


def split_line(line: str, delimiter: str = ",") -> list[str] | None:
    """Split one record at its delimiters, or at ``BLANKS``, respecting quotes.

    None if the quotes do not match, or an end of line stands outside them: readers understand such
    a line differently.
    """
    if delimiter == BLANKS:
        line, delimiter = _join_blanks(line.encode()).decode(), "\t"
    if '"' not in line:
        return None if "\r" in line or "\n" in line else line.split(delimiter)
    # Loaded where a line has quotes: few do, and it takes a fifth of a megabyte.
    import csv  # noqa: PLC0415

    try:
        rows = list(csv.reader([line], delimiter=delimiter, strict=True))
    except csv.Error:
        return None
    return rows[0] if len(rows) == 1 and line[-1] not in "\r\n" else None


def write_lines(rows: Iterable[Iterable[object]], *, delimiter: str = ",", end: str = "\n") -> str:
    """Return lines of CSV; a text that a spreadsheet would run as a formula gets an apostrophe."""
    import csv  # noqa: PLC0415

    written = io.StringIO()
    writer = csv.writer(written, delimiter=delimiter, lineterminator=end)
    writer.writerows(map(_disarm, row) for row in rows)
    return written.getvalue()


def _disarm(cell: object) -> object:
    is_text = isinstance(cell, str) and cell.startswith(_FORMULA) and math.isnan(read_number(cell))
    return f"'{cell}" if is_text else cell


class CsvParser:
    """The records of one CSV file; see ``LineParser``. May be shared by threads.

    Parameters
    ----------
    fields
        What is read.
    layout
        How lines are laid out.
    use_arrow
        Whether ``parse_values`` uses pyarrow where it is installed. Changes no value.
    """

    def __init__(
        self, fields: Fields, layout: Layout = PLAIN_TEXT, *, use_arrow: bool = False
    ) -> None:
        self._fields, self._layout = fields, layout
        self._encoding = layout.line_encoding
        self._has_blanks = layout.delimiter == BLANKS
        self._delimiter = "\t" if self._has_blanks else layout.delimiter
        self._numeric = f"0123456789+-.eE{self._delimiter}\n".encode()
        self._places: list[int] = []
        self._n_fields = 0
        self._n_before = 0
        is_plain = fields.spelling == PLAIN and not fields.keys
        use_arrow = use_arrow and is_plain and (self._encoding, self._delimiter) == ("utf-8", ",")
        self._arrow = find_pyarrow("pyarrow") if use_arrow else None
        self._arrow_csv = find_pyarrow("pyarrow.csv") if use_arrow else None
        self.needs_header = not layout.header or layout.skip_lines > 0
        if layout.header:
            self._set_header(layout.header, "the settings")

    def read_header(self, line: bytes, where: str) -> None:
        """See ``LineParser``."""
        self._n_before += 1
        if self._n_before <= self._layout.skip_lines:
            self.needs_header = self._n_before < self._layout.skip_lines or not self._layout.header
            return
        comment = self._layout.comment.encode(self._encoding)
        if comment and line.lstrip().startswith(comment):
            return
        names = None
        with suppress(UnicodeDecodeError):
            text = line.decode(self._encoding)
            # Excel's own line: it says how the fields are separated.
            if text.startswith("sep=") and len(_strip_end(text)) == len("sep=") + 1:
                self._require_separator(text[len("sep=")], where)
                return
            names = self._split(text)
        if names is None or len(line) > MAX_LINE_BYTES:
            raise RecordError(
                f"must be a header in {self._encoding.upper()} with the names of the columns",
                field=f"{where}, line {self._n_before}",
                fix=self._fields.advice,
            )
        self._set_header([name.strip() for name in names], where)
        self.needs_header = False

    def _require_separator(self, stated: str, where: str) -> None:
        if stated != self._delimiter:
            raise RecordError(
                f"says that fields are separated by {stated!r}, and the delimiter is "
                f"{self._delimiter!r}",
                field=f"{where}, line {self._n_before}",
                fix=f'state delimiter = "{stated}"',
            )

    def _set_header(self, names: Sequence[str], where: str) -> None:
        self._places = self._fields.find(names, where)
        self._n_fields = len(names)

    @property
    def caveats(self) -> list[str]:
        """See ``LineParser``; none before the header was read."""
        public = zip(self._places[len(self._fields.values) :], self._fields.public, strict=False)
        return [
            f"the column {name!r} stands behind others, which leave it unreadable where they are "
            "broken; let the program that writes the records put it first"
            for n_public_before, (place, name) in enumerate(sorted(public))
            if place > n_public_before
        ]

    def parse_values(self, block: Block) -> Records:
        """See ``LineParser``."""
        if self._arrow is None:
            return self.parse(block).wanted
        columns = self._parse_with_arrow(block)
        if columns is not None:
            return columns
        if block.n_lines <= _CAREFUL_LINES:
            return self.parse(block).wanted
        return join_records([self.parse_values(part) for part in _cut(block)])

    def parse(self, block: Block) -> RecordTable:
        """See ``LineParser``."""
        if self._has_blanks:
            data = block.data
            if block.may_have_long_line:
                data = b"".join(map(_break_long, block.lines()))
            block = Block(_join_blanks(data), line=block.line, start=block.start)
        return self._parse(block)

    def _parse(self, block: Block) -> RecordTable:
        table = self._parse_plain(block)
        if table is not None:
            return table
        if block.n_lines <= _CAREFUL_LINES:
            return self.parse_by_line(block)
        return join_tables([self._parse(part) for part in _cut(block)])

    def _parse_with_arrow(self, block: Block) -> Columns | None:
        data = block.data
        # A carriage return alone ends a line for some readers and not for others; and a mark of
        # byte order would be dropped, in the line that happens to be the first of a block.
        if data.count(b"\r") != data.count(b"\r\n") or data.startswith(BOM):
            return None
        if block.may_have_long_line or (b'"' in data and b'"' in _QUOTED.sub(b"", data)):
            return None
        assert self._arrow is not None
        assert self._arrow_csv is not None
        names = [str(i) for i in range(self._n_fields)]
        wanted = [names[i] for i in self._places[: len(self._fields.values)]]
        columns = list(zip(wanted, self._fields.columns, strict=True))
        # Of a column that two dimensions read one way each, only lines can give both.
        types = {name: bool(levels) for name, (_, levels) in columns}
        if any(types[name] != bool(levels) for name, (_, levels) in columns):
            return None
        try:
            table = self._arrow_csv.read_csv(
                self._arrow.BufferReader(data),
                read_options=self._arrow_csv.ReadOptions(
                    column_names=names, use_threads=False, block_size=len(data) + 1
                ),
                parse_options=self._arrow_csv.ParseOptions(
                    newlines_in_values=False, ignore_empty_lines=False
                ),
                convert_options=self._arrow_csv.ConvertOptions(
                    column_types={
                        name: self._arrow.string() if is_text else self._arrow.float64()
                        for name, is_text in types.items()
                    },
                    include_columns=list(dict.fromkeys(wanted)),
                    null_values=_MISSING,
                ),
            )
        except self._arrow.ArrowInvalid:
            return None
        return Columns(
            tuple(
                find_arrow_levels(table.column(name), levels)
                if levels
                else table.column(name).to_numpy()
                for name, (_, levels) in columns
            )
        )

    def _parse_plain(self, block: Block) -> RecordTable | None:
        """Return the records of a block that has nothing odd, else None."""
        data = block.data.replace(b"\r\n", b"\n")
        data = data if data.endswith(b"\n") else data + b"\n"
        if block.may_have_long_line:
            return None
        try:
            text = data.decode(self._encoding)
        except UnicodeDecodeError:
            return None
        # From here on the text counts: part of a larger character may look like a delimiter.
        octets = data if data.isascii() else text.encode()
        if b'"' in octets or b"\r" in octets or not self._is_regular(octets, block.n_lines):
            return None
        # Times and ids may need more digits than floats have.
        is_numeric = self._fields.spelling == PLAIN and not (
            self._fields.public or self._fields.has_levels
        )
        if is_numeric and not octets.isspace() and not octets.translate(None, self._numeric):
            table = self._parse_numbers(text, block.n_lines)
            if table is not None:
                return table
        cells = text.replace("\n", self._delimiter).split(self._delimiter)
        columns = [cells[i : -1 : self._n_fields] for i in self._places]
        return self._fields.make_table(columns, read=read_numbers)

    def _is_regular(self, octets: bytes, n_lines: int) -> bool:
        """Return whether every line has as many fields as the header."""
        codes = np.frombuffer(octets, dtype=np.uint8)
        marks = codes[(codes == ord(self._delimiter)) | (codes == ord("\n"))]
        if len(marks) != n_lines * self._n_fields:
            return False
        grid = marks.reshape(n_lines, self._n_fields) == ord("\n")
        return bool(grid[:, -1].all() and not grid[:, :-1].any())

    def _parse_numbers(self, text: str, n_lines: int) -> RecordTable | None:
        try:
            cells = np.loadtxt(
                io.StringIO(text),
                delimiter=self._delimiter,
                comments=None,
                usecols=self._places,
                ndmin=2,
            )
        except ValueError:
            return None
        # A blank line of a single column is a record, and NumPy skips it.
        if len(cells) != n_lines:
            return None
        return make_table(cells)

    def parse_by_line(self, block: Block) -> RecordTable:
        """Parse a block line by line: slow, and the definition; see ``parse``."""
        d = len(self._fields.values)
        rows: list[list[str]] = []
        damaged: dict[int, str] = {}
        for i, line in enumerate(block.lines()):
            # Bytes that are no text matter to their own field alone.
            text = line[:MAX_LINE_BYTES].decode(self._encoding, "replace")
            is_cut = len(line) > MAX_LINE_BYTES
            fields = None if is_cut else self._split(text)
            if fields is not None and len(fields) == self._n_fields:
                rows.append([fields[k] for k in self._places])
                continue
            # Which field is missing is unknown, so none can be trusted but those that are public.
            damaged[i] = "line" if fields is None else "number of fields"
            if fields is None:
                fields = split_intact(_strip_end(text), self._delimiter, is_cut=is_cut)
            public = [fields[k] if k < len(fields) else "" for k in self._places[d:]]
            rows.append([""] * d + public)
        return self._fields.make_table(list(zip(*rows, strict=True)), damaged, read=read_numbers)

    def read_texts(self, line: bytes) -> list[str] | None:
        """See ``LineParser``."""
        fields = self._split(line[:MAX_LINE_BYTES].decode(self._encoding, "replace"))
        if fields is None or len(fields) != self._n_fields:
            return None
        return [fields[k] for k in self._places]

    def _split(self, text: str) -> list[str] | None:
        return split_line(_strip_end(text), self._layout.delimiter)


def _break_long(line: bytes) -> bytes:
    """Return a line that is too long as one that is broken behind its first whole fields.

    Before blanks are joined, for how many of them are kept of a long line is chance.
    """
    if len(line) <= MAX_LINE_BYTES:
        return line
    kept = line[:MAX_LINE_BYTES]
    return kept[: max(kept.rfind(b" "), kept.rfind(b"\t")) + 1] + b'"\n'


def _join_blanks(data: bytes) -> bytes:
    """Return lines with one tab for all spaces and tabs between two fields, and none around."""
    return _BETWEEN.sub(b"\t", _AROUND.sub(b"", data))


def _strip_end(text: str) -> str:
    return text.removesuffix("\n").removesuffix("\r")


def _cut(block: Block) -> list[Block]:
    return block.cut(max(_CAREFUL_LINES, -(-block.n_lines // _CUTS)))
