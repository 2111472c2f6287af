"""The required guarantee of a release, and its enumerated sensitivities."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from shared.core import feature_table
from shared.privacy.polygon import GON24, compute_norm_sensitivity
from shared.privacy.sensitivity import Sensitivity, compute_sensitivity


@dataclass(frozen=True, kw_only=True)
class PrivacyTarget:
    """The required guarantee of a release, and the shape of its sums.

    Parameters
    ----------
    mechanism
        A name in :data:`shared.privacy.mechanisms.MECHANISMS`.
    n_frequencies, measurements_per_record
        m and r.
    epsilon, delta
        Exact; delta is 0 where the mechanism needs none.
    neighbouring
        ``replace-one`` or ``add-remove-one``.
    """

    mechanism: str
    n_frequencies: int
    measurements_per_record: int
    epsilon: Fraction
    delta: Fraction
    neighbouring: str

    @property
    def sensitivity(self) -> Sensitivity:
        """The enumerated sensitivities of the features' sum in L1 and L2."""
        return _enumerate_sensitivity(self.measurements_per_record, self.neighbouring)

    @property
    def polygon_sensitivity(self) -> int:
        """The enumerated sensitivity of any one feature in the norm of the 24-gon."""
        return _enumerate_polygon_sensitivity(self.neighbouring)

    @property
    def releases_count(self) -> bool:
        """True if the number of records is secret, and released with noise after the features.

        Under add-remove-one, which protects a record's presence.
        """
        return self.neighbouring == "add-remove-one"

    @property
    def is_masked(self) -> bool:
        """True if a record adds to only some of the features: r < m."""
        return self.measurements_per_record < self.n_frequencies


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
