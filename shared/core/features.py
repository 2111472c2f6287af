"""Step 4 of the sketch: a 16-bit phase to (cos, sin) by a fixed sequence of integer operations.

A feature takes six rounded high multiplications, which vector units do on 16-bit lanes. Its
definition uses integers alone, so all 65,536 inputs can be enumerated, and sensitivities are read
from that enumeration instead of a formula.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

AMPLITUDE = 16380
"""A, the bound on the modulus of an integer feature: c^2 + s^2 <= A^2 for every phase."""

PHASES = 1 << 16
EVEN = (11581, -3567, 175)
"""Coefficients of A/sqrt(2) cos(pi t / 4) in t^0, t^2, t^4."""
ODD = (18191, -1871, 58)
"""Coefficients of sqrt(2) A sin(pi t / 4) in t^1, t^3, t^5; halved by the last multiplication."""


def _high(a: NDArray[np.int32], b: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the rounded high half of a product of two 16-bit numbers, ``(a b + 2^14) >> 15``."""
    return (a * b + 0x4000) >> 15


def compute_features(phase: ArrayLike) -> tuple[NDArray[np.int16], NDArray[np.int16]]:
    """Compute the integer feature of each phase.

    ``(c, s)`` approximates ``A (cos, sin)(2 pi (p + 1/2) / 2^16)``: a phase stands for the middle
    of the interval that truncation maps to it.

    Parameters
    ----------
    phase
        Any shape, integers 0 .. 65535, in turns times 2^16.

    Returns
    -------
    cosine, sine
        The shape of ``phase``, int16.

    Guarantees
    ----------
    Enumerated over all phases by the tests: ``c^2 + s^2 <= A^2``; each of c and s within 2e-4 A of
    the exact value; half a turn further gives exactly ``(-c, -s)``.
    """
    p = np.asarray(phase, dtype=np.int32)
    # 1. Offset from the middle of the quarter turn; odd, so that no square reaches 2^30.
    t = 4 * (p & 0x3FFF) + 2 - 0x8000
    # 2. Even and odd parts, by Horner's rule in t^2.
    t2 = _high(t, t)
    even = _high(t2, _high(t2, np.full_like(p, EVEN[2])) + EVEN[1]) + EVEN[0]
    odd = _high(t2, _high(t2, np.full_like(p, ODD[2])) + ODD[1]) + ODD[0]
    odd = _high(t >> 1, odd)
    # 3. Rotate by the quarter: the signs of cos and sin in its middle.
    quarter = p >> 14
    cos_sign = np.where((quarter == 0) | (quarter == 3), 1, -1)
    sin_sign = np.where(quarter < 2, 1, -1)
    cosine = cos_sign * even - sin_sign * odd
    sine = sin_sign * even + cos_sign * odd
    return cosine.astype(np.int16), sine.astype(np.int16)


@cache
def feature_table() -> NDArray[np.int16]:
    """Return all features: shape ``(65536, 2)``, int16, columns (cos, sin), read-only."""
    table = np.stack(compute_features(np.arange(PHASES)), axis=1)
    table.setflags(write=False)
    return table
