"""Lines from standard input, or any pipe: what was read is gone from it."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator, Sequence

import numpy as np

from device_agent.settings import StreamSettings
from device_agent.source_settings import StdinSettings
from device_agent.sources.growing_ids import GrowingIds
from device_agent.sources.interface import (
    Guarantee,
    KnownPosition,
    ReadingReport,
    RecordBatch,
    RecordSource,
)
from device_agent.sources.line_file import BATCH_RECORDS, BOM, find_line_ends
from device_agent.sources.mapping import RecordMapping
from device_agent.sources.parsers import MAX_LINE_BYTES, Block, make_parser
from shared.errors import RecordError

_CHUNK_BYTES = 1 << 16
_NAME = "standard input"
_WAIT_S = 3600.0


class StdinSource(RecordSource):
    """The records of a pipe; see ``RecordSource``.

    Parameters
    ----------
    stream, dimensions, known
        As for every source.
    fd
        The file descriptor to read.
    """

    def __init__(
        self,
        stream: StreamSettings,
        dimensions: Sequence[str],
        known: Sequence[KnownPosition],
        *,
        fd: int = 0,
    ) -> None:
        assert isinstance(stream.source, StdinSettings)
        self.report = ReadingReport()
        self._settings = stream.source
        self._mapping = RecordMapping(stream, dimensions, stream.source.id)
        self._parser = make_parser(stream.source, self._mapping)
        self._ids = GrowingIds("stdin", stream.name, known, in_use=stream.source.id is not None)
        self._fd = fd
        self._rest = b""
        self._line = 1
        self._skipping = False  # inside a line that is too long to keep
        self._ended = False
        self._error: RecordError | None = None

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
        return self._ended and not self._rest

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
            if self._error is not None:
                raise self._error
            ends = find_line_ends(self._rest, multiline=self._settings.multiline)[:BATCH_RECORDS]
            if len(ends) < BATCH_RECORDS and self._receive():
                continue
            if len(ends) == 0 and self._ended and self._rest:
                ends = np.array([len(self._rest)], dtype=np.int64)
            if len(ends) == 0:
                return None
            if self._parser.needs_header:
                header = self._rest[: int(ends[0])].removeprefix(BOM)
                self._parser.read_header(header, _NAME)
                self._drop(int(ends[0]))
                continue
            block = Block(data=self._rest[: int(ends[-1])], ends=ends, line=self._line)
            self._drop(len(block.data))
            parsed = self._parser.parse(block, self.report, _NAME)
            batch = self._ids.make_batch(parsed.table)
            self.report.notes[:] = self._ids.describe()
            self._error = parsed.error
            if batch is not None:
                return batch

    def _drop(self, n_bytes: int) -> None:
        self._line += self._rest.count(b"\n", 0, n_bytes)
        self.report.bytes_read += n_bytes
        self._rest = self._rest[n_bytes:]

    def _receive(self) -> bool:
        """Take what is there now; False if nothing is."""
        if self._ended or not select.select([self._fd], [], [], 0)[0]:
            return False
        chunk = os.read(self._fd, _CHUNK_BYTES)
        self._ended = not chunk
        if self._skipping:
            chunk = self._skip(chunk)
        self._rest += chunk
        if len(self._rest) - (self._rest.rfind(b"\n") + 1) > 2 * MAX_LINE_BYTES:
            # Too long already: the record is kept, its bytes are not.
            self._rest = self._rest[: self._rest.rfind(b"\n") + 1 + MAX_LINE_BYTES + 1]
            self._skipping = True
        return True

    def _skip(self, chunk: bytes) -> bytes:
        end = chunk.find(b"\n")
        if end < 0:
            return b""
        self._skipping = False
        return chunk[end:]
