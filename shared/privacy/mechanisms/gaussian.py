"""Discrete Gaussian noise, exactly sampled, with a proved (epsilon, delta).

The formula of Balle and Wang holds for the continuous Gaussian and does not bound the discrete one.
Peikert's convolution closes the gap: the discrete Gaussian of variance sigma^2 is, up to a factor
within 10^-25 of 1, a rounding of the continuous Gaussian of variance sigma^2 - 4 (``proofs.md``,
section 4).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from typing import Final

import numpy as np

from sfumato.shared.arrays import Bools, Integers
from sfumato.shared.errors import PrivacyError
from sfumato.shared.privacy.mechanism import NoiseTail, PrivacyGuarantee, require_epsilon
from sfumato.shared.privacy.mechanisms.kind import MechanismKind
from sfumato.shared.privacy.normal import bound_gaussian_delta
from sfumato.shared.privacy.samplers import (
    ROUNDS,
    Probability,
    RandomSource,
    collect_accepted,
    draw_below,
    draw_below_probabilities,
    draw_bernoulli_exp,
    draw_digit,
    draw_whole,
    draw_words,
    exp_of,
)
from sfumato.shared.privacy.target import PrivacyTarget

LEAST_DELTA = Fraction(1, 10**30)
LARGEST_EPSILON = 100
LARGEST_SIGMA = 1 << 40
_ROUNDING_VARIANCE = 4
_CLOSENESS = Fraction(1, 10**33)
"""Per coordinate, above the logarithm of the ratio of the two laws (``proofs.md``)."""
LEAST_JOINT_SIGMA = 64
MOST_JOINT = 1 << 40
"""Coordinates of all rounds that are bounded together."""
_TAIL = 10
"""P(|Y| > 10 sigma) < 2 exp(-50) < 2^-70 for the discrete Gaussian."""
_MOST_WHOLE = 1 << 13
_MOST_HALVES = 128


@dataclass(frozen=True, kw_only=True)
class DiscreteGaussian:
    """Independent noise ``P(y)`` proportional to ``exp(-y^2 / (2 sigma^2))`` on each coordinate.

    Guarantees
    ----------
    If no two neighbouring data sets have sums further apart than ``sqrt(sensitivity_l2_squared)``,
    one release is ``(epsilon, delta)`` differentially private, and rho-zero-concentrated with
    ``rho = sensitivity_l2_squared / (2 sigma^2)``.

    Parameters
    ----------
    n_coordinates
        D, the integers in a sum.
    sensitivity_l2_squared
        Enumerated, squared L2 sensitivity of the sum.
    sigma
        Integer scale.
    epsilon, delta
        The guarantee that sigma was calibrated for.
    neighbouring
        The relation that the sensitivity was computed for.
    """

    n_coordinates: int
    sensitivity_l2_squared: int
    sigma: int
    epsilon: Fraction
    delta: Fraction
    neighbouring: str

    @classmethod
    def calibrate(
        cls,
        *,
        n_coordinates: int,
        sensitivity_l2_squared: int,
        epsilon: Fraction,
        delta: Fraction,
        neighbouring: str,
    ) -> DiscreteGaussian:
        """Find the least integer sigma that is proved to guarantee (epsilon, delta).

        Raises
        ------
        PrivacyError
            epsilon or delta is outside the range that can be guaranteed.
        """
        _require_level(require_epsilon(epsilon), delta)
        low, high = 3, 6
        while _bound_delta(n_coordinates, sensitivity_l2_squared, high, epsilon) > delta:
            low, high = high, 2 * high
            if high > LARGEST_SIGMA:
                raise PrivacyError(
                    "is so small that the noise would not fit 64-bit sums",
                    field="epsilon",
                    fix="use a larger epsilon or delta, or fewer frequencies",
                )
        while high - low > 1:
            middle = (low + high) // 2
            if _bound_delta(n_coordinates, sensitivity_l2_squared, middle, epsilon) > delta:
                low = middle
            else:
                high = middle
        return cls(
            n_coordinates=n_coordinates,
            sensitivity_l2_squared=sensitivity_l2_squared,
            sigma=high,
            epsilon=epsilon,
            delta=delta,
            neighbouring=neighbouring,
        )

    @property
    def gain(self) -> float:
        """1: noise is added."""
        return 1.0

    @property
    def scale(self) -> Fraction:
        """Return sigma, in units of the sum."""
        return Fraction(self.sigma)

    @property
    def variance(self) -> float:
        """Variance of one real coordinate: sigma^2 up to a relative error below 10^-70."""
        return float(self.sigma) ** 2

    @property
    def noise_bound(self) -> int:
        """A magnitude that one coordinate exceeds with probability below 2^-60."""
        return _TAIL * self.sigma

    @property
    def rho(self) -> Fraction:
        """The zero-concentrated privacy loss (Canonne, Kamath and Steinke 2020, Theorem 14)."""
        return Fraction(self.sensitivity_l2_squared, 2 * self.sigma**2)

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """The proved bound for one release."""
        return PrivacyGuarantee(
            epsilon=self.epsilon,
            delta=self.delta,
            neighbouring=self.neighbouring,
            rho=self.rho,
        )

    def bound_delta(self, epsilon: Fraction, *, n_records: int = 1, n_windows: int = 1) -> Fraction:
        """Bound delta at an epsilon for q records in each of w windows (``proofs.md``, section 6).

        The sums of the windows together are one sum of w D coordinates, and the group moves it by
        at most ``sqrt(w) q`` times the L2 sensitivity of one record.
        """
        return min(
            Fraction(1),
            _bound_delta(
                n_windows * self.n_coordinates,
                n_windows * n_records**2 * self.sensitivity_l2_squared,
                self.sigma,
                epsilon,
            ),
        )

    def compute_count_variance(self, count_scale: int) -> float:
        """Compute the noise variance of a released number of records, in records squared."""
        return self.variance / count_scale**2

    def bound_tail(self, n_coordinates: int, *, exponent: float) -> NoiseTail:
        """Bound the noise by chi-square's tail: no moment exceeds the continuous Gaussian's."""
        variance, n, x = float(self.sigma) ** 2, n_coordinates, exponent
        return NoiseTail(
            exponent=x,
            squared_norm=variance * (n + 2 * math.sqrt(n * x) + 2 * x),
            spread=variance / 2,
            reach=0.0,
        )

    def add_noise(self, sums: Integers, source: RandomSource) -> Integers:
        """Return ``sums`` plus fresh noise, shape ``(2 m,)``; arithmetic modulo 2^64.

        A second call is a second release.
        """
        noise = draw_gaussian(source, self.sigma, sums.size)
        return sums + noise


def _require_level(epsilon: Fraction, delta: Fraction) -> None:
    if not LEAST_DELTA <= delta < 1:
        raise PrivacyError(
            "must be an exact rational from 1e-30 to below 1",
            field="delta",
            fix='use less than one over the number of records, such as "1e-9"',
        )
    if epsilon > LARGEST_EPSILON:
        raise PrivacyError(
            f"must be at most {LARGEST_EPSILON}", field="epsilon", fix="use a smaller epsilon"
        )


def _bound_delta(
    n_coordinates: int, sensitivity_squared: int, sigma: int, epsilon: Fraction
) -> Fraction:
    """Bound delta of the discrete mechanism at epsilon from above."""
    ratio = Fraction(sensitivity_squared, sigma**2 - _ROUNDING_VARIANCE)
    return _bound_close_delta(n_coordinates, ratio, epsilon)


def _bound_close_delta(n_coordinates: int, ratio: Fraction, epsilon: Fraction) -> Fraction:
    """Bound delta of what is close to a Gaussian mechanism of that squared sensitivity."""
    closeness = n_coordinates * _CLOSENESS
    continuous = bound_gaussian_delta(
        sensitivity_squared=ratio,
        variance=Fraction(1),
        epsilon=max(epsilon - 2 * closeness, Fraction(0)),
    )
    # exp(x) <= 1 + 2 x for 0 <= x <= 1; exact, because 28-digit decimals would lose the factor.
    return Fraction(continuous) * (1 + 2 * closeness)


def bound_joint_delta(rho: Fraction, epsilon: Fraction) -> Fraction:
    """Bound delta at an epsilon of adaptive rounds of this noise and nothing else.

    The rounds together are, up to a factor, a rounding of one continuous Gaussian mechanism with
    ``mu^2 = sum Delta_t^2 / (sigma_t^2 - 4) <= 2 rho 1024 / 1023`` (``proofs.md``, section 4).

    Parameters
    ----------
    rho
        Sum of the zero-concentrated losses of the rounds, each with a sigma of at least
        ``LEAST_JOINT_SIGMA``, and of at most 2^40 coordinates together.
    """
    if not rho:
        return Fraction(0)
    squared = LEAST_JOINT_SIGMA**2
    ratio = 2 * rho * Fraction(squared, squared - _ROUNDING_VARIANCE)
    return _bound_close_delta(MOST_JOINT, ratio, epsilon)


@lru_cache(maxsize=64)
def find_joint_rho(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Find the largest rho of adaptive rounds that are (epsilon, delta) private together.

    Raises
    ------
    PrivacyError
        epsilon or delta is outside the range that can be guaranteed.
    """
    _require_level(require_epsilon(epsilon), delta)
    # Few digits, so that a design is short: a share of the bound by zero-concentrated losses.
    low, high = Fraction(0), epsilon + 1
    while high - low > high / (1 << 30):
        middle = (low + high) / 2
        if bound_joint_delta(middle, epsilon) <= delta:
            low = middle
        else:
            high = middle
    return low


