"""Blocks of lines into arrays: what both formats share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from device_agent.source_settings import TextSettings
from device_agent.sources.interface import ReadingReport
from device_agent.sources.mapping import RecordMapping, RecordTable
from shared.errors import RecordError

MAX_LINE_BYTES = 1 << 16
"""A longer line is a record that cannot be sketched; it is skipped without being kept."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """Whole lines, one after another.

    Parameters
    ----------
    data
        Their bytes, line ends included; the last may have none.
    ends
        Shape ``(n,)``: where in ``data`` each ends. A quoted line end belongs to its record.
    line
        The number of the first.
    """

    data: bytes
    ends: NDArray[np.int64]
    line: int

    def part(self, first: int, stop: int) -> Block:
        """Return the lines ``first .. stop - 1``."""
        start = int(self.ends[first - 1]) if first else 0
        return Block(
            data=self.data[start : int(self.ends[stop - 1])],
            ends=self.ends[first:stop] - start,
            line=self.line + self.data.count(b"\n", 0, start),
        )

    def lines(self) -> list[bytes]:
        """Return each line."""
        ends = self.ends.tolist()
        return [self.data[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)]

    @property
    def longest(self) -> int:
        """Bytes of its longest line."""
        return int(np.diff(self.ends, prepend=0).max())


@dataclass(frozen=True, kw_only=True)
class Parsed:
    """The records of a block.

    Parameters
    ----------
    table
        The records.
    ends
        Shape ``(n,)``: where in the block each ends; a line may hold no record.
    error
        Why reading stops behind them, or None.
    """

    table: RecordTable
    ends: NDArray[np.int64]
    error: RecordError | None = None


class LineParser(Protocol):
    """Turns lines into records. What a line becomes depends on no other line but the header."""

    @property
    def needs_header(self) -> bool:
        """Whether the first line names the columns, and was not seen yet."""
        ...

    def read_header(self, line: bytes, where: str) -> None:
        """Learn the columns from the first line, or raise ``RecordError``."""
        ...

    def parse(self, block: Block, report: ReadingReport, where: str) -> Parsed:
        """Return the records of a block."""
        ...


def make_parser(settings: TextSettings, mapping: RecordMapping) -> LineParser:
    """Return a new parser of the configured format; one for each file."""
    # Only what is configured is imported.
    if settings.format == "csv":
        from device_agent.sources.csv_lines import CsvParser

        return CsvParser(settings, mapping)
    from device_agent.sources.json_lines import JsonLinesParser

    return JsonLinesParser(settings, mapping)


def join_parsed(parts: list[Parsed], offsets: list[int]) -> Parsed:
    """Join the records of consecutive parts of a block, which begin at ``offsets`` of it."""
    if len(parts) == 1 and offsets[0] == 0:
        return parts[0]
    tables = [part.table for part in parts]
    return Parsed(
        table=RecordTable(
            values=np.concatenate([table.values for table in tables]),
            timestamps=np.concatenate([table.timestamps for table in tables]),
            ids=np.concatenate([table.ids for table in tables]),
        ),
        ends=np.concatenate([p.ends + o for p, o in zip(parts, offsets, strict=True)]),
        error=parts[-1].error,
    )
