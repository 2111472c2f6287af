"""Messages of one value each, joined to records: a cell, which is a group and an interval, is one.

Which cells there are, and when they close, follows from the settings and the clock alone. A message
belongs to the cell of its own time, group and column, and to no other; a cell that got none is a
record all the same. So one message more or less, or with another value, changes one record
(``docs/explanation/proofs.md``, "Messages joined to records").
"""

from __future__ import annotations

import hashlib
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sfumato.device_agent.sources.interface import FileCopy, Guarantee, RecordBatch, RecordSource
from sfumato.device_agent.sources.mapping import RecordMapping
from sfumato.device_agent.sources.positions import (
    JOINED,
    KnownPosition,
    Position,
    SourceChanges,
)
from sfumato.device_agent.sources.settings import Join, SourceSettings, StreamSettings, find_source
from sfumato.device_agent.sources.shown_rows import RowKeeper
from sfumato.shared.arrays import Floats, Integers
from sfumato.shared.errors import LedgerError
from sfumato.shared.plan import Dimension
from sfumato.shared.reading.records import NAN, make_table
from sfumato.shared.wire import CLOCK_LEEWAY_S

BATCH_RECORDS = 4096
_MERGED = 1 << 16
"""So many messages are merged at once: a merge reads all open cells."""
_CLOSED, _GRID = "closed", "grid"


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Cells in the order of their records: interval by interval, group by group.

    Parameters
    ----------
    since, every_s
        Beginning of the first interval, and length of each, seconds.
    n_intervals
        How many there are; None without an end.
    n_groups, n_columns
        Groups of an interval, and columns of a record.
    """

    since: float
    every_s: float
    n_intervals: int | None
    n_groups: int
    n_columns: int

    @classmethod
    def of_settings(cls, join: Join, n_columns: int) -> Grid:
        """Return the grid that settings declare."""
        until = join.until_s
        n = None if until is None else math.floor((until - join.since_s) / join.every_s)
        return cls(
            since=join.since_s,
            every_s=join.every_s,
            n_intervals=n,
            n_groups=max(1, len(join.groups)),
            n_columns=n_columns,
        )

    def find_codes(self, timestamps: Floats, kinds: Integers) -> Integers:
        """Return the place of each message: cell times columns plus column; -1 outside the grid."""
        with np.errstate(invalid="ignore"):
            intervals = np.floor((timestamps - self.since) / self.every_s)
            is_inside = intervals >= 0
            if self.n_intervals is not None:
                is_inside &= intervals < self.n_intervals
        intervals = np.where(is_inside, intervals, 0).astype(np.int64)
        codes = intervals * (self.n_groups * self.n_columns) + kinds
        return np.where(is_inside, codes, -1)

    def count_over(self, now: float) -> int:
        """Return the number of cells whose interval is over."""
        n = max(0, math.floor((now - self.since) / self.every_s))
        return (n if self.n_intervals is None else min(n, self.n_intervals)) * self.n_groups

    def find_times(self, first: int, stop: int) -> Floats:
        """Return the beginnings of the intervals of some cells."""
        intervals: Floats = (np.arange(first, stop) // self.n_groups).astype(np.float64)
        return self.since + intervals * self.every_s


class OpenCells:
    """The values of cells that are open, each by its code.

    Parameters
    ----------
    take
        ``last``, ``mean``, ``min`` or ``max`` of the messages of a cell and column. The last is
        that with the latest time; of equal times, that which came last.

    Guarantees
    ----------
    A value is a function of its own messages in the order in which they came: to the last bit, for
    when others are merged, or how many there are, changes no rounding.
    """

    def __init__(self, take: str) -> None:
        self._take = take
        self._codes: Integers = np.empty(0, dtype=np.int64)
        # By code: value, or sum; time of the last; number.
        self._values, self._times, self._counts = np.empty(0), np.empty(0), np.empty(0)
        self._waiting: list[tuple[Integers, Floats, Floats]] = []
        self._n_waiting = 0

    def add(self, codes: Integers, values: Floats, times: Floats) -> None:
        """Add messages in the order in which they came."""
        self._waiting.append((codes, values, times))
        self._n_waiting += len(codes)
        if self._n_waiting >= _MERGED:
            self._merge()

    def remove(self, stop: int) -> tuple[Integers, Floats]:
        """Remove all codes below ``stop``; return them in order, and their values."""
        self._merge()
        n = int(np.searchsorted(self._codes, stop))
        codes, values, counts = self._codes[:n], self._values[:n], self._counts[:n]
        self._codes, self._values = self._codes[n:], self._values[n:]
        self._times, self._counts = self._times[n:], self._counts[n:]
        with np.errstate(invalid="ignore"):
            return codes, values / counts

    def _merge(self) -> None:
        if not self._waiting:
            return
        came = list(zip(*self._waiting, strict=True))
        codes = np.concatenate([self._codes, *came[0]])
        values = np.concatenate([self._values, *came[1]])
        times = np.concatenate([self._times, *came[2]])
        counts = np.append(self._counts, np.ones(self._n_waiting))
        self._waiting, self._n_waiting = [], 0
        if not codes.size:
            return
        if self._take == "mean":
            self._sum(codes, values, counts)
            return
        # Stable, and what was there before stands before what came: so ties go by arrival.
        order = np.lexsort((times, codes))
        codes, values, times, counts = codes[order], values[order], times[order], counts[order]
        starts = np.flatnonzero(np.append(True, codes[1:] != codes[:-1]))
        ends = np.append(starts[1:], codes.size) - 1
        self._codes, self._times = codes[starts], times[ends]
        reduce = {"min": np.minimum, "max": np.maximum}.get(self._take)
        self._values = values[ends] if reduce is None else reduce.reduceat(values, starts)
        self._counts = np.ones(starts.size)

    def _sum(self, codes: Integers, values: Floats, counts: Floats) -> None:
        """Add values one after the other: what was summed before, then what came."""
        self._codes, places = np.unique(codes, return_inverse=True)
        self._values, self._counts = np.zeros(self._codes.size), np.zeros(self._codes.size)
        self._times = np.zeros(self._codes.size)
        with np.errstate(over="ignore", invalid="ignore"):
            np.add.at(self._values, places, values)
            np.add.at(self._counts, places, counts)


class JoinSource(RecordSource):
    """The records that messages of another source make; see ``RecordSource``.

    A position tells which cells were given, and up to where all messages belong to such: those
    behind are read again after a restart, and those of cells that were given are passed over.

    Parameters
    ----------
    now
        Returns the time by which cells close.
    """

    settings = SourceSettings

    def __init__(
        self,
        stream: StreamSettings,
        dimensions: Sequence[Dimension],
        known: Sequence[KnownPosition],
        digest_key: bytes,
        folder: Path | None = None,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        assert stream.source.join is not None
        self._join, self._now = stream.source.join, now
        self._grid = Grid.of_settings(self._join, len(dimensions))
        self._cells = OpenCells(self._join.take)
        self._keeper: RowKeeper | None = None
        # Of each batch of messages that is not wholly in closed cells: its last cell, and its end.
        self._behind: deque[tuple[int, Position]] = deque()
        self._n_added = self._n_passed = 0
        self._done: dict[str, Position] = {}
        self._changes: deque[tuple[int, SourceChanges]] = deque()
        self._stream, self._known = stream.name, known
        place = self._find_place(JOINED, name="join")
        self._closed = self._due = int(place.get(_CLOSED, 0))
        self._digest = _digest_cells(stream, dimensions, self._grid)
        if place and place[_GRID] != self._digest:
            raise LedgerError(
                "must stay as it was: under other cells a message could count again",
                field=f"stream {stream.name}: join",
                fix="restore [streams.source] and [streams.columns], or give the stream another "
                "name, whose epsilon adds",
            )
        self._inner = find_source(stream.source.kind)(stream, dimensions, known, digest_key, folder)
        self.report = self._inner.report
        self._note_changes()

    def _open(self) -> None:
        """Do nothing: the source of the messages is open."""

    @property
    def guarantee(self) -> Guarantee:
        """See ``RecordSource``."""
        found = self._inner.guarantee
        loses = f"messages that come more than {self._join.grace_s:g} s after their interval"
        if found.consumes:
            loses += "; at a restart, those of cells that are open"
        return Guarantee(
            delivery=found.delivery, loses=f"{found.loses}; {loses}", consumes=found.consumes
        )

    @property
    def pause_s(self) -> float:
        """See ``RecordSource``."""
        return self._inner.pause_s

    @property
    def delay_s(self) -> float:
        """See ``RecordSource``."""
        return self._join.every_s + self._join.grace_s + self._inner.pause_s

    @property
    def ended(self) -> bool:
        """See ``RecordSource``."""
        n = self._grid.n_intervals
        is_last = n is not None and self._closed >= n * self._grid.n_groups
        return is_last and self._inner.ended

    @property
    def caveats(self) -> list[str]:
        """See ``RecordSource``."""
        return [
            *self._inner.caveats,
            "records are joined of messages. A message that comes, goes or has another value "
            "changes one record; one with another time or key changes two, at twice epsilon",
        ]

    def find_copies(self) -> list[FileCopy]:
        """See ``RecordSource``."""
        return self._inner.find_copies()

    def keep_rows(self) -> RowKeeper:
        """See ``RecordSource``."""
        self._keeper = RowKeeper(has_times=True)
        return self._keeper

    def read_batch(self) -> RecordBatch | None:
        """See ``RecordSource``; there is no record in a batch of messages."""
        if self._closed == self._due:
            batch = self._inner.read_batch()
            if batch is not None:
                self._add(batch)
                return self._make_batch(self._closed)
            self._find_due()
            if self._closed == self._due:
                return None
        return self._make_batch(min(self._due, self._closed + BATCH_RECORDS))

    def read(self) -> Iterator[RecordBatch]:
        """See ``RecordSource``; all messages are read before a cell closes."""
        for batch in self._inner.read():
            self._add(batch)
            yield self._make_batch(self._closed)
        self._find_due()
        while self._closed < self._due:
            yield self._make_batch(min(self._due, self._closed + BATCH_RECORDS))

    def _find_due(self) -> None:
        """Find which cells are over by the clock: none where the source does not answer.

        What it holds may be of any cell.
        """
        if not self._inner.is_waiting:
            over = self._grid.count_over(self._now() - self._join.grace_s)
            self._due = max(self._closed, over)

    def _add(self, batch: RecordBatch) -> None:
        if not len(batch.timestamps):
            return
        assert batch.kinds is not None
        columns = batch.kinds % self._grid.n_columns
        values = batch.values[np.arange(len(columns)), columns]
        codes = self._grid.find_codes(batch.timestamps, batch.kinds)
        is_open = codes >= self._closed * self._grid.n_columns
        self.report.n_outside += int(np.count_nonzero(codes < 0))
        self.report.n_late += int(np.count_nonzero((codes >= 0) & ~is_open))
        self.report.n_ahead += int(
            np.count_nonzero(batch.timestamps > self._now() + CLOCK_LEEWAY_S)
        )
        is_added = is_open & np.isfinite(values)
        self._cells.add(codes[is_added], values[is_added], batch.timestamps[is_added])
        last = int(codes.max()) // self._grid.n_columns
        self._behind.append((last, batch.position_after(len(codes) - 1)))
        self._behind.extend((last, position) for position in batch.beside())
        self._n_added = self._n_passed + len(self._behind)
        self._note_changes()

    def _make_batch(self, stop: int) -> RecordBatch:
        """Return the records of the cells up to ``stop``, and close these."""
        first, grid = self._closed, self._grid
        codes, values = self._cells.remove(stop * grid.n_columns)
        matrix = np.full((stop - first) * grid.n_columns, NAN)
        matrix[codes - first * grid.n_columns] = np.where(np.isfinite(values), values, NAN)
        records = matrix.reshape(stop - first, grid.n_columns)
        timestamps = grid.find_times(first, stop)
        self._closed = stop
        while stop > first and self._behind and self._behind[0][0] < stop:
            position = self._behind.popleft()[1]
            self._done[position.source] = position
            self._n_passed += 1
        if self._keeper is not None:
            table = make_table(records, timestamps)
            places = range(first + 1, stop + 1)
            self._keeper.add(records, records, table, places, None)
        done = tuple(self._done.values())
        if stop > first:
            self._done.clear()
        return RecordBatch(
            values=records,
            timestamps=timestamps,
            position_after=lambda i: self._make_position(first + i + 1),
            beside=lambda: done,
        )

    def _make_position(self, closed: int) -> Position:
        return Position(source=JOINED, place={_CLOSED: closed, _GRID: self._digest})

    def _note_changes(self) -> None:
        changes = self._inner.take_changes()
        if changes.seen or changes.gone:
            self._changes.append((self._n_added, changes))

    def take_changes(self) -> SourceChanges:
        """See ``RecordSource``: those before which every message is in a cell that was given."""
        self._note_changes()
        found: list[SourceChanges] = []
        while self._changes and self._changes[0][0] <= self._n_passed:
            found.append(self._changes.popleft()[1])
        return SourceChanges(
            gone=tuple(name for each in found for name in each.gone),
            seen=tuple(position for each in found for position in each.seen),
        )

    def released(self, positions: Iterable[Position]) -> None:
        """See ``RecordSource``."""
        self._inner.released(each for each in positions if each.source != JOINED)

    def close(self) -> None:
        """See ``RecordSource``."""
        self._inner.close()


def _digest_cells(stream: StreamSettings, dimensions: Sequence[Dimension], grid: Grid) -> str:
    """Return a digest of all that decides in which cell a message is."""
    mapping = RecordMapping(stream, dimensions)
    reading = stream.source.digest_times()
    found = (grid, reading, mapping.fields.keys, sorted(mapping.fields.kinds.items()))
    return hashlib.sha256(repr(found).encode()).hexdigest()[:16]
