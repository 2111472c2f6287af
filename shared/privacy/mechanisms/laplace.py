"""The seed paper's mechanism, on the integers: discrete Laplace noise, exactly sampled."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from sfumato.shared.arrays import Integers
from sfumato.shared.errors import PrivacyError
from sfumato.shared.privacy.mechanism import (
    NoiseTail,
    PrivacyGuarantee,
    bound_pure_delta,
    require_epsilon,
)
from sfumato.shared.privacy.mechanisms.kind import MechanismKind
from sfumato.shared.privacy.samplers import UNIT, RandomSource, draw_geometric, draw_words
from sfumato.shared.privacy.target import PrivacyTarget

_LEAST_RATE = 1 << 10
_LARGEST_RATE = (1 << 62) - 1
_BOUND_SCALES = 45
"""exp(-45) < 2^-64: noise beyond this many scales does not occur in practice."""
_CELLS = 1 << 14
"""Intervals of the law in the sum that bounds the squares."""


@dataclass(frozen=True, kw_only=True)
class DiscreteLaplace:
    """Independent noise ``P(y)`` proportional to ``exp(-|y| rate / 2^52)`` on each real coordinate.

    Guarantees
    ----------
    If no two neighbouring data sets have sums further apart than ``sensitivity_l1`` in L1 norm, one
    release is ``(sensitivity_l1 rate / 2^52, 0)`` differentially private: the ratio of the
    probabilities of any output is at most ``exp(rate / 2^52)`` to the power of the L1 distance.

    Parameters
    ----------
    sensitivity_l1
        Enumerated L1 sensitivity of the sum.
    rate
        Integer in units of 2^-52; the scale of the noise is ``2^52 / rate``.
    neighbouring
        The relation that the sensitivity was computed for.
    """

    sensitivity_l1: int
    rate: int
    neighbouring: str

    @classmethod
    def calibrate(
        cls, *, sensitivity_l1: int, epsilon: Fraction, neighbouring: str
    ) -> DiscreteLaplace:
        """Find the least noise that guarantees epsilon (seed Prop. 1: ``b = Delta_1 / epsilon``).

        The rate is rounded down, so the noise is never below the requirement.

        Raises
        ------
        PrivacyError
            epsilon is not a positive rational, or so small that noise would not fit 64-bit sums.
        """
        rate = math.floor(require_epsilon(epsilon) * UNIT / sensitivity_l1)
        if rate < _LEAST_RATE:
            raise PrivacyError(
                "is so small that the noise would not fit 64-bit sums",
                field="epsilon",
                fix="use a larger epsilon, or a plan whose sum one record changes less",
            )
        return cls(
            sensitivity_l1=sensitivity_l1,
            rate=min(rate, _LARGEST_RATE),
            neighbouring=neighbouring,
        )

    @property
    def gain(self) -> float:
        """1: noise is added."""
        return 1.0

    @property
    def scale(self) -> Fraction:
        """The scale b of the noise, exact, in units of the sum."""
        return Fraction(UNIT, self.rate)

    @property
    def variance(self) -> float:
        """Variance of one real coordinate, ``2 q / (1 - q)^2`` with ``q = exp(-1 / b)``."""
        x = self.rate / UNIT
        return 0.5 / math.sinh(x / 2) ** 2 if x < 700 else 0.0

    @property
    def noise_bound(self) -> int:
        """A magnitude that one coordinate exceeds with probability below 2^-60."""
        return math.ceil(_BOUND_SCALES * self.scale)

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """The proved bound for one release."""
        return PrivacyGuarantee(
            epsilon=Fraction(self.sensitivity_l1 * self.rate, UNIT),
            delta=Fraction(0),
            neighbouring=self.neighbouring,
        )

    def bound_delta(self, epsilon: Fraction, *, n_records: int = 1, n_windows: int = 1) -> Fraction:
        """Bound delta at an epsilon for q records in each of w windows: 0 from q w epsilon on."""
        return bound_pure_delta(self.guarantee, epsilon, n_records=n_records, n_windows=n_windows)

    def compute_count_variance(self, count_scale: int) -> float:
        """Compute the noise variance of a released number of records, in records squared."""
        return self.variance / count_scale**2

    def bound_tail(self, n_coordinates: int, *, exponent: float) -> NoiseTail:
        """Bound the truncated noise: without a cut-off its squares have no exponential moment."""
        b, n, x = float(self.scale), n_coordinates, exponent
        furthest = math.floor(b * (math.log(2 * n) + x))
        edges = np.unique(np.linspace(0, furthest + 1, _CELLS + 1).astype(np.int64))
        # P(|y| >= k) = 2 q^k / (1 + q) for k >= 1; all the mass of a cell counts as at its end.
        beyond = 2 * np.exp(-edges / b) / (1 + math.exp(-1 / b))
        beyond[0] = 1.0
        masses, squares = -np.diff(beyond), (edges[1:] - 1.0) ** 2
        limits = []
        for share in np.geomspace(0.01, 2.0, 40):
            rate = share / (b * max(furthest, b))
            moment = float(np.sum(masses * np.exp(rate * squares)))
            limits.append((n * math.log(moment) + x) / rate)
        return NoiseTail(exponent=x, squared_norm=max(0.0, min(limits)), spread=b**2, reach=b)

    def add_noise(self, sums: Integers, source: RandomSource) -> Integers:
        """Return ``sums`` plus fresh noise; arithmetic modulo 2^64, which is post-processing."""
        # Drawn in full before the sums are read, so that timing cannot depend on both.
        noise = draw_laplace(source, self.rate, sums.size)
        return sums + noise


def draw_laplace(source: RandomSource, rate: int, count: int) -> Integers:
    """Draw discrete Laplace variates: shape ``(count,)``, int64.

    A sign and a geometric magnitude; "minus zero" is drawn again, so that zero counts once.
    """
    drawn = np.empty(count, dtype=np.int64)
    wanted = np.arange(count)
    while wanted.size:
        magnitude = draw_geometric(source, rate, wanted.size)
        negative = (draw_words(source, wanted.size) >> np.uint64(63)).astype(bool)
        keep = ~(negative & (magnitude == 0))
        drawn[wanted[keep]] = np.where(negative, -magnitude, magnitude)[keep]
        wanted = wanted[~keep]
    return drawn


def _measure(target: PrivacyTarget) -> int:
    return target.sensitivity.l1 + int(target.releases_count) * target.shape.count_unit


def _calibrate(target: PrivacyTarget) -> DiscreteLaplace:
    return DiscreteLaplace.calibrate(
        sensitivity_l1=_measure(target), epsilon=target.epsilon, neighbouring=target.neighbouring
    )


LAPLACE: Final = MechanismKind(
    name="discrete-laplace",
    label="discrete Laplace",
    norm="l1",
    needs_delta=False,
    allows_masks=True,
    measure=_measure,
    scale_count=lambda target: target.shape.count_unit,
    calibrate=_calibrate,
)
