"""The fewest normals that a noised histogram tells apart: a template for its spread.

Least squares of all bins at once, ``min sum_j (y_j - sum_k w_k P_kj)^2`` with P_k a normal binned
at the same edges: the error of ``<y, P>`` is that of one bin times ``|P|``, far below that of a
quantile. A further normal is taken only if noise cannot explain its gain. Where bins were not
observed themselves but by reports, P_k is what reports of such records would be.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from sfumato.learning.estimate.histogram import BinNoise, Floats

Observe = Callable[[Floats, Floats], Floats]
"""Means and deviations of K normals, each of shape ``(K,)``, to what is seen of each."""

_MOST_HUMPS = 6
_WIDENING = 1.6
_STEPS = 30
_DIFFERENCE = 1.5e-8
# Bounds of the parameters of a fit: logits of weights, and shifts in starting deviations.
_LARGEST_LOGIT, _LARGEST_SHIFT = 12.0, 4.0
_NEGLIGIBLE = 1e-5
_LEAST_REST = 0.01


@dataclass(frozen=True, kw_only=True, eq=False)
class Humps:
    """A mixture of normals, in the coordinate of the edges it was fitted to.

    Parameters
    ----------
    weights, means, deviations
        Shape ``(K,)``; weights sum to 1.
    misfit
        Squared distance to the bins, in noise variances of one.
    rest
        Share of the records that are in none.
    """

    weights: Floats
    means: Floats
    deviations: Floats
    misfit: float
    rest: float = 0.0

    @property
    def mean(self) -> float:
        """Mean of the mixture."""
        return float(self.weights @ self.means)

    @property
    def spread(self) -> float:
        """Standard deviation of the mixture."""
        squares = self.deviations**2 + (self.means - self.mean) ** 2
        return float(np.sqrt(self.weights @ squares))

    def bin(self, edges: Floats) -> Floats:
        """Return the probability of each bin."""
        probabilities: Floats = self.weights @ bin_normals(edges, self.means, self.deviations)
        return probabilities


def fit_humps(
    shares: Floats,
    edges: Floats,
    *,
    deviation: float,
    exponent: float,
    noise: BinNoise,
    observe: Observe | None = None,
    rest: Floats | None = None,
) -> Humps:
    """Fit normals to shares of records in bins.

    Parameters
    ----------
    shares
        Shape ``(w,)``; of another length where they are not of bins.
    edges
        Shape ``(w + 1,)``, ascending, on the scale in which the humps are normal.
    deviation
        Standard deviation of the noise of one share.
    exponent
        Negative logarithm of the probability of a hump that only noise has made.
    noise
        Its law; only the law's shape is used.
    observe
        What is seen of normals; None where bins are.
    rest
        What is seen of records that are in no hump, like ``shares``; None where there are none.
    """
    centres, widths = (edges[1:] + edges[:-1]) / 2.0, np.diff(edges)
    means, deviations = _list_candidates(edges, centres, widths)
    fit = _Fit(shares, edges, deviation, observe or partial(bin_normals, edges), rest)
    templates = fit.observe(means, deviations)
    energies = np.einsum("ij,ij->i", templates, templates)
    j = int(np.argmax(2.0 * templates @ shares - energies))
    found = fit.refine(np.ones(1), means[[j]], deviations[[j]], _LEAST_REST)
    while found.weights.size < _MOST_HUMPS:
        model = fit.predict(found)
        left = shares - model
        slopes = templates @ left - model @ left
        norms = energies - 2.0 * templates @ model + model @ model
        steps = np.clip(slopes / np.maximum(norms, np.finfo(float).tiny), 0.0, 1.0)
        j = int(np.argmax(steps * (2.0 * slopes - steps * norms)))
        if steps[j] <= 0.0:
            break
        richer = fit.refine(
            np.append(found.weights * (1.0 - steps[j]), steps[j]),
            np.append(found.means, means[j]),
            np.append(found.deviations, deviations[j]),
            found.rest,
        )
        if found.misfit - richer.misfit < need_gain(noise, 1.0 / energies[j], exponent):
            break
        found = richer
    kept = found.weights > _NEGLIGIBLE
    weights = found.weights[kept] / found.weights[kept].sum()
    return Humps(
        weights=weights,
        means=found.means[kept],
        deviations=found.deviations[kept],
        misfit=found.misfit,
        rest=found.rest,
    )


def need_gain(noise: BinNoise, n_bins: float, exponent: float) -> float:
    """Return the gain in misfit that a hump over so many bins needs: its squared deviations."""
    limit = noise.bound(np.array(n_bins), exponent)
    return float(limit**2 / (n_bins * noise.variance))


def bin_normals(edges: Floats, means: Floats, deviations: Floats) -> Floats:
    """Return the probabilities of bins under normals: shape ``(K, w)``."""
    from scipy.special import ndtr  # noqa: PLC0415 - a server seldom needs it

    binned: Floats = np.diff(ndtr((edges - means[:, None]) / deviations[:, None]), axis=1)
    return binned


def _list_candidates(edges: Floats, centres: Floats, widths: Floats) -> tuple[Floats, Floats]:
    """List normals: one inside each bin, and wider ones half a deviation apart."""
    means, deviations = [centres], [widths / 4.0]
    deviation, span = float(widths.min()), float(edges[-1] - edges[0])
    while deviation < span:
        # Bins that are much wider than the hump see one inside them, which the list has already.
        resolved = centres[widths <= 3.0 * deviation]
        cells = np.floor(resolved / (deviation / 2.0))
        chosen = resolved[np.flatnonzero(np.diff(cells, prepend=-np.inf))]
        means.append(chosen)
        deviations.append(np.full(chosen.size, deviation))
        deviation *= _WIDENING
    return np.concatenate(means), np.concatenate(deviations)


@dataclass(frozen=True)
class _Fit:
    """Descent on weights, means and deviations together."""

    shares: Floats
    edges: Floats
    deviation: float
    observe: Observe
    rest: Floats | None

    def predict(self, humps: Humps) -> Floats:
        """Return what is seen of a mixture and of the rest."""
        seen: Floats = humps.weights @ self.observe(humps.means, humps.deviations)
        return seen if self.rest is None else (1.0 - humps.rest) * seen + humps.rest * self.rest

    def refine(self, weights: Floats, means: Floats, deviations: Floats, rest: float) -> Humps:
        """Descend from a mixture and a rest, in a box around them."""
        from scipy.optimize import least_squares  # noqa: PLC0415 - a server seldom needs it

        k = weights.size
        centres, widths = (self.edges[1:] + self.edges[:-1]) / 2.0, np.diff(self.edges)
        width = np.interp(means, centres, widths)
        length = np.maximum(deviations, width / 2.0)
        logs = np.log(deviations)
        narrowest = np.minimum(np.log(width / 8.0), logs) - 0.01
        widest = np.log(1.5 * (self.edges[-1] - self.edges[0]))
        most = np.concatenate([np.full(k - 1, _LARGEST_LOGIT), np.full(k, _LARGEST_SHIFT)])
        ratios = np.log(np.maximum(weights[1:], 1e-6) / max(float(weights[0]), 1e-6))
        n_free = 3 * k - (self.rest is None)
        lower = np.concatenate([-most, narrowest, [0.0]])[:n_free]
        upper = np.concatenate([most, np.full(k, widest), [1.0]])[:n_free]
        start = np.concatenate([ratios, np.zeros(k), logs, [rest]])[:n_free]

        def read(values: Floats) -> Humps:
            logits = np.concatenate([[0.0], values[: k - 1]])
            powers = np.exp(logits - logits.max())
            return Humps(
                weights=powers / powers.sum(),
                means=means + length * values[k - 1 : 2 * k - 1],
                deviations=np.exp(values[2 * k - 1 : 3 * k - 1]),
                misfit=0.0,
                rest=0.0 if self.rest is None else float(values[-1]),
            )

        def measure(values: Floats) -> Floats:
            residuals: Floats = (self.predict(read(values)) - self.shares) / self.deviation
            return residuals

        def differentiate(values: Floats) -> Floats:
            return self._differentiate(read(values), length)

        start = np.clip(start, lower + 1e-6, upper - 1e-6)
        result = least_squares(
            measure, start, differentiate, bounds=(lower, upper), max_nfev=_STEPS
        )
        return replace(read(result.x), misfit=2.0 * float(result.cost))

    def _differentiate(self, humps: Humps, length: Floats) -> Floats:
        """Return the derivatives of the residuals, a parameter a column.

        What is seen of a normal is differentiated by differences, because it may be reports.
        """
        means, deviations, step = humps.means, humps.deviations, _DIFFERENCE
        seen = self.observe(means, deviations)
        whole = humps.weights @ seen
        by_mean = (self.observe(means + step * length, deviations) - seen) / step
        by_log = self.observe(means, deviations * np.exp(step)) - seen
        parts = [(seen - whole)[1:], by_mean, by_log / step]
        shares = [humps.weights[1:], humps.weights, humps.weights]
        rows = np.concatenate(parts) * np.concatenate(shares)[:, None] * (1.0 - humps.rest)
        if self.rest is not None:
            rows = np.concatenate([rows, (self.rest - whole)[None]])
        jacobian: Floats = rows.T / self.deviation
        return jacobian
