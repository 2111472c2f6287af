"""Shapes of sums: what one record can change in the sums of each statistic, as exact integers.

Mechanisms calibrate their noise to these numbers and to nothing else about a statistic.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from sfumato.shared.core import AMPLITUDE, feature_table
from sfumato.shared.core.statistics.interface import require_neighbouring
from sfumato.shared.privacy.polygon import GON24, compute_norm_sensitivity
from sfumato.shared.privacy.sensitivity import (
    MeasuredStatistic,
    Sensitivity,
    compute_sensitivity,
    measure_sensitivity,
)


class SumShape(Protocol):
    """Sensitivities and size of a sum, as the mechanisms use them; frozen and hashable."""

    @property
    def n_coordinates(self) -> int:
        """Integers in a sum, without a released number of records."""
        ...

    @property
    def is_masked(self) -> bool:
        """True if a record adds to only some of the features, by a mask of its own."""
        ...

    @property
    def record_squared_norm(self) -> int:
        """The largest squared L2 norm of what one record adds."""
        ...

    @property
    def record_largest(self) -> int:
        """The largest magnitude that one record adds to a coordinate."""
        ...

    @property
    def count_unit(self) -> int:
        """The factor of a number of records that is released in L1 or L2 norm."""
        ...

    def measure(self, neighbouring: str) -> Sensitivity:
        """Return the largest change of a sum between neighbours, without the number of records."""
        ...

    def measure_polygon(self, neighbouring: str) -> int | None:
        """Return the sensitivity of any one feature in the norm of the 24-gon.

        None where coordinates do not come in pairs that lie in a disc.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class FourierShape:
    """The shape of a sum of m integer features, of which a record adds to r.

    Parameters
    ----------
    n_frequencies, measurements_per_record
        m and r.
    """

    n_frequencies: int
    measurements_per_record: int

    @property
    def n_coordinates(self) -> int:
        """Real and imaginary parts: 2 m."""
        return 2 * self.n_frequencies

    @property
    def is_masked(self) -> bool:
        """True if r < m."""
        return self.measurements_per_record < self.n_frequencies

    @property
    def record_squared_norm(self) -> int:
        """``r A^2``: every feature has at most the modulus A."""
        return self.measurements_per_record * AMPLITUDE**2

    @property
    def record_largest(self) -> int:
        """A."""
        return AMPLITUDE

    @property
    def count_unit(self) -> int:
        """A, so that a record changes the count as far as a feature."""
        return AMPLITUDE

    def measure(self, neighbouring: str) -> Sensitivity:
        """Return the enumerated sensitivities in L1 and L2."""
        return _enumerate_sensitivity(self.measurements_per_record, neighbouring)

    def measure_polygon(self, neighbouring: str) -> int:
        """Return the enumerated sensitivity of a feature in the norm of the 24-gon."""
        return _enumerate_polygon_sensitivity(neighbouring)


# Every plan that is read is checked against these; they have few arguments, so they are cached.


@lru_cache(maxsize=256)
def _enumerate_sensitivity(measurements_per_record: int, neighbouring: str) -> Sensitivity:
    return compute_sensitivity(
        feature_table(),
        measurements_per_record=measurements_per_record,
        neighbouring=neighbouring,
    )


@lru_cache(maxsize=256)
def _enumerate_polygon_sensitivity(neighbouring: str) -> int:
    return compute_norm_sensitivity(feature_table(), GON24, neighbouring=neighbouring)


@dataclass(frozen=True, kw_only=True)
class MeasuredShape:
    """The shape of a sum whose sensitivities are proved in L1 and L2.

    Parameters
    ----------
    n_coordinates
        D.
    replaced, removed
        Sensitivities under ``replace-one`` and ``add-remove-one``.
    record_largest
        The largest magnitude that one record adds to a coordinate.
    count_unit
        The factor of a released number of records.
    """

    n_coordinates: int
    replaced: Sensitivity
    removed: Sensitivity
    record_largest: int
    count_unit: int

    @classmethod
    def of(
        cls, statistic: MeasuredStatistic, *, n_coordinates: int, largest: int, count_unit: int
    ) -> MeasuredShape:
        """Return the shape of a statistic's sums."""
        return cls(
            n_coordinates=n_coordinates,
            replaced=measure_sensitivity(statistic, neighbouring="replace-one"),
            removed=measure_sensitivity(statistic, neighbouring="add-remove-one"),
            record_largest=largest,
            count_unit=count_unit,
        )

    @property
    def is_masked(self) -> bool:
        """False: every record adds to all that a sketch carries."""
        return False

    @property
    def record_squared_norm(self) -> int:
        """A bound on what one record adds: the squared L2 sensitivity to its presence."""
        return self.removed.l2_squared

    def measure(self, neighbouring: str) -> Sensitivity:
        """Return the sensitivities in L1 and L2."""
        require_neighbouring(neighbouring)
        return self.replaced if neighbouring == "replace-one" else self.removed

    def measure_polygon(self, neighbouring: str) -> None:
        """Return None: coordinates do not come in pairs."""
