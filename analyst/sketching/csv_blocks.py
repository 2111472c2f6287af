"""Blocks of CSV lines to numbers: in bulk where a bulk parser is surely right, else line by line.

The line parser is the definition: every line is one record, whatever it says, and one that readers
understand differently has no numbers. A bulk parser gets only blocks that it cannot read
differently, and where it refuses a value the block goes to the line parser, which knows what to do
with it.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyst.sketching.arrow import find_pyarrow
from shared.core import Columns, Records
from shared.core.text import read_number, split_line

_NOT_A_NUMBER = ("", "NA", "N/A", "NaN", "nan", "NULL", "null", "None", "-", "?")
"""Usual ways to write that a value is missing: the bulk parser need not give up at them."""

_QUOTED = re.compile(rb'(?<![^,\n])"[^"\r\n]*+(?:""[^"\r\n]*+)*+"(?![^,\r\n])')
"""A quoted field that no two readers of CSV understand differently."""

MAX_LINE_BYTES = 1 << 20
"""A longer line is a record that cannot be sketched."""

_QUOTED_BYTES = 1 << 17
"""A longer field in quotes is none for the line parser."""

_PLAIN = b"0123456789+-.eE,\r\n"
"""The bytes of a block of plain numbers."""


@dataclass(frozen=True)
class Block:
    """Whole lines of a CSV file: their bytes."""

    data: bytes


class BlockParser:
    """Parses blocks of one file; may be shared by threads.

    Parameters
    ----------
    n_fields
        Fields of a line.
    places
        The field of each dimension.
    use_arrow
        Parse in bulk with pyarrow where it is installed; otherwise with NumPy, which takes blocks
        of plain numbers only and holds the interpreter lock. Changes no value.
    """

    def __init__(self, n_fields: int, places: tuple[int, ...], *, use_arrow: bool = True) -> None:
        self._n_fields, self._places = n_fields, places
        self._arrow = find_pyarrow("pyarrow") if use_arrow else None
        self._arrow_csv = find_pyarrow("pyarrow.csv") if use_arrow else None

    def parse(self, block: Block) -> Records:
        """Return the records of a block, one a line: as many as it has lines."""
        data = block.data
        records: Records | None = None
        # A carriage return alone ends a line for some readers and not for others.
        if data.count(b"\r") == data.count(b"\r\n") and not _may_exceed(data, MAX_LINE_BYTES):
            if self._arrow_csv is not None and _has_clear_quotes(data):
                records = self._parse_with_arrow(self._arrow_csv, data)
            elif not data.translate(None, _PLAIN):
                records = self._parse_with_numpy(data)
        return self.parse_by_line(block) if records is None else records

    def _parse_with_arrow(self, arrow_csv: Any, data: bytes) -> Columns | None:
        assert self._arrow is not None
        names = [str(i) for i in range(self._n_fields)]
        wanted = [names[i] for i in self._places]
        try:
            table = arrow_csv.read_csv(
                self._arrow.BufferReader(data),
                read_options=arrow_csv.ReadOptions(
                    column_names=names, use_threads=False, block_size=len(data) + 1
                ),
                parse_options=arrow_csv.ParseOptions(
                    newlines_in_values=False, ignore_empty_lines=False
                ),
                convert_options=arrow_csv.ConvertOptions(
                    column_types=dict.fromkeys(wanted, self._arrow.float64()),
                    include_columns=list(dict.fromkeys(wanted)),
                    null_values=_NOT_A_NUMBER,
                ),
            )
        except self._arrow.ArrowInvalid:
            return None
        return Columns.from_arrow(table, wanted)

    def _parse_with_numpy(self, data: bytes) -> NDArray[np.float64] | None:
        octets = np.frombuffer(data, dtype=np.uint8)
        ends = np.flatnonzero(octets == ord("\n"))
        if not data.endswith(b"\n"):
            ends = np.append(ends, len(data))
        commas = np.searchsorted(np.flatnonzero(octets == ord(",")), ends)
        if np.any(np.diff(commas, prepend=0) != self._n_fields - 1):
            return None
        lines = data.decode("ascii").splitlines()
        # An empty line of a single column is a record, and NumPy would skip it.
        if not all(lines):
            return None
        try:
            return np.loadtxt(lines, delimiter=",", comments=None, usecols=self._places, ndmin=2)
        except ValueError:
            return None

    def parse_by_line(self, block: Block) -> NDArray[np.float64]:
        """Parse a block line by line: slow, and the definition; see :meth:`parse`."""
        # Only numbers are read, and they are ASCII: other bytes may stand for anything.
        lines = block.data.removesuffix(b"\n").decode("latin-1").split("\n")
        values = [self._parse_line(line) for line in lines]
        return np.array(values, dtype=np.float64).reshape(-1, len(self._places))

    def _parse_line(self, ended: str) -> list[float]:
        line = ended.removesuffix("\r")
        # A line that readers understand differently has no numbers that are certain.
        is_clear = "\r" not in line and len(ended) <= MAX_LINE_BYTES
        fields = split_line(line) if is_clear else None
        if fields is None or len(fields) != self._n_fields:
            # Which field is missing is unknown, so none can be trusted.
            return [math.nan] * len(self._places)
        return [read_number(fields[i]) for i in self._places]


def _may_exceed(data: bytes, limit: int) -> bool:
    """Return whether a line may be longer: whether some half of the limit has no line end."""
    half = limit // 2
    return any(
        data.find(b"\n", start, start + half) < 0 for start in range(0, len(data) - half, half)
    )


def _has_clear_quotes(data: bytes) -> bool:
    if b'"' not in data:
        return True
    return not _may_exceed(data, _QUOTED_BYTES) and b'"' not in _QUOTED.sub(b"", data)
