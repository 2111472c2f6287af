"""Exact integers beyond 64 bits in arrays: two 64-bit limbs each."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

LIMB_BITS = 63
"""63, so that the low limb is never negative and both are int64."""
_LOW = np.uint64((1 << LIMB_BITS) - 1)
_TOP = np.uint64(LIMB_BITS)


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


def add_limbs(one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.int64]:
    """Add integers: shapes ``(2, ...)``, as is the result."""
    # Two low limbs below 2^63 have a sum below 2^64.
    low = one[1].astype(np.uint64) + other[1].astype(np.uint64)
    carry = (low >> _TOP).astype(np.int64)
    return np.array([one[0] + other[0] + carry, (low & _LOW).astype(np.int64)])


def subtract_limbs(one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.int64]:
    """Subtract integers: shapes ``(2, ...)``, as is the result."""
    low = one[1] - other[1]
    borrow = (low < 0).astype(np.int64)
    return np.array([one[0] - other[0] - borrow, low & np.int64(_LOW)])
