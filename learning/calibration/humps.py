"""The fewest normals that a noised histogram tells apart: a template for its spread.

Least squares of all bins at once, ``min sum_j (y_j - sum_k w_k P_kj)^2`` with P_k a normal binned
at the same edges: the error of ``<y, P>`` is that of one bin times ``|P|``, far below that of a
quantile. A further normal is taken only if noise cannot explain its gain.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from learning.estimate.histogram import BinNoise, Floats

_MOST_HUMPS = 6
_WIDENING = 1.6
_STEPS = 30
# Bounds of the parameters of a fit: logits of weights, and shifts in starting deviations.
_LARGEST_LOGIT, _LARGEST_SHIFT = 12.0, 4.0
_NEGLIGIBLE = 1e-5


@dataclass(frozen=True, kw_only=True, eq=False)
class Humps:
    """A mixture of normals, in the coordinate of the edges it was fitted to.

    Parameters
    ----------
    weights, means, deviations
        Shape ``(K,)``; weights sum to 1.
    misfit
        Squared distance to the bins, in noise variances of one.
    """

    weights: Floats
    means: Floats
    deviations: Floats
    misfit: float

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
        probabilities: Floats = self.weights @ _bin(edges, self.means, self.deviations)
        return probabilities


def fit_humps(
    shares: Floats, edges: Floats, *, deviation: float, exponent: float, noise: BinNoise
) -> Humps:
    """Fit normals to shares of records in bins.

    Parameters
    ----------
    shares
        Shape ``(w,)``.
    edges
        Shape ``(w + 1,)``, ascending, on the scale in which the humps are normal.
    deviation
        Standard deviation of the noise of one share.
    exponent
        Negative logarithm of the probability of a hump that only noise has made.
    noise
        Its law; only the law's shape is used.
    """
    centres, widths = (edges[1:] + edges[:-1]) / 2.0, np.diff(edges)
    means, deviations = _list_candidates(edges, centres, widths)
    templates = _bin(edges, means, deviations)
    energies = np.einsum("ij,ij->i", templates, templates)
    j = int(np.argmax(2.0 * templates @ shares - energies))
    fit = _Fit(shares, edges, deviation)
    found = fit.refine(np.ones(1), means[[j]], deviations[[j]])
    while found.weights.size < _MOST_HUMPS:
        model = found.bin(edges)
        moves = templates - model
        slopes = moves @ (shares - model)
        norms = np.einsum("ij,ij->i", moves, moves)
        steps = np.clip(slopes / np.maximum(norms, np.finfo(float).tiny), 0.0, 1.0)
        j = int(np.argmax(steps * (2.0 * slopes - steps * norms)))
        if steps[j] <= 0.0:
            break
        richer = fit.refine(
            np.append(found.weights * (1.0 - steps[j]), steps[j]),
            np.append(found.means, means[j]),
            np.append(found.deviations, deviations[j]),
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
    )


def need_gain(noise: BinNoise, n_bins: float, exponent: float) -> float:
    """Return the gain in misfit that a hump over so many bins needs: its squared deviations."""
    limit = noise.bound(np.array(n_bins), exponent)
    return float(limit**2 / (n_bins * noise.variance))


def _bin(edges: Floats, means: Floats, deviations: Floats) -> Floats:
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

    def refine(self, weights: Floats, means: Floats, deviations: Floats) -> Humps:
        from scipy.optimize import least_squares  # noqa: PLC0415 - a server seldom needs it

        k = weights.size
        centres, widths = (self.edges[1:] + self.edges[:-1]) / 2.0, np.diff(self.edges)
        width = np.interp(means, centres, widths)
        length = np.maximum(deviations, width / 2.0)

        def unpack(values: Floats) -> tuple[Floats, Floats, Floats]:
            logits = np.concatenate([[0.0], values[: k - 1]])
            powers = np.exp(logits - logits.max())
            shifted = means + length * values[k - 1 : 2 * k - 1]
            return powers / powers.sum(), shifted, np.exp(values[2 * k - 1 :])

        def measure(values: Floats) -> Floats:
            w, m, s = unpack(values)
            residuals: Floats = (w @ _bin(self.edges, m, s) - self.shares) / self.deviation
            return residuals

        logs = np.log(deviations)
        narrowest = np.minimum(np.log(width / 8.0), logs) - 0.01
        widest = np.log(1.5 * (self.edges[-1] - self.edges[0]))
        bottom = [np.full(k - 1, -_LARGEST_LOGIT), np.full(k, -_LARGEST_SHIFT), narrowest]
        top = [np.full(k - 1, _LARGEST_LOGIT), np.full(k, _LARGEST_SHIFT), np.full(k, widest)]
        lower, upper = np.concatenate(bottom), np.concatenate(top)
        ratios = np.log(np.maximum(weights[1:], 1e-6) / max(float(weights[0]), 1e-6))
        start = np.clip(np.concatenate([ratios, np.zeros(k), logs]), lower + 1e-6, upper - 1e-6)
        result = least_squares(measure, start, bounds=(lower, upper), max_nfev=_STEPS)
        w, m, s = unpack(result.x)
        return Humps(weights=w, means=m, deviations=s, misfit=2.0 * float(result.cost))
