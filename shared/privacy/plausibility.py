"""Plausible length of a release: a joint bound on all of its coordinates.

Noise may make one coordinate very large, but not all of them together. An honest release exceeds
this bound with probability below 2^-40; so the bound also limits how far a lying device can move a
sum (``proofs.md``, section 7).
"""

from __future__ import annotations

import math
from functools import lru_cache

from sfumato.shared.privacy.mechanism import Mechanism, NoiseTail
from sfumato.shared.privacy.target import PrivacyTarget

HONEST_BITS = 40
"""An honest release exceeds the bound with probability below two to minus this."""
_ROUNDING = 1e-9
"""Relative; more than the floating-point error of this module."""


def bound_squared_norm(
    target: PrivacyTarget, mechanism: Mechanism, *, n_records: int, bits: int = HONEST_BITS
) -> float:
    """Bound ``|S + Y|_2^2`` of the features of a release of at most ``n_records`` records.

    With R the largest norm of n records, ``n A sqrt(r)`` for Fourier features, it is
    ``R^2 + 2 <S, Y> + |Y|_2^2`` with the last two terms at their bounds. Clipping only makes a
    release shorter.

    Parameters
    ----------
    n_records
        At least 0.
    bits
        An honest release is longer with probability below ``2^-bits``.

    Returns
    -------
    float
        In squared units of the sum. The released count is not included.
    """
    shape = target.shape
    tail = bound_noise(mechanism, shape.n_coordinates, bits=bits)
    largest = float(n_records * shape.record_largest)
    norm = n_records * math.sqrt(shape.record_squared_norm)
    # The second bound is the triangle inequality's.
    cross = min(
        tail.bound_projection(norm=norm, largest=largest), norm * math.sqrt(tail.squared_norm)
    )
    return (norm**2 + 2 * cross + tail.squared_norm) * (1 + _ROUNDING)


def compute_influence(target: PrivacyTarget, mechanism: Mechanism, *, n_records: int) -> float:
    """Compute how many equal records move a sum as far as one sketch can.

    This limits what a lying device can do with a sketch that claims ``n_records``. W equal records
    of the largest norm are as long as the longest sketch. Every record has that norm: in Fourier
    features up to a share of 2e-4, because the features of the table have modulus A up to that
    share; in histograms and grids exactly. In moments it is that of a record on the sphere.
    """
    limit = bound_squared_norm(target, mechanism, n_records=n_records)
    return math.sqrt(limit / target.shape.record_squared_norm)


@lru_cache(maxsize=256)
def bound_noise(mechanism: Mechanism, n_coordinates: int, *, bits: int = HONEST_BITS) -> NoiseTail:
    """Bound the noise of a mechanism on the features; at most four bounds may fail."""
    return mechanism.bound_tail(n_coordinates, exponent=(bits + 2) * math.log(2.0))
