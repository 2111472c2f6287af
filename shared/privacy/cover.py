"""The cost of repeated choice with removal, alone and with Gaussian and pure stages.

Each choice takes an option with probability proportional to ``exp(a gain)``, where its gain is the
number of remaining records that it covers; covered records leave for ever. However many choices
there are, a record is covered once, and the cost is that of one comparison of two waiting times:
Exp(1) against Exp(R) with ``R = exp(a)`` (``proofs.md``, section 16). The published bound is 3.4 to
4.5 times as large (Nguyen, Chaturvedi and Xu 2021, Theorem 16).

Events are data; what they cost together is computed here. All results are upper bounds: sums over
cells at their worse end, with room for the rounding of each step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from sfumato.shared.arrays import Floats
from sfumato.shared.errors import PrivacyError
from sfumato.shared.privacy.mechanism import require_epsilon
from sfumato.shared.privacy.samplers import UNIT
from sfumato.shared.privacy.sensitivity import NEIGHBOURINGS

LARGEST_EXPONENT: Final = 2
"""Of a choice: beyond it a record decides nearly alone."""
LEAST_DELTA: Final = Fraction(1, 10**30)
_MOST_PURE: Final = 6
_FURTHEST: Final = 80.0
"""Waiting times beyond it count as certain loss: exp(-80) < 1e-34."""
_STEPS: Final = 2000
_STEPS_PER_MU: Final = 100
_MOST_CELLS: Final = 20_000
_ROUNDING: Final = 1e-11
"""Relative; more than the errors of erfc and of its argument up to 38 standard deviations."""
_CLOSENESS: Final = 1e-12
"""In epsilon: the discrete and the continuous Gaussian differ by less for 10^20 coordinates."""


@dataclass(frozen=True, kw_only=True)
class CoverEvent:
    """Any number of choices by exponential choice of gains, with removal.

    Parameters
    ----------
    rate
        The exponent a in units of 2^-52.
    """

    rate: int

    @property
    def exponent(self) -> Fraction:
        """a, exact."""
        return Fraction(self.rate, UNIT)


@dataclass(frozen=True, kw_only=True)
class GaussianEvent:
    """Gaussian releases whose mean moves by at most mu standard deviations.

    Parameters
    ----------
    mu_squared
        Sum over releases of the squared L2 sensitivity over the variance. Of discrete noise of
        variance sigma^2, ``sigma^2 - 4`` counts (``proofs.md``, section 4).
    """

    mu_squared: Fraction


@dataclass(frozen=True, kw_only=True)
class PureEvent:
    """A release that is (epsilon, 0) differentially private."""

    epsilon: Fraction


StageEvent = CoverEvent | GaussianEvent | PureEvent


def compute_cover_delta(exponent: Fraction, epsilon: Fraction) -> float:
    """Compute delta of a cover stage under add-remove-one, for ``epsilon >= 0``.

        delta = (1 - 1/R) exp(-(epsilon + a) / (R - 1)), R = exp(a)

    Below ``epsilon = a`` the same holds: alone, no record shows more by coming than by leaving.
    """
    return compute_joint_delta((CoverEvent(rate=_ceil_rate(exponent)),), epsilon)


def compute_cover_epsilon(exponent: Fraction, delta: Fraction) -> float:
    """Compute epsilon of a cover stage under add-remove-one, rounded up.

    ``epsilon = max(a, (R - 1) ln((1 - 1/R) / delta) - a)``.
    """
    a = float(exponent)
    log_delta = math.log(delta.numerator) - math.log(delta.denominator)
    bound = math.expm1(a) * (math.log(-math.expm1(-a)) - log_delta) - a
    return max(a, bound) * (1 + _ROUNDING) + _CLOSENESS


def calibrate_cover(epsilon: Fraction, delta: Fraction) -> int:
    """Find the largest exponent of a cover stage that is (epsilon, delta) private.

    Returns
    -------
    int
        The exponent in units of 2^-52.

    Raises
    ------
    PrivacyError
        epsilon is not a positive rational, or delta is outside its range.
    """
    require_epsilon(epsilon)
    _require_delta(delta)
    low, high = 0, min(LARGEST_EXPONENT * UNIT, math.floor(epsilon * UNIT))
    if high and compute_cover_epsilon(Fraction(high, UNIT), delta) <= epsilon:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if compute_cover_epsilon(Fraction(middle, UNIT), delta) <= epsilon:
            low = middle
        else:
            high = middle
    if not low:
        raise PrivacyError(
            "is too small for a choice", field="epsilon", fix="use a larger epsilon or delta"
        )
    return low


def compute_joint_delta(
    events: Sequence[StageEvent], epsilon: Fraction, *, relation: str = "add-remove-one"
) -> float:
    """Bound delta of all events together at an epsilon, adaptively composed.

    With ``g`` the privacy profile of the Gaussian and pure events,

        delta = max(int e^-s g(eps + a - (R - 1) s) ds, int R e^(-R s) g(eps - a + (R - 1) s) ds)

    under add-remove-one; under replace-one R times the first, at ``eps - a``.

    Parameters
    ----------
    events
        At most one cover event, and six pure ones.
    epsilon
        At least 0.
    relation
        ``add-remove-one``, or ``replace-one``: Gaussian and pure events then state what they cost
        under that relation; the exponent of a cover is the same.

    Raises
    ------
    PrivacyError
        There are too many events, or the relation is unknown.
    """
    exponent, mu, pure = _sort(events)
    if relation not in NEIGHBOURINGS:
        raise PrivacyError(
            f"must be one of {', '.join(NEIGHBOURINGS)}", field="relation", fix="name the relation"
        )
    at = float(epsilon) * (1 - _ROUNDING) - _CLOSENESS
    atoms = _list_atoms(pure)
    if exponent == 0.0:
        return _clip(sum(p * float(_profile(np.array([at - x]), mu)[0]) for x, p in atoms))
    if relation == "replace-one":
        first = sum(p * _integrate_removal(exponent, mu, at - exponent - x) for x, p in atoms)
        return _clip(math.exp(exponent) * first)
    removal = sum(p * _integrate_removal(exponent, mu, at - x) for x, p in atoms)
    addition = sum(p * _integrate_addition(exponent, mu, at - x) for x, p in atoms)
    return _clip(max(removal, addition))


def calibrate_gaussian(
    events: Sequence[StageEvent],
    *,
    epsilon: Fraction,
    delta: Fraction,
    relation: str = "add-remove-one",
) -> Fraction:
    """Find the largest ``mu^2`` that may be spent beside other events, within a ten-thousandth.

    Raises
    ------
    PrivacyError
        The other events leave nothing.
    """
    require_epsilon(epsilon)
    _require_delta(delta)
    limit = float(delta) * (1 - _ROUNDING)

    def holds(mu: float) -> bool:
        joint = [*events, GaussianEvent(mu_squared=Fraction(mu) ** 2)]
        return compute_joint_delta(joint, epsilon, relation=relation) <= limit

    low, high = 0.0, 1.0
    while holds(high):
        low, high = high, 2 * high
    while high - low > 1e-4 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
        if high < float(epsilon) * 1e-6:
            raise PrivacyError(
                "leaves nothing for the averages",
                field="epsilon",
                fix="use a larger epsilon, or smaller shares for the other stages",
            )
    return Fraction(low) ** 2


def _ceil_rate(exponent: Fraction) -> int:
    # A larger rate is a larger cost, so a bound rounds up.
    return math.ceil(exponent * UNIT)


def _require_delta(delta: Fraction) -> None:
    if not LEAST_DELTA <= delta < 1:
        raise PrivacyError(
            "must be an exact rational from 1e-30 to below 1",
            field="delta",
            fix='use less than one over the number of records, such as "1e-9"',
        )


def _sort(events: Sequence[StageEvent]) -> tuple[float, float, list[float]]:
    """Return a, mu and the pure epsilons, each rounded up."""
    covers = [event for event in events if isinstance(event, CoverEvent)]
    pure = [float(e.epsilon) * (1 + _ROUNDING) for e in events if isinstance(e, PureEvent)]
    if len(covers) > 1 or len(pure) > _MOST_PURE:
        raise PrivacyError(
            f"must hold at most one cover event and {_MOST_PURE} pure ones",
            field="events",
            fix="compose the guarantees of whole releases instead",
        )
    exponent = float(covers[0].exponent) * (1 + _ROUNDING) if covers else 0.0
    if exponent > LARGEST_EXPONENT * (1 + _ROUNDING):
        raise PrivacyError(
            f"must have an exponent of at most {LARGEST_EXPONENT}",
            field="events",
            fix="use a smaller epsilon for the cover",
        )
    squared = sum((e.mu_squared for e in events if isinstance(e, GaussianEvent)), Fraction(0))
    return exponent, math.sqrt(float(squared)) * (1 + _ROUNDING), pure


def _clip(delta: float) -> float:
    return min(1.0, delta * (1 + _ROUNDING))


def _list_atoms(pure: Sequence[float]) -> list[tuple[float, float]]:
    """Return losses and probabilities of randomised responses, which dominate pure releases."""
    atoms = [(0.0, 1.0)]
    for epsilon in pure:
        truth = 1.0 / (1.0 + math.exp(-epsilon))
        atoms = [
            (x + sign * epsilon, p * share)
            for x, p in atoms
            for sign, share in ((1.0, truth), (-1.0, 1.0 - truth))
        ]
    return atoms


def _profile(epsilons: Floats, mu: float) -> Floats:
    """Bound the profile of the Gaussian pair from above; any real epsilon.

    ``Phi(mu/2 - e/mu) - exp(e) Phi(-mu/2 - e/mu)``, and ``max(0, 1 - exp(e))`` for mu = 0.
    """
    powers = np.exp(np.minimum(epsilons, 700.0))
    if mu == 0.0:
        return np.maximum(0.0, 1.0 - powers * (1 - _ROUNDING))
    first = _normal_below(mu / 2 - epsilons / mu)
    second = powers * _normal_below(-mu / 2 - epsilons / mu)
    return np.clip(first * (1 + _ROUNDING) - second * (1 - _ROUNDING), 0.0, 1.0)


def _normal_below(values: Floats) -> Floats:
    scaled = (values * -math.sqrt(0.5)).tolist()
    return np.array([0.5 * math.erfc(value) for value in scaled])


def _integrate_removal(a: float, mu: float, epsilon: float) -> float:
    """Bound ``int e^-s g(epsilon + a - (R - 1) s) ds``: g grows with s."""
    odds = math.expm1(a)
    if mu == 0.0:
        if epsilon <= -a:
            return 1.0 - math.exp(epsilon) * (1 - _ROUNDING)
        return -math.expm1(-a) * math.exp(-(epsilon + a) / odds * (1 - _ROUNDING))
    start = epsilon + a
    edges = _cut((start - _list_points(-5.0 * mu, max(start, 0.0), mu)) / odds)
    masses = np.exp(-edges[:-1]) - np.exp(-edges[1:])
    worst = _profile(epsilon + a - odds * edges[1:], mu)
    return float(masses @ worst) + math.exp(-_FURTHEST)


def _integrate_addition(a: float, mu: float, epsilon: float) -> float:
    """Bound ``int R e^(-R s) g(epsilon - a + (R - 1) s) ds``: g falls with s."""
    odds, ratio = math.expm1(a), math.exp(a)
    if mu == 0.0:
        if epsilon >= a:
            return 0.0
        # 1 - e^eps + e^eps delta(-eps), by duality with removal.
        other = _integrate_removal(a, 0.0, -epsilon)
        return 1.0 - math.exp(epsilon) * (1.0 - other) + _ROUNDING
    start = epsilon - a
    edges = _cut((_list_points(start, start + 10.0 * mu, mu) - start) / odds)
    masses = np.exp(-ratio * edges[:-1]) - np.exp(-ratio * edges[1:])
    worst = _profile(epsilon - a + odds * edges[:-1], mu)
    return float(masses @ worst) + math.exp(-_FURTHEST)


def _list_points(low: float, high: float, mu: float) -> Floats:
    """List values of the remaining epsilon, close enough that the profile changes little."""
    n_points = min(_MOST_CELLS, math.ceil(_STEPS_PER_MU * (high - low) / mu) + 2)
    return np.linspace(low, high, n_points)


def _cut(times: Floats) -> Floats:
    """Cut the waiting times at even steps and where the profile changes."""
    edges = np.concatenate([np.linspace(0.0, _FURTHEST, _STEPS + 1), times])
    inside: Floats = np.unique(edges[(edges >= 0.0) & (edges <= _FURTHEST)])
    return inside
