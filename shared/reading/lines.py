"""Cut bytes into whole lines: each is one record, and only a line feed ends one."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from sfumato.shared.arrays import Integers

BOM = b"\xef\xbb\xbf"
MAX_LINE_BYTES = 1 << 16
"""A longer line is a record that cannot be sketched; its time is read from so many bytes."""
_KEPT_BYTES = MAX_LINE_BYTES + 1
"""So much of a long line is kept: enough to see that it is one, and to read its time."""


class Block:
    """Whole lines, one after another.

    Parameters
    ----------
    data
        Their bytes, line ends included; the last may have none.
    line
        The number of the first.
    start
        What is added to ``ends`` to give places in the source.
    """

    def __init__(self, data: bytes, *, line: int = 1, start: int = 0) -> None:
        self.data, self.line, self.start = data, line, start

    @cached_property
    def ends(self) -> Integers:
        """Shape ``(n,)``: where in ``data`` each line ends."""
        found = np.flatnonzero(np.frombuffer(self.data, dtype=np.uint8) == ord("\n")) + 1
        return found if self.data.endswith(b"\n") else np.append(found, len(self.data))

    @cached_property
    def n_lines(self) -> int:
        """Number of lines."""
        n_ended = int(np.count_nonzero(np.frombuffer(self.data, dtype=np.uint8) == ord("\n")))
        return n_ended + (not self.data.endswith(b"\n"))

    def part(self, first: int, stop: int) -> Block:
        """Return the lines ``first .. stop - 1``."""
        begin = int(self.ends[first - 1]) if first else 0
        return Block(
            self.data[begin : int(self.ends[stop - 1])],
            line=self.line + first,
            start=self.start + begin,
        )

    def cut(self, n_lines: int) -> list[Block]:
        """Return parts of so many lines."""
        stops = range(n_lines, self.n_lines + n_lines, n_lines)
        return [self.part(stop - n_lines, min(stop, self.n_lines)) for stop in stops]

    def lines(self) -> list[bytes]:
        """Return each line."""
        ends = self.ends.tolist()
        return [self.data[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)]

    @property
    def places(self) -> range:
        """The number of each line."""
        return range(self.line, self.line + self.n_lines)

    @property
    def may_have_long_line(self) -> bool:
        """True if a line has more than ``MAX_LINE_BYTES``, or perhaps more than half of that."""
        half = MAX_LINE_BYTES // 2
        return any(
            self.data.find(b"\n", start, start + half) < 0
            for start in range(0, len(self.data) - half, half)
        )


class LineCutter:
    """Collects bytes as they come, and hands out whole lines.

    Parameters
    ----------
    offset, n_lines
        How many bytes and lines of the source are before the first that is fed.

    Guarantees
    ----------
    Nothing that a line holds decides where another begins. What was fed last is kept, and less than
    65 KiB more, however long a line is.
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
        block = self._make_block(data[:stop])
        self._keep(data[stop:])
        return block

    def finish(self) -> Block | None:
        """Return the last line, which has no end; None if there is none."""
        data, self._rest = self._rest, b""
        return self._make_block(data) if data else None

    def _keep(self, data: bytes) -> None:
        self._n_dropped += max(0, len(data) - _KEPT_BYTES)
        self._rest = data[:_KEPT_BYTES]

    def _make_block(self, data: bytes) -> Block:
        # Only the first line can be one that was cut short, so that one shift serves them all.
        start = self._offset + self._n_dropped
        # A mark of byte order alone is a line too: what it says must not decide that it is none.
        if self._n_lines == 0 and data.startswith(BOM):
            data, start = data[len(BOM) :], start + len(BOM)
        block = Block(data, line=self._n_lines + 1, start=start)
        self._offset = start + len(data)
        self._n_lines += block.n_lines
        self._n_dropped = 0
        return block
