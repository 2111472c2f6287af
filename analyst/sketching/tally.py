"""Counts of values outside the plan's bounds, for the holder alone."""

from __future__ import annotations

from threading import Lock

import numpy as np
from numpy.typing import NDArray

from shared.core import Columns, FourierStatistic, Records
from shared.core.engines import SketchEngine
from shared.plan import SketchPlan

_CHUNK_VALUES = 1 << 15


class TallyingEngine:
    """An engine that counts clipped values on the sketching thread; sums do not change.

    Parameters
    ----------
    engine
        The engine that computes.
    plan
        The plan with the bounds.
    """

    def __init__(self, engine: SketchEngine, plan: SketchPlan) -> None:
        self._engine = engine
        self._lower = np.array([dimension.lower for dimension in plan.dimensions])
        self._upper = np.array([dimension.upper for dimension in plan.dimensions])
        self.n_clipped: NDArray[np.int64] = np.zeros(plan.n_dimensions, dtype=np.int64)
        self._lock = Lock()

    @property
    def name(self) -> str:
        """The name of the engine that computes."""
        return self._engine.name

    def add_fourier(
        self,
        records: Records,
        statistic: FourierStatistic,
        *,
        first_record: int,
        sums: NDArray[np.int64],
    ) -> int:
        """Add each record's masked features to ``sums`` in place; see ``SketchEngine``."""
        n_unsketchable = self._engine.add_fourier(
            records, statistic, first_record=first_record, sums=sums
        )
        n_clipped = self._count(records)
        with self._lock:
            self.n_clipped += n_clipped
        return n_unsketchable

    def _count(self, records: Records) -> NDArray[np.int64]:
        """Count the values outside of each dimension, infinite ones among them."""
        if isinstance(records, Columns):
            bounds = zip(records.columns, self._lower, self._upper, strict=True)
            return np.array([_count_outside(column, low, high) for column, low, high in bounds])
        total = np.zeros(len(self._lower), dtype=np.int64)
        rows = max(1, _CHUNK_VALUES // len(self._lower))
        for start in range(0, len(records), rows):
            total += _count_outside(records[start : start + rows], self._lower, self._upper)
        return total


def _count_outside(
    values: NDArray[np.floating], low: NDArray[np.float64], high: NDArray[np.float64]
) -> NDArray[np.int64]:
    outside = (values < low) | (values > high)
    # Most chunks have none, and this check is cheaper than the count.
    if not outside.any():
        return np.zeros(values.shape[1:], dtype=np.int64)
    counts: NDArray[np.int64] = np.sum(outside, axis=0, dtype=np.int64)
    return counts
