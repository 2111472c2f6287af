"""The distribution of one column: of a noised histogram and of densities of the same records.

A sketch tells how records spread over a column but for details below the plan's scale, such as
values that are far commoner than those beside them. A histogram has the details, with much noise in
each bin. Together they are a linear model with Gaussian errors. Cells are bins that can hold
records; the share of a cell is

    p = f + (1 - S) e,      h = p + noise

with f that of the densities, of mean m and covariance C over their draws; S the average over what
the sketch blurs; e independent, of variance ``(a (S m))^2 + (b / J)^2``; and h the histogram. How
far the densities err by themselves (a factor of C), how uneven values are (a) and how many lie
where the densities have none (b) follow from the histogram, by maximum likelihood.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.answers.cells import Cells, Part
from sfumato.learning.answers.densities import compute_distribution, pool
from sfumato.learning.decoding.bars import DEVIATIONS
from sfumato.learning.decoding.density import Posterior
from sfumato.shared.core.logarithm import compress

__all__ = ["LENGTHEN", "Distribution", "combine"]

Floats = NDArray[np.float64]
_BLUR: Final = 2.0
"""Standard deviation of the average that the sketch sees, in the plan's scales."""
_FACTORS: Final = (1.0, 2.0, 4.0, 10.0)
_UNEVEN: Final = (0.0, 0.03, 0.1, 0.2, 0.4, 0.7, 1.2, 2.0, 4.0, 8.0, 16.0, 32.0)
_ELSEWHERE: Final = (0.0, 0.1, 1.0)
_ROUNDS: Final = 2
_LEAST: Final = 1e-12
_FLOOR: Final = 3e-5
LENGTHEN: Final = 1.1
"""Factor of standard errors: the three numbers are themselves uncertain."""
_HIDDEN: Final = 0.5
"""The share of the records that a tail may hide, in units of the largest error of a share."""
_APART: Final = 0.5
_ROUND: Final = 1e-9
_UNIFORM: Final = 1.0 / math.sqrt(12.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class Distribution:
    """The shares of cells, and the errors of all that are below a place.

    Parameters
    ----------
    cells
        J cells.
    shares
        Shape ``(J,)``, with sum 1; noise may make some negative.
    covered
        Covariance of the sums of the first shares, of 1 to J of them: ``(J, J)``.
    draws
        Sums that may be true, one row for each draw of the densities: shape ``(n, J + 1)``.
    hidden
        A share of the records that may be in no cell, because they are no multiples of the step.
    """

    cells: Cells
    shares: Floats
    covered: NDArray[np.float32]
    draws: NDArray[np.float32]
    hidden: float = 0.0

    @cached_property
    def reached(self) -> Floats:
        """The share of the records in all cells before each, and of all: shape ``(J + 1,)``."""
        return _accumulate(self.shares)

    @cached_property
    def errors(self) -> Floats:
        """Standard errors of :attr:`reached`: shape ``(J + 1,)``."""
        squares = np.maximum(self.covered.diagonal().astype(np.float64), 0.0)
        return np.concatenate([[0.0], np.sqrt(squares)])

    def find_share(self, low: Part, high: Part) -> tuple[float, float]:
        """Find the share of the records between two places, and its standard error."""
        share, square = self._sum(self._weigh(low, high), np.ones(self.cells.n_cells))
        cut = math.hypot(self.measure_cut(low), self.measure_cut(high))
        return min(max(share, 0.0), 1.0), math.hypot(math.sqrt(square), cut)

    def measure_cut(self, part: Part) -> float:
        """Return the standard error of a place in a cell: its bar takes the records on either side.

        They may all have one value, of which the histogram knows no more.
        """
        most = max(part.share, 1.0 - part.share) * max(0.0, float(self.shares[part.cell]))
        return most / DEVIATIONS if part.is_cut else 0.0

    def find_heights(self, part: Part) -> Floats:
        """Return the share below a place under each draw: shape ``(n,)``."""
        start, stop = self.draws[:, part.cell], self.draws[:, part.cell + 1]
        return (start + part.share * (stop - start)).astype(np.float64)

    def find_quantile(
        self, share: float, *, deviations: float, sampling: float
    ) -> tuple[float, float, float]:
        """Find a quantile, and the ends of its bar.

        An end is that of the cell where the distribution function, moved by so many of its standard
        errors, reaches the share; ``sampling`` is a part of these everywhere.
        """
        moved = deviations * np.hypot(self.errors[1:], sampling)
        cell, start, stop = (
            self._find_cell(np.maximum.accumulate(self.reached[1:] + each), share)
            for each in (0.0, moved, -moved)
        )
        first, last, step = self.cells.first, self.cells.last, self.cells.step
        rising = np.maximum.accumulate(self.reached)
        inside = (share - rising[cell]) / max(rising[cell + 1] - rising[cell], _LEAST)
        inside = min(max(float(inside), 0.0), 1.0)
        value = float(first[cell] + inside * (last[cell] - first[cell]))
        if step > 0.0:
            n_values = round(float(last[cell] - first[cell]) / step) + 1
            number = max(1, math.ceil(inside * n_values - _ROUND))
            value = float(first[cell]) + (number - 1) * step
        # The bar takes whole cells, because nothing tells where in one the records lie.
        return value, float(first[min(cell, start)]), float(last[max(cell, stop)])

    def find_mean(self, low: Part, high: Part) -> tuple[float, float, float, float]:
        """Find the mean of the records between two places.

        Returns
        -------
        share, mean, error, variance
            Their share, their mean with its standard error, and their variance; the mean is 0 where
            the share is.
        """
        values, weights = self.cells.middles, self._weigh(low, high)
        share, _ = self._sum(weights, np.ones(self.cells.n_cells))
        if share <= 0.0:
            return 0.0, 0.0, 0.0, 0.0
        # With those below 0, or noise around 0 would count on one side alone.
        held, total = weights * self.shares, max(share, _LEAST)
        mean = float(np.sum(held * values)) / total
        _, square = self._sum(weights, values - mean)
        # Where in a cell its records lie, nothing tells: they may all lean to one side.
        spread = self.cells.widths * _UNIFORM
        lean = float(np.sum(np.maximum(held, 0.0) * spread)) / total
        cuts = (
            self.measure_cut(part) * abs(float(values[part.cell]) - mean) for part in (low, high)
        )
        variance = float(np.sum(held * ((values - mean) ** 2 + spread**2))) / total
        # An assumption: the mean of records in no cell is half a deviation away.
        apart = _APART * self.hidden * math.sqrt(max(0.0, variance))
        error = math.hypot(math.sqrt(square) / total, lean, apart, *(each / total for each in cuts))
        return min(share, 1.0), mean, error, max(0.0, variance)

    def measure_tails(self) -> tuple[float, float]:
        """Return how far records that noise hides beyond either tail may move the mean.

        A share s that noise hides may lie anywhere between the value beyond which a share s is
        seen, and the end of the cells.
        """
        hidden = _HIDDEN * float(np.max(self.errors))
        values = self.find_values(np.array([hidden, 1.0 - hidden]))
        ends = float(self.cells.first[0]), float(self.cells.last[-1])
        low, high = hidden * (values[0] - ends[0]), hidden * (ends[1] - values[1])
        return max(0.0, float(low)), max(0.0, float(high))

    def find_values(self, heights: Floats) -> Floats:
        """Return the values below which some shares lie: the shape of ``heights``."""
        rising = np.clip(np.maximum.accumulate(self.reached), 0.0, 1.0)
        cells = np.searchsorted(rising, heights, side="left") - 1
        cells = np.clip(cells, 0, self.cells.n_cells - 1)
        start, stop = rising[cells], rising[cells + 1]
        inside = np.clip((heights - start) / np.maximum(stop - start, _LEAST), 0.0, 1.0)
        found: Floats = self.cells.first[cells] + inside * self.cells.widths[cells]
        step = self.cells.step
        if step > 0.0:
            first = self.cells.first[cells]
            found = first + np.round((found - first) / step) * step
        return found

    def _find_cell(self, rising: Floats, share: float) -> int:
        return min(int(np.searchsorted(rising, share - _ROUND)), self.cells.n_cells - 1)

    def _weigh(self, low: Part, high: Part) -> Floats:
        """Return the part of each cell between two places: shape ``(J,)``."""
        weights = np.zeros(self.cells.n_cells)
        for part, sign in ((high, 1.0), (low, -1.0)):
            weights[: part.cell] += sign
            weights[part.cell] += sign * part.share
        return weights

    def _sum(self, weights: Floats, values: Floats) -> tuple[float, float]:
        """Return the weighted sum of some values over all records, and its variance."""
        terms = weights * values
        # A weighted sum of shares is one of the sums of the first of them.
        steps = terms - np.append(terms[1:], 0.0)
        square = float(steps @ self.covered @ steps)
        return float(terms @ self.shares), max(0.0, square)


def _accumulate(shares: Floats) -> Floats:
    """Add up shares along the last axis, from 0 on."""
    sums = np.cumsum(shares, axis=-1)
    return np.concatenate([np.zeros((*shares.shape[:-1], 1)), sums], axis=-1)


def combine(
    cells: Cells,
    n_records: float,
    posterior: Posterior,
    axis: int,
    *,
    scale: float,
    resolution: float | None,
) -> Distribution:
    """Combine the counts of cells with what densities of the same records say of them.

    Parameters
    ----------
    cells, n_records
        The cells of the histogram, and the number of records that it counts.
    posterior, axis
        The densities, and the coordinate that the column is.
    scale, resolution
        The plan's scale of the coordinate, and r of its logarithm; None for none.
    """
    places = cells.borders if resolution is None else compress(cells.borders, resolution)
    reached = compute_distribution(posterior, axis, places)
    ends = np.zeros((len(reached), 1)), np.ones((len(reached), 1))
    density = np.diff(np.concatenate([ends[0], reached, ends[1]], axis=1), axis=1)
    mean, _ = pool(posterior, density)
    free = max(1e-9, 1.0 - float(np.sum(posterior.shares**2)))
    moved = density - mean
    spread = (moved.T * posterior.shares) @ moved / free
    middles = cells.middles if resolution is None else compress(cells.middles, resolution)
    blurred = _blur(middles, _BLUR * scale)
    sharp = np.eye(cells.n_cells) - blurred
    heights = blurred @ np.maximum(mean, 0.0)
    noise = cells.noise / n_records**2
    model = _Model(
        missed=cells.counts / n_records - mean,
        # As much as keeps the equations solvable.
        noise=np.maximum(noise, (_FLOOR * float(np.max(heights))) ** 2 + _LEAST),
        spread=spread,
        uneven=(sharp * heights**2) @ sharp.T,
        elsewhere=sharp @ sharp.T / cells.n_cells**2,
    )
    # Columns have noise of their own, and so draws of their own.
    found = _follow(cells, mean, model, n_draws=posterior.n_draws, seed=axis)
    return replace(found, hidden=cells.n_hidden / n_records)


def _follow(cells: Cells, mean: Floats, model: _Model, *, n_draws: int, seed: int) -> Distribution:
    """Return what densities of a mean and the histogram say together."""
    prior = model.choose()
    gain = np.linalg.solve(prior + np.diag(model.noise), prior).T
    shares = mean + gain @ model.missed
    covariance = prior - gain @ prior
    covariance = LENGTHEN**2 * (covariance + covariance.T) / 2.0
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    chance = np.random.default_rng(seed).normal(size=(n_draws, len(values)))
    return Distribution(
        cells=cells,
        shares=shares / np.sum(shares),
        covered=np.cumsum(np.cumsum(covariance, axis=0), axis=1).astype(np.float32),
        draws=_accumulate(shares + chance @ root.T).astype(np.float32),
    )


def _blur(places: Floats, deviation: float) -> Floats:
    """Return the average over neighbouring cells, which keeps sums: shape ``(J, J)``."""
    edges = np.concatenate([places[:1], (places[1:] + places[:-1]) / 2.0, places[-1:]])
    widths = np.maximum(np.diff(edges), _LEAST)
    kernel = np.exp(-0.5 * ((places[:, None] - places) / deviation) ** 2) * widths[:, None]
    blurred: Floats = kernel / np.sum(kernel, axis=0)
    return blurred


@dataclass(frozen=True, kw_only=True, eq=False)
class _Model:
    """The densities' errors, by cell: shapes ``(J,)`` and ``(J, J)``."""

    missed: Floats
    noise: Floats
    spread: Floats
    uneven: Floats
    elsewhere: Floats

    def choose(self) -> Floats:
        """Return the covariance of the densities' errors that explains the histogram best."""
        grids: tuple[Sequence[float], ...] = (_FACTORS, _UNEVEN, _ELSEWHERE)
        chosen = [1.0, 0.2, 0.1]
        for _ in range(_ROUNDS):
            for i, grid in enumerate(grids):
                tried = [[*chosen[:i], value, *chosen[i + 1 :]] for value in grid]
                chosen = max(tried, key=self._measure)
        return self._form(chosen)

    def _form(self, numbers: Sequence[float]) -> Floats:
        factor, uneven, elsewhere = numbers
        prior: Floats = (
            factor**2 * self.spread + uneven**2 * self.uneven + elsewhere**2 * self.elsewhere
        )
        return prior

    def _measure(self, numbers: Sequence[float]) -> float:
        """Compute the logarithm of the likelihood, up to a constant."""
        from scipy.linalg import solve_triangular  # noqa: PLC0415 - a server never needs it

        root = np.linalg.cholesky(self._form(numbers) + np.diag(self.noise))
        score = solve_triangular(root, self.missed, lower=True, check_finite=False)
        return -0.5 * float(score @ score) - float(np.sum(np.log(np.diag(root))))
