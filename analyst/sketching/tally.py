"""Counts of values that are unreadable or outside the plan's bounds, for the holder alone."""

from __future__ import annotations

from threading import Lock

import numpy as np
from numpy.typing import NDArray

from sfumato.shared.arrays import Floats, Integers
from sfumato.shared.core import Columns, Records, Statistic
from sfumato.shared.core.engines import SketchEngine
from sfumato.shared.plan import SketchPlan
from sfumato.shared.reading.unreadable import count_unreadable

_CHUNK_VALUES = 1 << 15


class TallyingStatistic:
    """A statistic that counts such values on the sketching thread; sums do not change.

    Parameters
    ----------
    statistic
        The statistic that is summed.
    plan
        The plan with the bounds.
    """

    def __init__(self, statistic: Statistic, plan: SketchPlan) -> None:
        self._statistic = statistic
        self._lower = plan.space.lower
        self._upper = plan.space.upper
        self.n_clipped: Integers = np.zeros(plan.n_dimensions, dtype=np.int64)
        self.n_unreadable: Integers = np.zeros(plan.n_dimensions, dtype=np.int64)
        self._lock = Lock()

    @property
    def n_coordinates(self) -> int:
        """See ``Statistic``."""
        return self._statistic.n_coordinates

    @property
    def identity(self) -> bytes:
        """See ``Statistic``."""
        return self._statistic.identity

    @property
    def lowest(self) -> int:
        """See ``Statistic``."""
        return self._statistic.lowest

    @property
    def highest(self) -> int:
        """See ``Statistic``."""
        return self._statistic.highest

    def add_records(
        self, records: Records, *, first_record: int, sums: Integers, engine: SketchEngine
    ) -> int:
        """Add the records and count their clipped values; see ``Statistic``."""
        n_unsketchable = self._statistic.add_records(
            records, first_record=first_record, sums=sums, engine=engine
        )
        n_clipped, n_unreadable = self._count(records), count_unreadable(records)
        with self._lock:
            self.n_clipped += n_clipped
            self.n_unreadable += n_unreadable
        return n_unsketchable

    def _count(self, records: Records) -> Integers:
        """Count the values outside of each dimension, infinite ones among them."""
        if isinstance(records, Columns):
            bounds = zip(records.columns, self._lower, self._upper, strict=True)
            return np.array([_count_outside(column, low, high) for column, low, high in bounds])
        total = np.zeros(len(self._lower), dtype=np.int64)
        rows = max(1, _CHUNK_VALUES // len(self._lower))
        for start in range(0, len(records), rows):
            total += _count_outside(records[start : start + rows], self._lower, self._upper)
        return total


def _count_outside(values: NDArray[np.floating], low: Floats, high: Floats) -> Integers:
    outside = (values < low) | (values > high)
    # Most chunks have none, and this check is cheaper than the count.
    if not outside.any():
        return np.zeros(values.shape[1:], dtype=np.int64)
    counts: Integers = np.sum(outside, axis=0, dtype=np.int64)
    return counts