def draw_gaussian(source: RandomSource, sigma: int, count: int) -> Integers:
    """Draw discrete Gaussian variates: shape ``(count,)``, int64, for ``1 <= sigma <= 2^40``.

    CKS Algorithm 3 with integer sigma: a discrete Laplace candidate of scale sigma is accepted with
    probability ``exp(-(|y| - sigma)^2 / (2 sigma^2))``.
    """

    def draw_batch(size: int) -> Integers:
        candidates = _draw_candidates(source, sigma, size)
        return candidates[_accept(source, np.abs(candidates), sigma)]

    return collect_accepted(draw_batch, count=count, share=0.76)


def _draw_candidates(source: RandomSource, sigma: int, count: int) -> Integers:
    """Draw ``count`` discrete Laplace candidates of scale sigma, and drop improper ones."""
    digit, whole = draw_digit(source, sigma, count), draw_whole(source, count)
    negative = (draw_words(source, count) >> np.uint64(63)).astype(bool)
    magnitude = digit + sigma * np.minimum(whole, _MOST_WHOLE)
    # "Minus zero" would count zero twice. Beyond 2^13 scales acceptance is below exp(-3e7):
    # refusing such a candidate changes the law by less than that.
    proper = ~(negative & (magnitude == 0)) & (whole < _MOST_WHOLE)
    candidates: Integers = np.where(negative, -magnitude, magnitude)[proper]
    return candidates


