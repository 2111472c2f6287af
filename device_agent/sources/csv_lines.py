"""Lines of CSV into arrays: whole blocks by numpy where they are plain, else line by line.

All three ways give the same records; they differ in speed alone. Blocks of numbers go through
``numpy.loadtxt``, blocks with other plain columns are split in one go, and whatever has quotes,
gaps or garbage is cut into ever smaller parts and read with care.
"""

from __future__ import annotations

import io
import math

import numpy as np
from numpy.typing import NDArray

from device_agent.source_settings import TextSettings
from device_agent.sources.fields import NAN
from device_agent.sources.interface import ReadingReport
from device_agent.sources.mapping import RecordMapping, RecordTable
from device_agent.sources.parsers import MAX_LINE_BYTES, Block, Parsed, join_parsed
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
        if names is None or len(line) > MAX_LINE_BYTES:
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
        # Names that are numbers would make a header line look like a record.
        self._tells_headers = any(math.isnan(read_number(name)) for name in self._mapping.names)

    def parse(self, block: Block, report: ReadingReport, where: str) -> Parsed:
        """See ``LineParser``."""
        n_lines = len(block.ends)
        table = self._parse_plain(block)
        if table is not None:
            self._mapping.note(table, report, range(block.line, block.line + n_lines))
            return Parsed(table=table, ends=block.ends)
        if n_lines <= _CAREFUL_LINES:
            return self._parse_carefully(block, report, where)
        step = max(_CAREFUL_LINES, -(-n_lines // _CUTS))
        parts, offsets = [], []
        for first in range(0, n_lines, step):
            part = block.part(first, min(first + step, n_lines))
            parts.append(self.parse(part, report, where))
            offsets.append(int(block.ends[first - 1]) if first else 0)
            if parts[-1].error is not None:
                break
        return join_parsed(parts, offsets)

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

    def _parse_carefully(self, block: Block, report: ReadingReport, where: str) -> Parsed:
        n_fields, width = len(self._header or ()), len(self._fields)
        rows: list[list[str]] = []
        ends, numbers = [], []
        broken: dict[int, str] = {}
        error = None
        number = block.line
        for line, end in zip(block.lines(), block.ends.tolist(), strict=True):
            fields = self._split(line) if len(line) <= MAX_LINE_BYTES else None
            if n_fields == 1 or line.strip():
                stripped = [field.strip() for field in fields or ()]
                if stripped != self._header or not self._tells_headers:
                    if self._is_other_header(stripped):
                        error = _refuse_header(where, number)
                        break
                    if fields is None or len(fields) != n_fields:
                        # Which field is missing is unknown, so none can be trusted, nor the time.
                        broken[len(rows)] = "line" if fields is None else "number of fields"
                        rows.append([""] * width)
                    else:
                        rows.append([fields[i] for i in self._fields])
                    ends.append(end)
                    numbers.append(number)
            number += line.count(b"\n")
        table = self._read_rows(rows, broken, report, numbers)
        return Parsed(table=table, ends=np.array(ends, dtype=np.int64), error=error)

    def _read_rows(
        self,
        rows: list[list[str]],
        broken: dict[int, str],
        report: ReadingReport,
        numbers: list[int],
    ) -> RecordTable:
        d, mapping = len(self._mapping.names), self._mapping
        values = np.array([[read_number(text) for text in row[:d]] for row in rows])
        values = mapping.convert(values.reshape(len(rows), d))
        timestamps, ids = np.full(len(rows), NAN), np.full(len(rows), NAN)
        for i, row in enumerate(rows):
            if i in broken:
                report.add_unusable(numbers[i], broken[i])
                continue
            bad = np.isnan(values[i])
            if bad.any():
                report.add_unusable(numbers[i], mapping.names[int(bad.argmax())])
            if mapping.timestamp is not None:
                timestamps[i] = mapping.read_time(row[d])
                if np.isnan(timestamps[i]):
                    report.add_untimed(numbers[i], mapping.timestamp)
            if mapping.identity is not None:
                ids[i] = read_number(row[-1])
        return RecordTable(values=values, timestamps=timestamps, ids=ids)

    def _split(self, line: bytes) -> list[str] | None:
        try:
            text = line.decode(self._encoding)
        except UnicodeDecodeError:
            return None
        return split_line(text.rstrip("\r\n"), self._delimiter)

    def _is_other_header(self, fields: list[str]) -> bool:
        """Tell whether a line names all columns that are read: they may have changed places."""
        needed = set(self._mapping.fields)
        return self._tells_headers and needed <= set(fields)


def _refuse_header(where: str, number: int) -> RecordError:
    return RecordError(
        "is a header with other columns than the first; what is before it was read",
        field=f"{where}, line {number}",
        fix="begin a new file where the columns change",
    )


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
    """Tell whether every line has as many fields as the header."""
    codes = np.frombuffer(data, dtype=np.uint8)
    marks = codes[(codes == delimiter) | (codes == ord("\n"))]
    if len(marks) != n_lines * n_fields:
        return False
    grid = marks.reshape(n_lines, n_fields) == ord("\n")
    return bool(grid[:, -1].all() and not grid[:, :-1].any())
