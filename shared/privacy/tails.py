"""Tails of noise: bounds on the noise of one whole release that hardly ever fail."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class NoiseTail:
    """Bounds that the noise Y on the features of one release hardly ever exceeds.

    Parameters
    ----------
    exponent
        x: each of the bounds fails with probability at most ``exp(-x)``; there are at most four.
    squared_norm
        Bounds ``|Y|_2^2``, in squared units of the sum.
    spread, reach
        k and b of ``log E exp(l <S, Y>) <= k l^2 |S|_2^2 / (1 - (l b max |S_j|)^2)`` for every
        fixed S; units of the sum, k squared.
    """

    exponent: float
    squared_norm: float
    spread: float
    reach: float

    def bound_projection(self, *, norm: float, largest: float) -> float:
        """Bound ``<S, Y>`` for a fixed S of that L2 norm whose features are no larger than that."""
        if not norm:
            return 0.0
        root, flat = math.sqrt(self.exponent), math.sqrt(self.spread) * norm
        peak = self.reach * largest * root / flat
        return 2 * root * flat * (1 + peak) ** 2 / (1 + 2 * peak)