def _accept(source: RandomSource, magnitude: Integers, sigma: int) -> Bools:
    """Draw Bernoulli(exp(-(x/sigma)^2 / 2)), x = |magnitude - sigma| = i sigma + f.

    ``(i + f/sigma)^2 / 2 = (i^2 + 2 k)/2 + r/sigma + (f/sigma)^2/2`` with ``i f = k sigma + r``.
    Each term has its own draw, made whatever the others gave.
    """
    distance = np.abs(magnitude - sigma)
    i, f = distance // sigma, distance % sigma
    k, r = (i * f) // sigma, (i * f) % sigma
    accepted = _draw_half_powers(source, i * i + 2 * k)
    accepted &= draw_bernoulli_exp(source, r, sigma)
    accepted &= _draw_half_square(source, f, sigma)
    return accepted


@cache
def _half_powers() -> tuple[Probability, ...]:
    return tuple(exp_of(Fraction(n, 2)) for n in range(1, _MOST_HALVES + 1))


def _draw_half_powers(source: RandomSource, halves: Integers) -> Bools:
    """Draw Bernoulli(exp(-n / 2)) for each n of ``halves``, with one word each."""
    table = _half_powers()
    # A word is drawn for 0 too, and its result ignored.
    chosen = np.clip(halves, 1, _MOST_HALVES) - 1
    drawn: Bools = draw_below_probabilities(source, table, chosen) | (halves == 0)
    for i in np.flatnonzero(drawn & (halves > _MOST_HALVES)):
        # The rest beyond the table: reached with probability exp(-64).
        rest = exp_of(Fraction(int(halves[i]) - _MOST_HALVES, 2))
        drawn[i] = draw_below_probabilities(source, (rest,), np.zeros(1, dtype=np.int64))[0]
    return drawn


def _draw_half_square(source: RandomSource, f: Integers, sigma: int) -> Bools:
    """Draw Bernoulli(exp(-(f/sigma)^2 / 2)) by CKS Algorithm 1, test j with (f/sigma)(f/sigma)/2j.

    ``ROUNDS`` tests run whatever their outcome, as in ``draw_bernoulli_exp``.
    """
    running = np.ones(f.size, dtype=np.bool_)
    trial = np.ones(f.size, dtype=np.int64)
    j = 1
    while j <= ROUNDS or running.any():
        running &= draw_below(source, sigma, f.size) < f
        running &= draw_below(source, 2 * j * sigma, f.size) < f
        trial += running
        j += 1
    return (trial & 1).astype(bool)


def sigma_for_rho(sensitivity_l2_squared: int, rho: Fraction) -> int:
    """Return the least integer sigma that is rho-zero-concentrated.

    Raises
    ------
    PrivacyError
        It is larger than can be drawn, or rho is 0.
    """
    if not rho > 0:
        raise make_large_sigma_error()
    sigma = math.isqrt(math.ceil(Fraction(sensitivity_l2_squared) / (2 * rho)) - 1) + 1
    if sigma > LARGEST_SIGMA:
        raise make_large_sigma_error()
    return sigma


def make_large_sigma_error() -> PrivacyError:
    """Return the refusal of noise that :func:`draw_gaussian` cannot draw."""
    return PrivacyError(
        "is so small that the noise would not fit 64-bit sums",
        field="epsilon",
        fix="use a larger epsilon or delta, or fewer dimensions",
    )


def _measure(target: PrivacyTarget) -> int:
    return target.sensitivity.l2_squared + int(target.releases_count) * target.shape.count_unit**2


def _calibrate(target: PrivacyTarget) -> DiscreteGaussian:
    return DiscreteGaussian.calibrate(
        n_coordinates=target.n_coordinates,
        sensitivity_l2_squared=_measure(target),
        epsilon=target.epsilon,
        delta=target.delta,
        neighbouring=target.neighbouring,
    )


GAUSSIAN: Final = MechanismKind(
    name="discrete-gaussian",
    label="discrete Gaussian",
    norm="l2-squared",
    needs_delta=True,
    allows_masks=False,
    measure=_measure,
    scale_count=lambda target: target.shape.count_unit,
    calibrate=_calibrate,
)
