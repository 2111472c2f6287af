"""Standard input or a pipe: reading consumes its lines."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator, Sequence
from typing import Literal

from device_agent.sources.growing_ids import GrowingIds
from device_agent.sources.interface import (
    Guarantee,
    KnownPosition,
    ReadingReport,
    RecordBatch,
    RecordSource,
)
from device_agent.sources.line_file import BATCH_RECORDS
from device_agent.sources.mapping import RecordMapping
from device_agent.sources.settings import StreamSettings, TextSettings
from shared.privacy import Origin
from shared.reading import Block, LineCutter, RecordTable, join_tables
from shared.structure import Text, declared, member

_CHUNK_BYTES = 1 << 16
_NAME = "standard input"
_WAIT_S = 3600.0


@declared
class StdinSettings(TextSettings):
    """Settings of standard input."""

    format: Literal["csv", "jsonl"] = member("`csv` or `jsonl`.", default="csv")
    id: Text | None = member(
        "A field with a whole number that grows from record to record.", default=None
    )

    @property
    def origins(self) -> tuple[Origin, ...]:
        """See ``SourceSettings``."""
        return (self._origin("stdin", ""),)


class StdinSource(RecordSource):
    """The records of a pipe; see ``RecordSource``.

    Parameters
    ----------
    stream, dimensions, known, digest_key
        As for every source.
    fd
        The file descriptor to read.
    """

    settings = StdinSettings

    def __init__(
        self,
        stream: StreamSettings,
        dimensions: Sequence[str],
        known: Sequence[KnownPosition],
        digest_key: bytes,
        *,
        fd: int = 0,
    ) -> None:
        assert isinstance(stream.source, StdinSettings)
        self.report = ReadingReport()
        self._settings = stream.source
        self._mapping = RecordMapping(stream, dimensions, stream.source.id)
        self._parser = self._mapping.make_parser(stream.source)
        self._ids = GrowingIds("stdin", stream.name, known, in_use=stream.source.id is not None)
        self._fd = fd
        self._cutter = LineCutter()
        self._block: Block | None = None  # whole lines that were not handed out
        self._ended = False

    @property
    def guarantee(self) -> Guarantee:
        """See ``RecordSource``."""
        loses = "what was read since the last checkpoint, at a crash"
        if self._settings.id is not None:
            loses += ", unless it is fed again; ids tell what was counted"
        return Guarantee(delivery="at most once", loses=loses, consumes=True)

    @property
    def pause_s(self) -> float:
        """See ``RecordSource``."""
        return 0.2

    @property
    def ended(self) -> bool:
        """See ``RecordSource``."""
        return self._ended and self._block is None and not self._cutter.has_partial_line

    @property
    def caveats(self) -> list[str]:
        """See ``RecordSource``; of CSV none before the header has come."""
        return self._parser.caveats

    def close(self) -> None:
        """See ``RecordSource``."""

    def read(self) -> Iterator[RecordBatch]:
        """Yield records until the pipe is closed; waits for them."""
        while not self.ended:
            batch = self.read_batch()
            if batch is not None:
                yield batch
            elif not self._ended:
                select.select([self._fd], [], [], _WAIT_S)

    def read_batch(self) -> RecordBatch | None:
        """See ``RecordSource``."""
        while True:
            tables: list[RecordTable] = []
            n_records = 0
            while n_records < BATCH_RECORDS and (block := self._next_block()) is not None:
                if self._parser.needs_header:
                    self._parser.read_header(block.part(0, 1).data, _NAME)
                    self._take(block, 1)
                    continue
                part = block.part(0, min(BATCH_RECORDS - n_records, block.n_lines))
                tables.append(self._mapping.parse(self._parser, part, self.report))
                n_records += part.n_lines
                self._take(block, part.n_lines)
            if not tables:
                return None
            batch = self._ids.make_batch(join_tables(tables))
            self.report.notes[:] = self._ids.describe()
            if batch is not None:
                return batch

    def _next_block(self) -> Block | None:
        """Return the whole lines that are still to be returned; None if there are none."""
        while self._block is None and not self._ended and select.select([self._fd], [], [], 0)[0]:
            chunk = os.read(self._fd, _CHUNK_BYTES)
            self._ended = not chunk
            self._block = self._cutter.feed(chunk)
            self.report.bytes_read += len(chunk)
        if self._block is None and self._ended:
            self._block = self._cutter.finish()
        return self._block

    def _take(self, block: Block, n_lines: int) -> None:
        n_left = block.n_lines - n_lines
        self._block = block.part(n_lines, block.n_lines) if n_left else None
