"""Cube noise: pure epsilon for the sums and counts of clusters, cells or nodes.

A record is in at most one *body*, of which D integers are released: the sums of d coordinates, and
the count times a factor. One record then changes two bodies, each by a vector of a bounded largest
coordinate. The ball of that norm is a cross-polytope of cubes, and its K-norm law (Hardt and Talwar
2010) factorises over bodies: each has a radius T of its own, and each of its integers is uniform on
-T .. T. No budget is divided between sums and counts (``proofs.md``, section 13).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from sfumato.shared.arrays import Integers
from sfumato.shared.errors import PrivacyError
from sfumato.shared.privacy.mechanism import PrivacyGuarantee, require_epsilon
from sfumato.shared.privacy.noise_radius import NoiseRadius
from sfumato.shared.privacy.samplers import UNIT, RandomSource, draw_below_each, draw_below_wide

LEAST_SCALE = 10
"""Least norm sensitivity over epsilon: below it the shift of the radius would waste epsilon."""
_LEAST_RATE = 1 << 10
_WIDEST = 1 << 61
"""Radii up to here are drawn in 64 bits; others need Python integers."""


@dataclass(frozen=True, kw_only=True)
class DiscreteCube:
    """Noise on any number of bodies of D integers each.

    Guarantees
    ----------
    If between neighbours the largest changes of each body, summed over bodies, are at most
    ``norm_sensitivity``, one release is ``(norm_sensitivity rate / 2^52, 0)`` differentially
    private, whatever the number of bodies.

    Parameters
    ----------
    n_coordinates
        D, the integers of one body.
    norm_sensitivity
        Of ``sum over bodies of max |v|``.
    rate
        Integer in units of 2^-52: radii fall off as ``exp(-t rate / 2^52)``.
    neighbouring
        The relation that the sensitivity was computed for.
    """

    n_coordinates: int
    norm_sensitivity: int
    rate: int
    neighbouring: str

    @classmethod
    def calibrate(
        cls, *, n_coordinates: int, norm_sensitivity: int, epsilon: Fraction, neighbouring: str
    ) -> DiscreteCube:
        """Find the least noise that guarantees epsilon; the rate is rounded down.

        Raises
        ------
        PrivacyError
            epsilon is not a positive rational, or so small that noise would not fit 64-bit sums, or
            above a tenth of the sensitivity.
        """
        rate = math.floor(require_epsilon(epsilon) * UNIT / norm_sensitivity)
        if norm_sensitivity < LEAST_SCALE * epsilon:
            raise PrivacyError(
                f"is above {float(Fraction(norm_sensitivity, LEAST_SCALE)):g}, where the grid of "
                "this noise is too coarse",
                field="epsilon",
                fix="use a smaller epsilon, or a larger radius of the records",
            )
        mechanism = cls(
            n_coordinates=n_coordinates,
            norm_sensitivity=norm_sensitivity,
            rate=rate,
            neighbouring=neighbouring,
        )
        if rate < _LEAST_RATE or mechanism.noise_bound >= 1 << 52:
            raise PrivacyError(
                "is so small that the noise would not fit 64-bit sums",
                field="epsilon",
                fix="use a larger epsilon or fewer dimensions",
            )
        return mechanism

    @property
    def shift(self) -> int:
        """s, the least radius: ``ceil(D / 2)``."""
        return -(-self.n_coordinates // 2)

    @property
    def radius(self) -> NoiseRadius:
        """The law of T, one for each body."""
        return NoiseRadius(shift=self.shift, n_geometrics=self.n_coordinates + 1, rate=self.rate)

    @property
    def scale(self) -> Fraction:
        """``2^52 / rate``: radii fall by a factor e over this many steps; exact."""
        return self.radius.scale

    @property
    def variance(self) -> float:
        """Variance of one integer: the mean of ``T (T + 1) / 3`` over the law of T."""
        return (self.radius.mean_square + self.radius.mean) / 3.0

    @cached_property
    def noise_bound(self) -> int:
        """A magnitude that one integer exceeds with probability below 2^-60."""
        return self.radius.bound

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """The proved bound for one release."""
        return PrivacyGuarantee(
            epsilon=Fraction(self.norm_sensitivity * self.rate, UNIT),
            delta=Fraction(0),
            neighbouring=self.neighbouring,
        )

    def add_noise(self, sums: Integers, source: RandomSource) -> Integers:
        """Return ``sums`` plus fresh noise: shape ``(B, D)``, int64, modulo 2^64.

        A second call is a second release.
        """
        # Drawn in full before the sums are read. The radii must never leave this call: given them,
        # the noise is uniform on bounded bodies, and an output outside would exclude a data set.
        noise = self.draw_noise(source, len(sums))
        return sums + noise

    def draw_noise(self, source: RandomSource, n_bodies: int) -> Integers:
        """Draw the noise of B bodies: shape ``(B, D)``, int64."""
        radii = self.radius.draw(source, n_bodies)
        shape = n_bodies, self.n_coordinates
        if all(radius <= _WIDEST for radius in radii):
            reach = np.repeat(np.array(radii, dtype=np.int64), self.n_coordinates)
            return (draw_below_each(source, 2 * reach + 1) - reach).reshape(shape)
        # Of no calibrated mechanism; Python integers keep even this law exact.
        residues = [
            (draw_below_wide(source, 2 * radius + 1) - radius) % (1 << 64)
            for radius in radii
            for _ in range(self.n_coordinates)
        ]
        return np.array(residues, dtype=np.uint64).view(np.int64).reshape(shape)
