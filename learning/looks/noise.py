"""The law of the noise of sums around centres: exact variances, tails and fourth moments."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_HALVINGS = 60


@dataclass(frozen=True, kw_only=True)
class LookNoise:
    """Noise of the sums: independent, of mean 0, each the sum of equal draws.

    Parameters
    ----------
    deviation
        Standard deviation of a sum, in its integers; one number for all, or one a sum.
    n_draws
        Draws in it: one a sketch, two a batch of a secure sum.
    is_gaussian
        Whether a draw is Gaussian, and otherwise Laplace.
    """

    deviation: Floats
    n_draws: int = 1
    is_gaussian: bool = False

    @property
    def kurtosis(self) -> float:
        """Excess kurtosis of a sum: 3 of a Laplace variable, over the number of draws."""
        return 0.0 if self.is_gaussian else 3.0 / self.n_draws

    def find_quantile(self, rate: float) -> float:
        """Return how many standard deviations a sum exceeds with at most this probability.

        Of L Laplace draws of scale b the bound of Chernoff, ``P(sum > t) <= exp(-s t) (1 - b^2
        s^2)^-L`` for the best s: with x = b s it is at ``t = 2 L b x / (1 - x^2)``. A single draw
        has its own tail, ``exp(-t / b) / 2``.
        """
        if self.is_gaussian:
            return NormalDist().inv_cdf(1.0 - rate)
        if self.n_draws == 1:
            return -math.log(2.0 * rate) / math.sqrt(2.0)
        low, high, n = 0.0, 1.0, self.n_draws
        for _ in range(_HALVINGS):
            x = (low + high) / 2.0
            exponent = -2.0 * n * x * x / (1.0 - x * x) - n * math.log1p(-x * x)
            low, high = (x, high) if exponent > math.log(rate) else (low, x)
        return 2.0 * n * high / (1.0 - high * high) / math.sqrt(2.0 * n)
