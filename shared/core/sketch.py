"""The integer sketch: the exact, mergeable sum of a statistic over records."""

from __future__ import annotations

import numpy as np

from sfumato.shared.arrays import Integers
from sfumato.shared.core.engines import SketchEngine, default_engine
from sfumato.shared.core.records import Records
from sfumato.shared.core.statistics import Statistic
from sfumato.shared.errors import RecordError


def count_most_records(statistic: Statistic) -> int:
    """Return the most records in one sum; beyond it a 64-bit coordinate could overflow."""
    return (2**63 - 1) // max(statistic.highest, -statistic.lowest)


class SketchAccumulator:
    """The exact sum of a statistic over records: one pass, memory for one sum.

    Guarantees
    ----------
    Without masks, the order of records and their split among accumulators change no bit. With
    masks, the record counter determines the mask; split points change no bit. Merging is integer
    addition: associative and commutative. A record that cannot be sketched keeps its place: it
    counts, advances the counter and adds zero.

    Parameters
    ----------
    statistic
        The definition.
    first_record
        The stream's record counter at the first record to be added.
    engine
        How to compute; changes no result.
    """

    def __init__(
        self,
        statistic: Statistic,
        *,
        first_record: int = 0,
        engine: SketchEngine | None = None,
    ) -> None:
        self.statistic = statistic
        self.sums: Integers = np.zeros(statistic.n_coordinates, dtype=np.int64)
        self.n_records = 0
        self.n_unsketchable = 0
        self._first_record = first_record
        self._engine = engine or default_engine()

    @classmethod
    def restore(
        cls,
        statistic: Statistic,
        *,
        first_record: int,
        sums: Integers,
        n_records: int,
        n_unsketchable: int,
        engine: SketchEngine | None = None,
    ) -> SketchAccumulator:
        """Restore a saved sum: ``sums`` of shape ``(n_coordinates,)``, and its counts.

        Raises
        ------
        RecordError
            The sums or counts cannot be those of this statistic.
        """
        accumulator = cls(statistic, first_record=first_record, engine=engine)
        if sums.shape != accumulator.sums.shape or not 0 <= n_unsketchable <= n_records:
            raise RecordError(
                "is not a sum of this plan", field="sums", fix="start the window again"
            )
        accumulator._require_room(n_records)
        accumulator._add_part(sums, n_records, n_unsketchable)
        return accumulator

    @property
    def next_record(self) -> int:
        """The counter of the next record."""
        return self._first_record + self.n_records

    def add(self, records: Records) -> None:
        """Add records: shape ``(n, d)`` or d columns, float32 or float64, data units, any strides.

        Raises
        ------
        RecordError
            Wrong shape or type, or more records than a 64-bit sum can hold; nothing is added.
        """
        self._require_room(len(records))
        part = np.zeros_like(self.sums)
        unsketchable = self.statistic.add_records(
            records, first_record=self.next_record, sums=part, engine=self._engine
        )
        self._add_part(part, len(records), unsketchable)

    def merge(self, other: SketchAccumulator) -> None:
        """Add the sum of other records of the same plan."""
        if other.statistic.identity != self.statistic.identity:
            raise RecordError(
                "sums of different statistics cannot be merged",
                field="statistic",
                fix="merge only sketches of one plan",
            )
        self._require_room(other.n_records)
        self._add_part(other.sums, other.n_records, other.n_unsketchable)

    def _require_room(self, n_more: int) -> None:
        most = count_most_records(self.statistic)
        if self.n_records + n_more > most:
            raise RecordError(
                f"one sum holds at most {most} records",
                field="records",
                fix="close the window earlier",
            )

    def _add_part(self, sums: Integers, n_records: int, n_unsketchable: int) -> None:
        self.sums += sums
        self.n_records += n_records
        self.n_unsketchable += n_unsketchable
