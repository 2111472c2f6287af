"""Privacy loss of a training: Gaussian steps on Poisson batches, after a partition.

A record is in one part, so it meets the partition and the training of one network. The first is a
Gaussian mechanism, the second T of them, each on a batch that every record joins with the same
public chance. Their joint loss is composed as a distribution (Koskela, Jälkö and
Honkela 2020; Doroshenko et al. 2022) by the library ``dp-accounting``, which rounds against the
claim.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

from sfumato.shared.errors import ConfigError, PrivacyError
from sfumato.shared.privacy.normal import bound_gaussian_delta
from sfumato.shared.privacy.sensitivity import require_neighbouring

LEAST_DELTA: Final = Fraction(1, 10**8)
"""Smaller ones would drown in the rounding of a composition."""
MOST_STEPS: Final = 10_000
RATE_UNIT: Final = 1 << 32
"""Chances to join a batch are multiples of 2^-32, as random words are."""
_ROUNDING: Final = Fraction(1, 10**11)
"""More than each step of a composition can err in delta, by doubles (``proofs.md``, section 21)."""
_CLOSENESS: Final = 1e-9
"""More than discrete and continuous noise can differ in epsilon, and the rounding of losses."""
_LARGEST_MULTIPLIER: Final = 1e4
_NEAR_ENOUGH: Final = 1.002
_RESOLUTION: Final = 1e-3
"""Grid of losses, in units of epsilon; they are rounded against the claim."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """Public numbers of all mechanisms that a record takes part in.

    Parameters
    ----------
    first_mu
        Distance over standard deviation of all Gaussian releases of the partition together.
    rate
        The chance of a record to be in a batch, a multiple of 2^-32 up to 1.
    n_steps
        T.
    relation
        ``add-remove-one``; or ``replace-one``, which costs one record that goes and one that comes.

    Raises
    ------
    ConfigError, PrivacyError
        A number is out of range.
    """

    first_mu: float
    rate: Fraction
    n_steps: int
    relation: str

    def __post_init__(self) -> None:
        require_neighbouring(self.relation)
        if not 0 < self.rate <= 1 or (self.rate * RATE_UNIT).denominator != 1:
            raise ConfigError(
                "must be above 0 and at most 1",
                field="batch_rate",
                fix="use 0.05 to 0.2; it is the chance of a record to be in a batch",
            )
        if not 1 <= self.n_steps <= MOST_STEPS:
            raise ConfigError(
                f"must be from 1 to {MOST_STEPS}", field="n_steps", fix="use some hundred"
            )

    def bound_delta(self, epsilon: Fraction, multiplier: float) -> Fraction:
        """Bound delta at an epsilon from above.

        Parameters
        ----------
        multiplier
            Standard deviation of the noise of a step over the length of a record's gradient.

        Raises
        ------
        ConfigError
            ``dp-accounting`` is not installed.
        """
        if self.relation == "add-remove-one":
            return self._bound(float(epsilon), multiplier)
        # Two steps of the group rule: section 19 of the proofs.
        half = float(epsilon) / 2.0
        return min(Fraction(1), Fraction(1.0 + math.exp(half)) * self._bound(half, multiplier))

    def _bound(self, epsilon: float, multiplier: float) -> Fraction:
        interval = _RESOLUTION * min(max(epsilon, 0.1), 10.0)
        composed = _compose(self.first_mu, float(self.rate), self.n_steps, multiplier, interval)
        found = float(composed.get_delta(max(epsilon - _CLOSENESS, 0.0)))
        return Fraction(found) + (self.n_steps + 2) * _ROUNDING

    def calibrate_multiplier(self, epsilon: Fraction, delta: Fraction) -> float:
        """Return a multiplier with which the training is (epsilon, delta) private, by bisection.

        Raises
        ------
        PrivacyError
            No noise that can be drawn is enough, or delta is too small to be computed.
        """
        if delta < LEAST_DELTA or delta <= 2 * (self.n_steps + 2) * _ROUNDING:
            raise PrivacyError(
                "is too small to be computed for so many steps",
                field="delta",
                fix='use less than one over the number of records, such as "1e-6"',
            )
        return _calibrate(self, epsilon, delta)


@lru_cache(maxsize=64)
def _calibrate(training: Training, epsilon: Fraction, delta: Fraction) -> float:
    low, high = 0.1, 1.0
    while training.bound_delta(epsilon, high) > delta:
        low, high = high, 4.0 * high
        if high > _LARGEST_MULTIPLIER:
            raise PrivacyError(
                "is too small for so many steps on such batches",
                field="epsilon",
                fix="use a larger epsilon, fewer steps or a smaller batch_rate",
            )
    while high > _NEAR_ENOUGH * low:
        middle = math.sqrt(low * high)
        if training.bound_delta(epsilon, middle) > delta:
            low = middle
        else:
            high = middle
    return high


@lru_cache(maxsize=256)
def compute_mu(epsilon: Fraction, delta: Fraction) -> float:
    """Return the largest mu of a Gaussian mechanism that is (epsilon, delta) private, rounded down.

    mu is the distance over the standard deviation (Dong, Roth and Su 2022).
    """
    low, high = 0, 1 << 40
    while high - low > 1 << 20:
        middle = (low + high) // 2
        found = bound_gaussian_delta(
            sensitivity_squared=Fraction(middle, 1 << 30) ** 2,
            variance=Fraction(1),
            epsilon=epsilon,
        )
        if Fraction(found) > delta:
            high = middle
        else:
            low = middle
    return low / (1 << 30)


def _compose(first_mu: float, rate: float, n_steps: int, multiplier: float, interval: float) -> Any:
    """Return the accountant of a partition and a training, under add-remove-one."""
    try:
        import dp_accounting  # noqa: PLC0415 - an extra, and slow to import
        from dp_accounting.pld import pld_privacy_accountant  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError('needs the extra "lab"', fix="pip install 'sfumato[lab]'") from error
    accountant = pld_privacy_accountant.PLDAccountant(value_discretization_interval=interval)
    step = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(multiplier))
    accountant.compose(dp_accounting.SelfComposedDpEvent(step, n_steps))
    if first_mu > 0.0:
        accountant.compose(dp_accounting.GaussianDpEvent(1.0 / first_mu))
    return accountant
