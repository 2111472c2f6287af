"""Bytes into whole lines: each is one record, and only a line feed ends one.

Nothing that a line holds decides where another begins.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from device_agent.sources.parsers import MAX_LINE_BYTES, Block

BOM = b"\xef\xbb\xbf"
_KEPT_BYTES = MAX_LINE_BYTES + 1
"""So much of a long line is kept: enough to see that it is one, and to read its time."""


class LineCutter:
    """Collects bytes as they come, and hands out whole lines.

    Parameters
    ----------
    offset, n_lines
        How many bytes and lines of the source are before the first that is fed.

    Guarantees
    ----------
    It keeps what was fed last and less than 65 KiB more, however long a line is.
    """

    def __init__(self, *, offset: int = 0, n_lines: int = 0) -> None:
        self._offset = offset  # behind the last whole line
        self._n_lines = n_lines
        self._rest = b""
        self._n_dropped = 0  # bytes of the unfinished line that were not kept

    @property
    def has_partial_line(self) -> bool:
        """True if bytes without a line end are left."""
        return bool(self._rest)

    def feed(self, data: bytes) -> Block | None:
        """Return the lines that are whole now; None if there are none."""
        data = self._rest + data
        stop = data.rfind(b"\n") + 1
        if not stop:
            self._keep(data)
            return None
        codes = np.frombuffer(data, dtype=np.uint8, count=stop)
        block = self._make_block(data[:stop], np.flatnonzero(codes == ord("\n")) + 1)
        self._keep(data[stop:])
        return block

    def finish(self) -> Block | None:
        """Return the last line, which has no end; None if there is none."""
        data, self._rest = self._rest, b""
        # A mark of byte order alone is a line too: what it says must not decide that it is none.
        return self._make_block(data, np.array([len(data)], dtype=np.int64)) if data else None

    def _keep(self, data: bytes) -> None:
        self._n_dropped += max(0, len(data) - _KEPT_BYTES)
        self._rest = data[:_KEPT_BYTES]

    def _make_block(self, data: bytes, ends: NDArray[np.int64]) -> Block:
        # Only the first line can be one that was cut short, so that one shift serves them all.
        start = self._offset + self._n_dropped
        if self._n_lines == 0 and data.startswith(BOM):
            data, ends, start = data[len(BOM) :], ends - len(BOM), start + len(BOM)
        block = Block(data=data, ends=ends, line=self._n_lines + 1, start=start)
        self._offset = start + len(data)
        self._n_lines += len(ends)
        self._n_dropped = 0
        return block
