"""Integers beyond 64 bits in arrays of two 64-bit limbs, exactly."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

LIMB_BITS = 63
"""So that the low limb is never negative and both are int64."""


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
