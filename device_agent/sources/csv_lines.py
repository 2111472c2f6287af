"""Lines of CSV into arrays: whole blocks by numpy where they are plain, else line by line.

Every line is one record, also a blank one, and one that repeats the header. All three ways give the
same records; they differ in speed alone. Blocks of numbers go through ``numpy.loadtxt``, blocks
with other plain columns are split in one go, and whatever has quotes, gaps or garbage is cut into
ever smaller parts and read with care.
"""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from device_agent.sources.fields import NAN
from device_agent.sources.intact import split_intact
from device_agent.sources.interface import ReadingReport
from device_agent.sources.mapping import RecordMapping, RecordTable
from device_agent.sources.parsers import MAX_LINE_BYTES, Block, join_tables
from device_agent.sources.settings import TextSettings
from shared.core.text import read_number, split_line
from shared.errors import RecordError

_CAREFUL_LINES = 32
"""Parts of this many lines are read with care at once rather than cut further."""
_CUTS = 8


class CsvParser:
    """The records of one CSV file; see ``LineParser``."""

    def __init__(self, settings: TextSettings, mapping: RecordMapping) -> None:
        self._mapping = mapping
        self._encoding = settings.encoding
        self._delimiter = settings.delimiter
        self._numeric = f"0123456789+-.eE{settings.delimiter}\n".encode()
        self._header: list[str] | None = None
        self._fields: list[int] = []
        self.needs_header = not settings.header
        if settings.header:
            self._set_header(list(settings.header), "[streams.source]")

    def read_header(self, line: bytes, where: str) -> None:
        """See ``LineParser``."""
        names = self._split(line)
        if names is None:
            raise RecordError(
                "must be a header in UTF-8 with the names of the columns"
                if self._encoding == "utf-8"
                else f"must be a header in {self._encoding} with the names of the columns",
                field=f"{where}, line 1",
                fix="correct it, or state encoding, delimiter or header in [streams.source]",
            )
        self._set_header([name.strip() for name in names], where)
        self.needs_header = False

    def _set_header(self, names: list[str], where: str) -> None:
        self._fields = self._mapping.find(names, where)
        self._header = names

    @property
    def caveats(self) -> list[str]:
        """See ``LineParser``; none before the header was read."""
        if self.needs_header:
            return []
        public = zip(self._fields[len(self._mapping.names) :], self._mapping.public, strict=True)
        return [
            f"the column {name!r} stands behind others, which leave it unreadable where they are "
            "broken; let the program that writes the records put it first"
            for n_public_before, (place, name) in enumerate(sorted(public))
            if place > n_public_before
        ]

    def parse(self, block: Block, report: ReadingReport) -> RecordTable:
        """See ``LineParser``."""
        n_lines = len(block.ends)
        table = self._parse_plain(block)
        if table is not None:
            self._mapping.note(table, report, block.places)
            return table
        if n_lines <= _CAREFUL_LINES:
            return self._parse_carefully(block, report)
        step = max(_CAREFUL_LINES, -(-n_lines // _CUTS))
        parts = [block.part(first, min(first + step, n_lines)) for first in range(0, n_lines, step)]
        return join_tables([self.parse(part, report) for part in parts])

    def _parse_plain(self, block: Block) -> RecordTable | None:
        """Return the records of a block that has nothing odd, else None."""
        if b'"' in block.data or not block.data.strip() or block.longest > MAX_LINE_BYTES:
            return None
        data = block.data.replace(b"\r\n", b"\n")
        data = data if data.endswith(b"\n") else data + b"\n"
        numeric = not data.translate(None, self._numeric)
        if numeric and (self._mapping.timestamp is None or self._mapping.unix_scale is not None):
            return self._parse_numbers(data, len(block.ends))
        return self._parse_columns(data, len(block.ends))

    def _parse_numbers(self, data: bytes, n_lines: int) -> RecordTable | None:
        try:
            cells = np.loadtxt(
                io.StringIO(data.decode("ascii")),
                delimiter=self._delimiter,
                comments=None,
                ndmin=2,
            )
        except ValueError:
            return None
        if cells.shape != (n_lines, len(self._header or ())):
            return None
        return self._convert([cells[:, i] for i in self._fields])

    def _parse_columns(self, data: bytes, n_lines: int) -> RecordTable | None:
        n_fields = len(self._header or ())
        if b"\r" in data or not _is_regular(data, ord(self._delimiter), n_lines, n_fields):
            return None
        try:
            text = data.decode(self._encoding)
        except UnicodeDecodeError:
            return None
        cells = text.replace("\n", self._delimiter).split(self._delimiter)
        if len(cells) != n_lines * n_fields + 1:
            return None
        suspect = b"_" in data or not data.isascii()
        columns: list[NDArray[np.float64]] = []
        for k, i in enumerate(self._fields):
            cell_column = cells[i:-1:n_fields]
            column = (
                self._read_times(cell_column)
                if self._is_time(k) and self._mapping.unix_scale is None
                else _read_numbers(cell_column, suspect)
            )
            if column is None:
                return None
            columns.append(column)
        return self._convert(columns)

    def _is_time(self, k: int) -> bool:
        return self._mapping.timestamp is not None and k == len(self._mapping.names)

    def _read_times(self, cells: list[str]) -> NDArray[np.float64]:
        return np.fromiter(map(self._mapping.read_time, cells), np.float64, len(cells))

    def _convert(self, columns: list[NDArray[np.float64]]) -> RecordTable | None:
        """Return the fields' columns as records; None if a number is not finite."""
        d, mapping = len(self._mapping.names), self._mapping
        raw = np.column_stack(columns[:d])
        if not np.isfinite(raw).all():
            return None
        missing = np.full(len(raw), NAN)
        times = columns[d] if mapping.timestamp is not None else missing
        if mapping.timestamp is not None and mapping.unix_scale is not None:
            times = mapping.read_unix(times)
        ids = columns[-1] if mapping.identity is not None else missing
        return RecordTable(values=mapping.convert(raw), timestamps=times, ids=ids)

    def _parse_carefully(self, block: Block, report: ReadingReport) -> RecordTable:
        n_fields, d = len(self._header or ()), len(self._mapping.names)
        rows: list[list[str]] = []
        broken: dict[int, str] = {}
        for i, line in enumerate(block.lines()):
            fields = self._split(line)
            if fields is not None and len(fields) == n_fields:
                rows.append([fields[k] for k in self._fields])
                continue
            # Which field is missing is unknown, so none can be trusted but those that are public.
            broken[i] = "line" if fields is None else "number of fields"
            fields = self._split_intact(line) if fields is None else fields
            public = [fields[k] if k < len(fields) else "" for k in self._fields[d:]]
            rows.append([""] * d + public)
        return self._read_rows(rows, broken, report, block.places)

    def _read_rows(
        self,
        rows: list[list[str]],
        broken: dict[int, str],
        report: ReadingReport,
        numbers: Sequence[int],
    ) -> RecordTable:
        d, mapping = len(self._mapping.names), self._mapping
        values = np.array([[read_number(text) for text in row[:d]] for row in rows])
        values = mapping.convert(values.reshape(len(rows), d))
        timestamps, ids = np.full(len(rows), NAN), np.full(len(rows), NAN)
        for i, row in enumerate(rows):
            bad = np.isnan(values[i])
            if bad.any():
                name = broken.get(i) or mapping.names[int(bad.argmax())]
                report.add_unusable(numbers[i], name)
            if mapping.timestamp is not None:
                timestamps[i] = mapping.read_time(row[d])
                if np.isnan(timestamps[i]):
                    report.add_untimed(numbers[i], mapping.timestamp)
            if mapping.identity is not None:
                ids[i] = read_number(row[-1])
        return RecordTable(values=values, timestamps=timestamps, ids=ids)

    def _split(self, line: bytes) -> list[str] | None:
        if len(line) > MAX_LINE_BYTES:
            return None
        try:
            text = line.decode(self._encoding)
        except UnicodeDecodeError:
            return None
        return split_line(text.rstrip("\r\n"), self._delimiter)

    def _split_intact(self, line: bytes) -> list[str]:
        is_cut = len(line) > MAX_LINE_BYTES
        text = line[:MAX_LINE_BYTES].decode(self._encoding, "replace")
        return split_intact(text if is_cut else text.rstrip("\r\n"), self._delimiter, is_cut=is_cut)


def _read_numbers(cells: list[str], suspect: bool) -> NDArray[np.float64] | None:
    if suspect:
        joined = "".join(cells)
        if "_" in joined or not joined.isascii():
            return None
    try:
        return np.fromiter(map(float, cells), np.float64, len(cells))
    except ValueError:
        return None


def _is_regular(data: bytes, delimiter: int, n_lines: int, n_fields: int) -> bool:
    """Return whether every line has as many fields as the header."""
    codes = np.frombuffer(data, dtype=np.uint8)
    marks = codes[(codes == delimiter) | (codes == ord("\n"))]
    if len(marks) != n_lines * n_fields:
        return False
    grid = marks.reshape(n_lines, n_fields) == ord("\n")
    return bool(grid[:, -1].all() and not grid[:, :-1].any())
