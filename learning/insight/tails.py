"""Tail probabilities of statistics by simulated draws, and corrections for asking many times."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.insight.covariance import Floats

__all__ = ["NullDraws", "SmallestDraws", "adjust_holm", "find_discoveries"]

_COUNTED: Final = 20
"""Draws beyond a statistic above which their share is its p-value."""
_NEARLY_SYMMETRIC = 1e-6
_LEAST_P: Final = 1e-250


@dataclass(frozen=True, kw_only=True, eq=False)
class NullDraws:
    """Draws of one statistic where nothing has changed: shape ``(B,)``, B at least 100."""

    draws: Floats

    @cached_property
    def _ascending(self) -> Floats:
        return np.sort(self.draws)

    @property
    def mean(self) -> float:
        """The mean of the draws."""
        return float(np.mean(self.draws))

    @property
    def deviation(self) -> float:
        """The standard deviation of the draws."""
        return float(np.std(self.draws))

    def count_from(self, values: Floats) -> NDArray[np.int64]:
        """Count the draws at or above each value."""
        return self.draws.size - np.searchsorted(self._ascending, values, side="left")

    def estimate_p(self, value: float) -> float:
        """Estimate the probability of at least a value.

        The share of draws, ``(1 + #) / (B + 1)``; where fewer than 20 draws reach it, the tail of a
        gamma variate with the mean, deviation and skewness of the draws, an extrapolation.
        """
        n_beyond = int(self.count_from(np.array([value]))[0])
        counted = (1.0 + n_beyond) / (self.draws.size + 1.0)
        if n_beyond >= _COUNTED:
            return counted
        return min(self._extrapolate(value), (1.0 + _COUNTED) / (self.draws.size + 1.0))

    def estimate_log_p(self, value: float) -> float:
        """Estimate the natural logarithm of the p-value, where the p-value itself may underflow."""
        p = self.estimate_p(value)
        if p > _LEAST_P:
            return math.log(p)
        from scipy.special import gammaln, log_ndtr  # noqa: PLC0415 - a server never needs it

        z = (value - self.mean) / self.deviation
        if self._skewness < _NEARLY_SYMMETRIC:
            return float(log_ndtr(-z))
        shape = 4.0 / self._skewness**2
        # Far beyond the mode, the tail is the density over its rate of decay.
        reached = shape + z * math.sqrt(shape)
        decay = math.log1p(-(shape - 1.0) / reached)
        return float((shape - 1.0) * math.log(reached) - reached - gammaln(shape) - decay)

    def estimate_lower_p(self, value: float) -> float:
        """Estimate the probability of at most a value, in the same way."""
        n_below = int(np.searchsorted(self._ascending, value, side="right"))
        counted = (1.0 + n_below) / (self.draws.size + 1.0)
        if n_below >= _COUNTED:
            return counted
        return min(
            self._extrapolate(value, is_lower=True), (1.0 + _COUNTED) / (self.draws.size + 1.0)
        )

    def find_value(self, p: float) -> float:
        """Find the value that is reached with a small probability, by the matched gamma variate."""
        from scipy.special import gammainccinv, ndtri  # noqa: PLC0415 - a server never needs it

        if not self.deviation > 0.0:
            return self.mean
        if self._skewness < _NEARLY_SYMMETRIC:
            return self.mean - self.deviation * float(ndtri(p))
        shape = 4.0 / self._skewness**2
        z = (float(gammainccinv(shape, p)) - shape) / math.sqrt(shape)
        return self.mean + self.deviation * z

    @cached_property
    def _skewness(self) -> float:
        return float(np.mean(((self.draws - self.mean) / self.deviation) ** 3))

    def _extrapolate(self, value: float, *, is_lower: bool = False) -> float:
        from scipy.special import gammainc, gammaincc  # noqa: PLC0415 - a server never needs it

        if not self.deviation > 0.0:
            return 1.0 / (self.draws.size + 1.0)
        z = (value - self.mean) / self.deviation
        if self._skewness < _NEARLY_SYMMETRIC:
            return 0.5 * math.erfc((-z if is_lower else z) / math.sqrt(2.0))
        shape = 4.0 / self._skewness**2
        reached = max(0.0, shape + z * math.sqrt(shape))
        return float((gammainc if is_lower else gammaincc)(shape, reached))


@dataclass(frozen=True, kw_only=True, eq=False)
class SmallestDraws:
    """The smallest p-value of several statistics of the same draws.

    Correlated tests at level q reject together with a probability between q and their number times
    q. Multiplying the smallest p-value assumes the worst; the draws show what it is.

    Parameters
    ----------
    laws
        Draws of each statistic, in one order.
    """

    laws: tuple[NullDraws, ...]

    @cached_property
    def _ascending(self) -> Floats:
        """The smallest p-value of each draw among the draws, ascending: shape ``(B,)``."""
        counts = [law.count_from(law.draws) for law in self.laws]
        return np.sort(np.min(counts, axis=0) / self.laws[0].draws.size)

    @cached_property
    def ratio(self) -> float:
        """By what the probability exceeds a p-value too small to be counted: at least 1.

        The share of draws whose smallest p-value is at most the least that is counted, over that
        one. Correlated tests reject together less and less the smaller the level, so that the ratio
        at 5 % would give false alarms at 1 % an eighth too often.
        """
        level = self._least_counted
        share = np.searchsorted(self._ascending, level, side="right") / self._ascending.size
        return float(np.clip(share / level, 1.0, len(self.laws)))

    @property
    def _least_counted(self) -> float:
        return (1.0 + _COUNTED) / (self._ascending.size + 1.0)

    def estimate_log_p(self, smallest: float) -> float:
        """Do as :meth:`estimate_p`, with natural logarithms."""
        p = self.estimate_p(math.exp(smallest))
        return math.log(p) if p > _LEAST_P else math.log(self.ratio) + smallest

    def estimate_p(self, smallest: float) -> float:
        """Estimate the probability that the smallest p-value is at most this."""
        n_draws = self._ascending.size
        if smallest < self._least_counted:
            return min(1.0, self.ratio * smallest)
        below = int(np.searchsorted(self._ascending, smallest, side="right"))
        return (1.0 + below) / (n_draws + 1.0)


def adjust_holm(p_values: Floats) -> Floats:
    """Adjust p-values of one family by Holm: any below q is false with probability at most q."""
    order = np.argsort(p_values, kind="stable")
    n = p_values.size
    raised = np.maximum.accumulate(p_values[order] * (n - np.arange(n)))
    adjusted = np.empty(n)
    adjusted[order] = np.minimum(1.0, raised)
    return adjusted


def find_discoveries(p_values: Floats, *, rate: float) -> NDArray[np.bool_]:
    """Find the tests that Benjamini and Hochberg reject: at most this share of them is false.

    In the mean, for independent tests.
    """
    n = p_values.size
    ascending = np.sort(p_values)
    passed = np.flatnonzero(ascending <= rate * np.arange(1, n + 1) / n) if n else np.empty(0)
    if not passed.size:
        return np.zeros(n, dtype=np.bool_)
    found: NDArray[np.bool_] = p_values <= ascending[int(passed[-1])]
    return found
