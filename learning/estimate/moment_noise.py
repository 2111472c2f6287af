"""The noise on a covariance that comes from noised sums, and what it does to eigenvalues.

With n complete records, C = (sum of u u') / n - m m' carries a symmetric noise matrix N:

* an entry off the diagonal has standard deviation t = sd / (7 n), one on it s = sd / (w n), with
  the diagonal weight w of :class:`sfumato.shared.core.statistics.moments.MomentsStatistic`;
* the mean has an error e of standard deviation r = sd / (7 q n) in each dimension, and m m' adds
  ``-(m e' + e m' + e e')``, whose expectation -r^2 I is taken back;
* an error of n by a share f adds ``f (m m' - C)``.

In a metric that multiplies dimension a by g_a, for orthonormal v and w and K = G^2,

    Var(v' N w) = (t^2 + r^4) ((v'K v)(w'K w) + (v'K w)^2)
                  + (s^2 - 2 t^2) sum_a g_a^4 v_a^2 w_a^2
                  + r^2 ((m'v)^2 w'K w + (m'w)^2 v'K v + 2 (m'v)(m'w) v'K w) + f^2 (m'v)^2 (m'w)^2
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_GAP = 5.0
"""Two equal eigenvalues are further apart than so many sd of their pair in one case of twenty."""
_ROUNDS = 50


@dataclass(frozen=True, kw_only=True, eq=False)
class NoiseLaw:
    """The law of N in the metric, in the letters of the module's docstring.

    Parameters
    ----------
    t, s, r
        Standard deviations of an entry off the diagonal and on it, and of the mean; squared steps,
        and steps.
    f
        Standard deviation of the number of records, as a share of it.
    g
        Shape ``(d,)``: units of the metric in a step.
    m
        Shape ``(d,)``: the mean, in the metric.
    """

    t: float
    s: float
    r: float
    f: float
    g: Floats
    m: Floats

    def vary(self, q: Floats) -> Floats:
        """Compute the variance of ``v' N w`` of each two columns v, w of q: shape ``(d, d)``."""
        k = (q * self.g[:, np.newaxis] ** 2).T @ q
        along = q.T @ self.m
        own = np.diag(k)
        square = np.outer(own, own) + k**2
        cubed = (q**2 * self.g[:, np.newaxis] ** 4).T @ q**2
        products = np.outer(along, along)
        turned = np.outer(along**2, own)
        variances: Floats = (
            (self.t**2 + self.r**4) * square
            + (self.s**2 - 2 * self.t**2) * cubed
            + self.r**2 * (turned + turned.T + 2 * products * k)
            + (self.f * products) ** 2
        )
        return variances

    def vary_share(self, q: Floats, share: Floats) -> Floats:
        """Compute the variance of ``v_i' N v_i - share_i trace(N)``: shape ``(d,)``.

        The error of a share, first order, times the trace. Every term is a sum over independent
        entries of N or of e.
        """
        d = len(self.g)
        # Weight of N_aa, and of 2 N_ab, in each difference.
        squares, g2 = q**2, self.g**2
        diagonal = squares - share
        own = g2 @ squares
        off = own**2 - (g2**2) @ squares**2
        along = q.T @ self.m
        # d/de of 2 (m'v)(v'e) - 2 share m'e, by dimension.
        slope = 2 * (q * along - np.outer(self.m, share)) * self.g[:, np.newaxis]
        total = float(self.m @ self.m)
        scale = along**2 - share * total
        variances: Floats = (
            self.s**2 * (g2**2) @ diagonal**2
            + 2 * self.t**2 * off * (d > 1)
            + self.r**2 * np.sum(slope**2, axis=0)
            + self.f**2 * scale**2
        )
        return variances

    @property
    def edge(self) -> float:
        """The norm of N in the mean, to first order, where C is 0 but for the mean."""
        length = float(np.linalg.norm(self.g))
        half = self.t * float(np.max(self.g)) * length
        spike = self.r * float(np.linalg.norm(self.m)) * length
        # A random matrix lifts an eigenvalue beside it only if that is beyond half its edge.
        return 2 * half if spike <= half else spike + half**2 / spike

    @property
    def reach(self) -> float:
        """A norm that N does not exceed in nineteen cases of twenty."""
        return self.edge * (1.0 + math.pow(len(self.g), -2 / 3))


def find_gaps(raw: Floats, variances: Floats, noise: NoiseLaw) -> NDArray[np.bool_]:
    """Return whether each eigenvalue is told apart from the next: shape ``(d,)``, the last True."""
    # Along the axes an entry varies less, and a direction of noise may lie along them.
    least = noise.t * float(np.min(noise.g)) ** 2
    sd = np.maximum(np.sqrt(np.diag(variances, 1)), least)
    return np.append(-np.diff(raw) > _GAP * sd, True)


def _find_blocks(is_parted: NDArray[np.bool_]) -> Integers:
    """Return a number for each block of components that are not told apart."""
    return np.concatenate([[0], np.cumsum(is_parted[:-1])]).astype(np.int64)


def _average(values: Floats, block: Integers) -> Floats:
    """Replace each value by the mean of its block."""
    means: Floats = (np.bincount(block, weights=values) / np.bincount(block))[block]
    return means


def remove_lift(raw: Floats, variances: Floats, is_parted: NDArray[np.bool_]) -> Floats:
    """Solve ``l_i = lambda_i + sum over j of V_ij / (lambda_i - lambda_j)`` for lambda."""
    block = _find_blocks(is_parted)
    apart = block[:, np.newaxis] != block
    start = _average(raw, block)
    gaps = start[:, np.newaxis] - start
    values = start
    for _ in range(_ROUNDS):
        # No solution has a gap below half of what is seen.
        now = np.sign(gaps) * np.maximum(np.abs(values[:, np.newaxis] - values), np.abs(gaps) / 2)
        lift = np.divide(variances, now, out=np.zeros_like(variances), where=apart)
        values = _average(raw - np.sum(lift, axis=1), block)
    return np.maximum(values, 0.0)


def expect_turns(values: Floats, variances: Floats, is_parted: NDArray[np.bool_]) -> Floats:
    """Compute the expected square of what noise adds of direction j to direction i.

    Shape ``(d, d)``. It is 1 within a block, whose directions are arbitrary. The sum of a row is
    the expected squared sine of the angle of the direction, while it is small.
    """
    block = _find_blocks(is_parted)
    gaps = values[:, np.newaxis] - values
    turns = np.full_like(variances, 1.0)
    np.fill_diagonal(turns, 0.0)
    apart = (block[:, np.newaxis] != block) & (gaps != 0)
    np.divide(variances, gaps**2, out=turns, where=apart)
    return turns


def expect_errors(values: Floats, variances: Floats, turns: Floats, q: Floats) -> Floats:
    """Compute the deviation of each entry of ``sqrt(lambda_i) v_i``, to first order.

    Shape ``(d, d)``, a row for each direction: it turns into the others, and its length errs by
    that of ``sqrt(lambda_i)``. The errors of these are taken for independent.
    """
    variance, squares = np.diag(variances), q.T**2
    # A root moves by no more than the root of what its square moves by.
    least = np.maximum(np.sqrt(variance), np.finfo(float).tiny)
    lengths = variance / np.maximum(4.0 * values, least)
    errors: Floats = np.sqrt(values[:, None] * (turns @ squares) + lengths[:, None] * squares)
    return errors
