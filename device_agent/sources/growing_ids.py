"""Records that carry an id which only ever grows: what was read before is known by it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from device_agent.sources.interface import KnownPosition, Position, RecordBatch
from device_agent.sources.mapping import RecordTable

_LARGEST = float(2**53)
"""Beyond it neighbouring whole numbers are the same float."""


class GrowingIds:
    """Keeps the records of a source without places apart from those that were read before.

    Without ids every record is new, and the position only counts them.

    Parameters
    ----------
    source
        The source of the positions.
    stream
        The stream that reads it.
    known
        Positions that were stored.
    in_use
        Whether records carry an id.
    """

    def __init__(
        self, source: str, stream: str, known: Sequence[KnownPosition], *, in_use: bool
    ) -> None:
        self._source = source
        self._in_use = in_use
        places = [
            k.position.place for k in known if (k.stream, k.position.source) == (stream, source)
        ]
        self._last = max((int(p.get("id", -1)) for p in places), default=-1)
        self._n_records = max((int(p.get("records", 0)) for p in places), default=0)
        self.n_dropped = 0

    def make_batch(self, table: RecordTable) -> RecordBatch | None:
        """Return the records that are new, or None if there are none.

        A record whose id is not a whole number from 0 up to 2^53 cannot be told from one that was
        read, and is dropped.
        """
        kept = np.arange(len(table.values))
        last = np.full(len(table.values), self._last)
        if self._in_use:
            ids = np.where(
                (table.ids >= 0) & (table.ids < _LARGEST) & (table.ids % 1 == 0), table.ids, -1.0
            )
            last = np.maximum.accumulate(np.concatenate([[float(self._last)], ids]))
            kept = np.flatnonzero(last[1:] > last[:-1])
            last = last[1:][kept]
        self.n_dropped += len(table.values) - len(kept)
        if not len(kept):
            return None
        before, self._n_records = self._n_records, self._n_records + len(kept)
        self._last = int(last[-1])

        def position_after(i: int) -> Position:
            place: dict[str, int | str] = {"records": before + i + 1}
            if self._in_use:
                place["id"] = int(last[i])
            return Position(source=self._source, place=place)

        return RecordBatch(
            values=table.values[kept],
            timestamps=table.timestamps[kept],
            position_after=position_after,
        )

    def describe(self) -> list[str]:
        """Return a message about what was dropped."""
        if not self.n_dropped:
            return []
        return [f"{self.n_dropped} record(s) were dropped: their id was read before, or is none"]
