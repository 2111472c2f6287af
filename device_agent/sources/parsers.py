"""Blocks of lines into arrays: what both formats share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from device_agent.sources.interface import ReadingReport
from device_agent.sources.mapping import RecordMapping, RecordTable
from device_agent.sources.settings import TextSettings

MAX_LINE_BYTES = 1 << 16
"""A longer line is a record that cannot be sketched; its time is read from so many bytes."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """Whole lines, one after another; each is one record.

    Parameters
    ----------
    data
        Their bytes, line ends included; the last may have none.
    ends
        Shape ``(n,)``: where in ``data`` each ends.
    line
        The number of the first.
    start
        What is added to ``ends`` to give places in the source.
    """

    data: bytes
    ends: NDArray[np.int64]
    line: int
    start: int = 0

    def part(self, first: int, stop: int) -> Block:
        """Return the lines ``first .. stop - 1``."""
        begin = int(self.ends[first - 1]) if first else 0
        return Block(
            data=self.data[begin : int(self.ends[stop - 1])],
            ends=self.ends[first:stop] - begin,
            line=self.line + first,
            start=self.start + begin,
        )

    def lines(self) -> list[bytes]:
        """Return each line."""
        ends = self.ends.tolist()
        return [self.data[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)]

    @property
    def places(self) -> range:
        """The number of each line."""
        return range(self.line, self.line + len(self.ends))

    @property
    def longest(self) -> int:
        """Bytes of its longest line."""
        return int(np.diff(self.ends, prepend=0).max())


class LineParser(Protocol):
    """Turns lines into records.

    Guarantees
    ----------
    Every line behind the header is one record, whatever it holds, and what it becomes depends on no
    other line but the header. Its time and id depend on nothing behind them in their line.
    """

    @property
    def needs_header(self) -> bool:
        """True if the first line names the columns, and was not seen yet."""
        ...

    @property
    def caveats(self) -> list[str]:
        """Warnings for the owner about fields that can disturb the time or id of their record."""
        ...

    def read_header(self, line: bytes, where: str) -> None:
        """Learn the columns from the first line, or raise ``RecordError``."""
        ...

    def parse(self, block: Block, report: ReadingReport) -> RecordTable:
        """Return as many records as there are lines."""
        ...


def make_parser(settings: TextSettings, mapping: RecordMapping) -> LineParser:
    """Return a new parser of the configured format; one for each file."""
    # Only what is configured is imported.
    if settings.format == "csv":
        from device_agent.sources.csv_lines import CsvParser

        return CsvParser(settings, mapping)
    from device_agent.sources.json_lines import JsonLinesParser

    return JsonLinesParser(settings, mapping)


def join_tables(tables: Sequence[RecordTable]) -> RecordTable:
    """Return the records of all tables, in order; at least one table."""
    if len(tables) == 1:
        return tables[0]
    return RecordTable(
        values=np.concatenate([table.values for table in tables]),
        timestamps=np.concatenate([table.timestamps for table in tables]),
        ids=np.concatenate([table.ids for table in tables]),
    )
