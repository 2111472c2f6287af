"""The required guarantee of a release, and the shape of its sums."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sfumato.shared.privacy.sensitivity import Sensitivity
from sfumato.shared.privacy.shapes import SumShape


@dataclass(frozen=True, kw_only=True)
class PrivacyTarget:
    """The required guarantee of a release, and the shape of its sums.

    Parameters
    ----------
    mechanism
        A name in :data:`sfumato.shared.privacy.mechanisms.MECHANISMS`.
    shape
        What one record can change in a sum.
    epsilon, delta
        Exact; delta is 0 where the mechanism needs none.
    neighbouring
        ``replace-one`` or ``add-remove-one``.
    """

    mechanism: str
    shape: SumShape
    epsilon: Fraction
    delta: Fraction
    neighbouring: str

    @property
    def sensitivity(self) -> Sensitivity:
        """The sensitivities of a sum in L1 and L2, without the number of records."""
        return self.shape.measure(self.neighbouring)

    @property
    def releases_count(self) -> bool:
        """True if the number of records is secret, and released with noise after the features.

        Under add-remove-one, which protects a record's presence.
        """
        return self.neighbouring == "add-remove-one"

    @property
    def n_coordinates(self) -> int:
        """Integers in a release, with the number of records where it is secret."""
        return self.shape.n_coordinates + int(self.releases_count)
