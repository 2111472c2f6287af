"""Exact sums over sketches, and integers beyond 64 bits in arrays of two 64-bit limbs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from learning.estimate.weighting import SizeMoments

LIMB_BITS = 63
"""63, so that the low limb is never negative and both are int64."""


def split_limbs(values: Iterable[int]) -> NDArray[np.int64]:
    """Split integers between -2^126 and 2^126 - 1: shape ``(2, n)``, int64, high limbs first.

    Each integer is ``high * 2^63 + low`` with ``0 <= low < 2^63``.

    Raises
    ------
    OverflowError
        An integer lies outside.
    """
    listed = list(values)
    low = (1 << LIMB_BITS) - 1
    return np.array(
        [[value >> LIMB_BITS for value in listed], [value & low for value in listed]],
        dtype=np.int64,
    )


def join_limbs(limbs: NDArray[np.int64]) -> list[int]:
    """Return the integers that :func:`split_limbs` split."""
    high, low = limbs.tolist()
    return [(h << LIMB_BITS) + part for h, part in zip(high, low, strict=True)]


@dataclass(frozen=True, kw_only=True)
class Totals:
    """The exact sums over sketches; every estimate derives from them.

    Parameters
    ----------
    sums
        ``sum S``, shape ``(D,)``, int64: 2 m real parts, then imaginary parts; and last the noised
        number of records, scaled, where it is secret.
    size_sums
        ``sum n S``, shape ``(2, D)``, int64: the limbs of :func:`split_limbs`, because n S may need
        more than 64 bits.
    moments
        Moments of the numbers of records; secret numbers count as 0.
    """

    sums: NDArray[np.int64]
    size_sums: NDArray[np.int64]
    moments: SizeMoments

    @property
    def n_sketches(self) -> int:
        """L."""
        return self.moments.n_sketches

    @property
    def n_records(self) -> int:
        """The records of all sketches together."""
        return self.moments.first
