"""The radius of noise that is uniform on a body: a shift and a sum of geometrics.

Both laws of a norm (cubes and the lattice 24-gon) draw a radius T first, and then integers uniform
on T times their body. T needs no rejection: ``T = s + G_0 + ... + G_D`` with independent geometric
variates of rate ``rate / 2^52`` (``proofs.md``, sections 3 and 13).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from sfumato.shared.privacy.samplers import EXPONENT_BITS, UNIT, RandomSource, draw_exponent

TAIL = 64 * math.log(2.0)
"""Bounds on noise fail with probability below exp of minus this, 2^-64."""


@dataclass(frozen=True, kw_only=True)
class NoiseRadius:
    """The law of one radius.

    Parameters
    ----------
    shift
        s, the least radius.
    n_geometrics
        D + 1, the geometrics in the sum.
    rate
        Integer in units of 2^-52: each geometric falls off as ``exp(-t rate / 2^52)``.
    """

    shift: int
    n_geometrics: int
    rate: int

    @property
    def scale(self) -> Fraction:
        """``2^52 / rate``: a geometric falls by a factor e over this many steps; exact."""
        return Fraction(UNIT, self.rate)

    @property
    def mean(self) -> float:
        """Mean of T."""
        return self.shift + self.n_geometrics * self._mean_geometric

    @property
    def mean_square(self) -> float:
        """Mean of ``T^2``."""
        one = self._mean_geometric
        return self.mean**2 + self.n_geometrics * one * (1.0 + one)

    @property
    def bound(self) -> int:
        """A radius that T exceeds with probability below 2^-64."""
        # A geometric is at most an exponential of the same rate, so T - s is at most a Gamma
        # variate G of shape n; P(G > n (1 + x)) <= exp(-n (x - log(1 + x))) (Chernoff).
        n = self.n_geometrics
        low, high = 0.0, 2 * TAIL + 2
        while high - low > 1e-6 * high:
            middle = (low + high) / 2
            if n * (middle - math.log1p(middle)) < TAIL:
                low = middle
            else:
                high = middle
        # Rounded, because a plan states this bound: it must not depend on a float's last bit.
        return self.shift + math.ceil(self.scale * n * (1 + Fraction(math.ceil(high * 1000), 1000)))

    def draw(self, source: RandomSource, count: int) -> list[int]:
        """Draw independent radii, as Python integers: no width limits a geometric."""
        n = self.n_geometrics
        low, high = draw_exponent(source, count * n)
        drawn: Sequence[int] = [
            (x + (y << EXPONENT_BITS)) // self.rate
            for x, y in zip(low.tolist(), high.tolist(), strict=True)
        ]
        return [self.shift + sum(drawn[i * n : (i + 1) * n]) for i in range(count)]

    @property
    def _mean_geometric(self) -> float:
        return 1.0 / math.expm1(self.rate / UNIT)
