"""The privacy of a published mixture of networks, by its own formula and by loss distributions.

Acs, Melis, Castelluccia and De Cristofaro (ICDM 2017) state epsilon = 1.74 at delta = 1e-5 for
their images of MNIST: 20 rounds of k-means with scale 40, then 20 epochs of batches at a rate of
0.0017, whose norms are found at scale 4 and whose gradients have noise of scale 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import dp_accounting
import numpy as np
from dp_accounting.pld import pld_privacy_accountant
from scipy.special import logsumexp

STATED: Final = 1.74
N_RECORDS: Final = 60_000
_MOST_ORDER: Final = 32
"""As published: enough orders lambda."""
_SHARES: Final = tuple(i / 10 for i in range(1, 10))
"""As published: about ten values of j_1, and j_2 = 1 - j_1."""
_RESOLUTION: Final = 1e-3


@dataclass(frozen=True, kw_only=True)
class Published:
    """Settings of one training of the paper.

    Parameters
    ----------
    rate
        q, the chance of a record to be in a batch.
    n_epochs
        Of ``ceil(1 / q)`` steps each.
    norm_scale, cluster_scale, gradient_scale
        The paper's sigmas of norms, k-means and gradients.
    n_rounds
        Of k-means.
    """

    rate: float = 0.0017
    n_epochs: int = 20
    norm_scale: float = 4.0
    cluster_scale: float = 40.0
    gradient_scale: float = 1.0
    n_rounds: int = 20

    @property
    def n_steps(self) -> int:
        """Steps of the training."""
        return self.n_epochs * math.ceil(1.0 / self.rate)

    def compute_published(self, delta: float) -> float:
        """Compute epsilon by the paper's Theorem 4, with its Lemma 1 as printed.

        ``min over lambda of (T_K (l^2 + l) / (2 s_K^2) + T_S min_j (j a(l/j, s_C) + (1 - j)
        a(l/(1 - j), s_G)) - log delta) / l``.
        """
        found = math.inf
        for order in range(1, _MOST_ORDER + 1):
            clusters = self.n_rounds * (order**2 + order) / (2.0 * self.cluster_scale**2)
            step = min(
                share * _compute_moment(order / share, self.rate, self.norm_scale)
                + (1.0 - share)
                * _compute_moment(order / (1.0 - share), self.rate, self.gradient_scale)
                for share in _SHARES
            )
            total = clusters + self.n_steps * step
            found = min(found, (total - math.log(delta)) / order)
        return found

    def compute_correct(self, delta: float, *, replaced: bool = False) -> float:
        """Compute epsilon by loss distributions, for the noise that the algorithms print.

        That is N(0, 2 s^2) on sums that a record which comes or goes moves by 1, in counts and in
        features of each round, and in norms and gradients of each batch.

        Parameters
        ----------
        replaced
            Whether a record is replaced: one that goes and one that comes, each in its own part.
        """
        joint = math.sqrt(2.0 / (self.norm_scale**-2 + self.gradient_scale**-2))
        step = dp_accounting.PoissonSampledDpEvent(self.rate, dp_accounting.GaussianDpEvent(joint))
        clusters = dp_accounting.GaussianDpEvent(self.cluster_scale / math.sqrt(self.n_rounds))
        accountant = pld_privacy_accountant.PLDAccountant(value_discretization_interval=_RESOLUTION)
        accountant.compose(dp_accounting.SelfComposedDpEvent(step, self.n_steps))
        accountant.compose(clusters)
        if not replaced:
            return float(accountant.get_epsilon(delta))
        # The group rule for two steps: half of epsilon, and (1 + exp(epsilon / 2)) times delta.

        def costs_more(epsilon: float) -> bool:
            least = float(accountant.get_delta(epsilon / 2.0))
            return (1.0 + math.exp(epsilon / 2.0)) * least > delta

        # From below: far above the answer the factor multiplies what rounding leaves of delta.
        low, high = 0.0, 1.0
        while costs_more(high):
            low, high = high, 2.0 * high
        while high - low > 1e-4:
            middle = (low + high) / 2.0
            low, high = (middle, high) if costs_more(middle) else (low, middle)
        return high


def _compute_moment(order: float, rate: float, scale: float) -> float:
    """Return the log moment of a Gaussian step on a batch: ``log max(E_1, E_2)``."""
    if (order, rate, scale) not in _MOMENTS:
        _MOMENTS[order, rate, scale] = max(
            _integrate(order, rate, scale, is_beside=flag) for flag in (False, True)
        )
    return _MOMENTS[order, rate, scale]


_MOMENTS: Final[dict[tuple[float, float, float], float]] = {}


def _integrate(order: float, rate: float, scale: float, *, is_beside: bool) -> float:
    # Smooth, and next to nothing at both ends: the trapezoidal rule is exact to many digits.
    reach = 12.0 * scale
    x = np.linspace(-reach - order, reach + order + 1.0, 20_001)
    without = -(x**2) / (2.0 * scale**2) - math.log(scale * math.sqrt(2.0 * math.pi))
    shifted = without + (2.0 * x - 1.0) / (2.0 * scale**2)
    beside = np.logaddexp(math.log1p(-rate) + without, math.log(rate) + shifted)
    logs = (
        beside + order * (beside - without) if is_beside else without + order * (without - beside)
    )
    return float(logsumexp(logs) + math.log(x[1] - x[0]))


def list_figure() -> dict[str, list[Published]]:
    """Return the settings of Figure 2 by panel: rates, scales of k-means, scales of gradients."""
    usual = Published()
    return {
        "rate": [replace(usual, rate=rate) for rate in (0.001, 0.0017, 0.0034)],
        "scale of k-means": [replace(usual, cluster_scale=each) for each in (20.0, 40.0, 80.0)],
        "scale of gradients": [replace(usual, gradient_scale=each) for each in (1.0, 1.5, 2.0)],
    }
