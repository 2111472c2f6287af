"""Ids that only grow: they show which records were read before."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sfumato.device_agent.sources.interface import RecordBatch
from sfumato.device_agent.sources.positions import Position
from sfumato.shared.arrays import Bools
from sfumato.shared.reading import RecordTable
from sfumato.shared.reading.records import LARGEST_ID, NAN, NO_ID


class GrowingIds:
    """Filter of repeated records, for sources without places.

    Without ids every record is new, and the position only counts them. An id is public, as a time
    is: it decides whether its record was read before, and by how much the largest one grows.

    Parameters
    ----------
    source
        The source of the positions.
    place
        The place that was stored, or none.
    in_use
        Whether records carry an id.
    """

    def __init__(self, source: str, place: Mapping[str, int | str], *, in_use: bool) -> None:
        self._source = source
        self._in_use = in_use
        self._last = int(place.get("id", -1))
        self._n_records = int(place.get("records", 0))
        self.n_dropped = 0
        self.n_unknown = 0

    def make_batch(self, table: RecordTable, doubtful: Bools | None = None) -> RecordBatch | None:
        """Return the records that are new, or None if there are none.

        A record without an id, which is a whole number from 0 to ``LARGEST_ID``, keeps its place
        and adds zero: nothing tells whether it was read before.

        Parameters
        ----------
        table
            The records.
        doubtful
            Shape ``(n,)``: which of them may be repetitions; such a one without an id is dropped.
        """
        wanted = np.arange(len(table.ids)) if table.chosen is None else np.flatnonzero(table.chosen)
        values, timestamps, ids = (
            table.to_matrix()[wanted],
            table.timestamps[wanted],
            table.ids[wanted],
        )
        doubtful = None if doubtful is None else doubtful[wanted]
        n = len(values)
        kept, last = np.arange(n), np.full(n, self._last)
        if self._in_use:
            is_id = ids != NO_ID
            grown = np.maximum.accumulate(np.append(np.int64(self._last), ids))
            is_kept = np.where(is_id, grown[1:] > grown[:-1], True)
            if doubtful is not None:
                is_kept &= is_id | ~doubtful
            kept = np.flatnonzero(is_kept)
            last = grown[1:][kept]
            values = np.where(is_id[:, np.newaxis], values, NAN)
            self.n_unknown += int(np.count_nonzero(is_kept & ~is_id))
        self.n_dropped += n - len(kept)
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
            values=values[kept],
            timestamps=timestamps[kept],
            position_after=position_after,
            kinds=None if table.kinds is None else table.kinds[wanted][kept],
        )

    def describe(self) -> list[str]:
        """Return messages about dropped records and records without an id."""
        messages = []
        if self.n_dropped:
            messages.append(f"{self.n_dropped} record(s) were dropped: they were read before")
        if self.n_unknown:
            messages.append(
                f"{self.n_unknown} record(s) have no readable id, a whole number from 0 to "
                f"{LARGEST_ID}, and count as zero"
            )
        return messages
