"""Exact sums over sketches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.estimate.limbs import add_limbs, subtract_limbs
from sfumato.learning.estimate.sizes import SizeMoments


@dataclass(frozen=True, kw_only=True)
class Totals:
    """The exact sums over sketches; every estimate derives from them.

    Parameters
    ----------
    sums
        ``sum S``, shape ``(D,)``, int64: m real parts, then m imaginary parts, each over the
        sketches that carry the feature; and last, where the number of records is secret, its noised
        and scaled value for each block.
    size_sums
        ``sum n S``, shape ``(2, D)``, int64: limbs, because n S may need more than 64 bits.
    moments
        Moments of the numbers of records by block; secret numbers count as 0.
    """

    sums: NDArray[np.int64]
    size_sums: NDArray[np.int64]
    moments: SizeMoments

    def __add__(self, other: Totals) -> Totals:
        """Return the sums over the sketches of both."""
        return Totals(
            sums=self.sums + other.sums,
            size_sums=add_limbs(self.size_sums, other.size_sums),
            moments=self.moments + other.moments,
        )

    def __sub__(self, other: Totals) -> Totals:
        """Return the sums without the sketches of another, which these include."""
        return Totals(
            sums=self.sums - other.sums,
            size_sums=subtract_limbs(self.size_sums, other.size_sums),
            moments=self.moments - other.moments,
        )

    @property
    def n_sketches(self) -> int:
        """L."""
        return self.moments.n_sketches

    @property
    def n_records(self) -> int:
        """The records of all sketches together."""
        return self.moments.first
