"""Weights of records, where no noise is added: a record counts as often as its weight says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sfumato.shared.arrays import Floats
from sfumato.shared.core import SketchAccumulator
from sfumato.shared.errors import TableError

Rows = NDArray[np.floating]

_PER_RECORD: Final = 256
_MOST_COPIES: Final = 1 << 30
"""Copies that stand for a record of mean weight, and for all records together."""


def read_weights(weights: Any, n_records: int) -> Floats:
    """Return weights of shape ``(n,)``.

    Raises
    ------
    TableError
        They have another shape, one is no number or negative, or all are 0.
    """
    try:
        found = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.full(n_records, np.nan)
    if found.ndim == 0 and np.isfinite(found):
        found = np.full(n_records, float(found))
    if found.shape != (n_records,):
        raise TableError(
            f"must have shape ({n_records},), a weight for each record, and has {found.shape}: "
            "Sample weights must be 1D array or scalar",
            field="sample_weight",
            fix="pass one number for each row of X",
        )
    if not (np.isfinite(found).all() and (found >= 0.0).all() and found.any()):
        raise TableError(
            "must be finite numbers that are not negative, and not all zero",
            field="sample_weight",
            fix="leave out the records that have no weight",
        )
    return found


def sum_weighted(
    rows: Rows, weights: Floats, sum_rows: Callable[[Rows], SketchAccumulator]
) -> SketchAccumulator:
    """Return the sum of records that each count by their weight, to 1/256 of the mean weight.

    Its number of records is that of equal records that would tell as much, ``(sum w)^2 / sum w^2``:
    error bars follow from it.

    Parameters
    ----------
    rows, weights
        Shapes ``(n, d)`` and ``(n,)``.
    sum_rows
        Returns the sum of some rows.
    """
    n_copies = min(_PER_RECORD * len(rows), _MOST_COPIES)
    copies = np.rint(weights * (n_copies / weights.sum())).astype(np.int64)
    statistic, parts = None, []
    for bit in range(int(copies.max()).bit_length()):
        found = sum_rows(rows[(copies >> bit) & 1 == 1])
        statistic = found.statistic
        parts.append((2.0**bit, found))
    assert statistic is not None
    n_equal = float(weights.sum() ** 2 / np.sum(weights**2))
    factor = n_equal / float(copies.sum())
    return SketchAccumulator.restore(
        statistic,
        first_record=0,
        sums=np.rint(factor * sum(power * part.sums for power, part in parts)).astype(np.int64),
        n_records=_scale(factor, [(power, part.n_records) for power, part in parts]),
        n_unsketchable=_scale(factor, [(power, part.n_unsketchable) for power, part in parts]),
    )


def _scale(factor: float, counts: list[tuple[float, int]]) -> int:
    return round(factor * sum(power * count for power, count in counts))
