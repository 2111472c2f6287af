"""Sensitivity of a sum to one record: integers, by enumeration or by proof."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.shared.core.statistics.interface import NEIGHBOURINGS, require_neighbouring
from sfumato.shared.errors import PrivacyError

__all__ = [
    "NEIGHBOURINGS",
    "MeasuredStatistic",
    "Sensitivity",
    "compute_sensitivity",
    "measure_sensitivity",
    "require_neighbouring",
]


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """Largest change of a sum between neighbouring data sets.

    Parameters
    ----------
    l1
        Sum over real and imaginary parts of absolute changes.
    l2_squared
        Sum of squared changes.
    """

    l1: int
    l2_squared: int


class MeasuredStatistic(Protocol):
    """A statistic whose sensitivities follow from its public numbers."""

    def measure_l1(self, neighbouring: str) -> int:
        """Bound the L1 distance of the sums of neighbours, without the number of records."""
        ...

    def measure_l2_squared(self, neighbouring: str) -> int:
        """Bound the squared L2 distance of the sums of neighbours, without their number."""
        ...


def measure_sensitivity(statistic: MeasuredStatistic, *, neighbouring: str) -> Sensitivity:
    """Return the sensitivity of a statistic's sum, without the released number of records.

    Raises
    ------
    PrivacyError
        Unknown neighbouring relation.
    """
    require_neighbouring(neighbouring)
    return Sensitivity(
        l1=statistic.measure_l1(neighbouring),
        l2_squared=statistic.measure_l2_squared(neighbouring),
    )


def compute_sensitivity(
    table: NDArray[np.int16], *, measurements_per_record: int, neighbouring: str
) -> Sensitivity:
    """Enumerate the sensitivity of the sum S of integer features.

    A record adds a row of the table, or zero, to each of the r features of its mask; a neighbour
    has other values and the same mask. The bound lets the r features vary independently.

    Parameters
    ----------
    table
        Shape ``(65536, 2)``: the feature of each phase.
    measurements_per_record
        r.
    neighbouring
        ``replace-one`` (values of one record change) or ``add-remove-one`` (a record is absent).

    Raises
    ------
    PrivacyError
        Unknown neighbouring relation, or a table whose diameter is not twice its radius.
    """
    require_neighbouring(neighbouring)
    feature = np.vstack([table, np.zeros((1, 2), dtype=table.dtype)]).astype(np.int64)
    cosine, sine = feature[:, 0], feature[:, 1]
    # |a| + |b| is the larger of |a + b| and |a - b|, so two projections give the L1 diameter.
    sides = (cosine + sine, cosine - sine)
    modulus = int(np.max(cosine**2 + sine**2))
    if neighbouring == "add-remove-one":
        l1 = max(int(np.max(np.abs(side))) for side in sides)
    else:
        l1 = max(int(np.ptp(side)) for side in sides)
        # No pair is further apart than twice the radius; opposite features attain that distance.
        opposite = np.roll(table, table.shape[0] // 2, axis=0)
        if not np.array_equal(opposite, -table):
            raise PrivacyError("is not symmetric under half a turn", field="table")
        modulus *= 4
    r = measurements_per_record
    return Sensitivity(l1=r * l1, l2_squared=r * modulus)
