"""Longest vector of an honest release: a bound on all coordinates together.

A coordinate alone may be as large as noise ever gets; all of them together may not. What is longer
than this bound no honest device sends, but for one release in 2^40; so the bound is also what a
device that lies can move a sum by (``proofs.md``, section 7).
"""

from __future__ import annotations

import math
from functools import lru_cache

from shared.core import AMPLITUDE
from shared.privacy.mechanism import Mechanism, NoiseTail
from shared.privacy.target import PrivacyTarget

HONEST_BITS = 40
"""An honest release is longer than the bound with probability below two to minus this."""
_ROUNDING = 1e-9
"""Relative; more than the floats in here can be off by."""


def bound_squared_norm(
    target: PrivacyTarget, mechanism: Mechanism, *, n_records: int, bits: int = HONEST_BITS
) -> float:
    """Bound ``|S + Y|_2^2`` of the features of a release of at most ``n_records`` records.

    With R = n A sqrt(r), the most that records add up to, it is ``R^2 + 2 <S, Y> + |Y|_2^2`` with
    the last two at their bounds. Clipping only makes a release shorter.

    Parameters
    ----------
    n_records
        At least 0.
    bits
        An honest release is longer with probability below ``2^-bits``.

    Returns
    -------
    float
        In squared units of the sum. The released count is no part of it.
    """
    tail = bound_noise(mechanism, target.n_frequencies, bits=bits)
    largest = float(n_records * AMPLITUDE)
    norm = largest * math.sqrt(target.measurements_per_record)
    # The second is what the triangle inequality gives.
    cross = min(
        tail.bound_projection(norm=norm, largest=largest), norm * math.sqrt(tail.squared_norm)
    )
    return (norm**2 + 2 * cross + tail.squared_norm) * (1 + _ROUNDING)


def compute_influence(target: PrivacyTarget, mechanism: Mechanism, *, n_records: int) -> float:
    """Return how many records, all alike, would move a sum as far as one sketch is able to.

    What a device that lies can do with a sketch that says ``n_records``: the L2 norm of W equal
    records is ``W A sqrt(r)``, and none of their features points elsewhere, so W bounds what the
    sketch adds in the direction of any one point.
    """
    limit = bound_squared_norm(target, mechanism, n_records=n_records)
    return math.sqrt(limit / target.measurements_per_record) / AMPLITUDE


@lru_cache(maxsize=256)
def bound_noise(mechanism: Mechanism, n_frequencies: int, *, bits: int = HONEST_BITS) -> NoiseTail:
    """Bound the noise of a mechanism on m complex features; at most four bounds may fail."""
    return mechanism.bound_tail(n_frequencies, exponent=(bits + 2) * math.log(2.0))
