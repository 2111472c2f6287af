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
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.answers.densities import compute_distribution, pool
from sfumato.learning.calibration.steps import count_multiples
from sfumato.learning.decoding.density import Posterior
from sfumato.learning.estimate.histogram import Marginal
from sfumato.shared.core.logarithm import compress

__all__ = ["Cells", "Distribution", "Part", "combine", "list_cells"]

Floats = NDArray[np.float64]
_MOST_CELLS: Final = 512
_BLUR: Final = 2.0
"""What the sketch blurs: the standard deviation of an average, in the plan's scales."""
_FACTORS: Final = (1.0, 2.0, 4.0, 10.0)
_UNEVEN: Final = (0.0, 0.03, 0.1, 0.2, 0.4, 0.7, 1.2, 2.0, 4.0)
_ELSEWHERE: Final = (0.0, 0.1, 1.0)
_ROUNDS: Final = 2
_LEAST: Final = 1e-12
_LENGTHEN: Final = 1.1
"""Standard errors are taken to be longer by this: the three numbers are themselves uncertain."""
_HIDDEN: Final = 0.5
"""The share of the records that a tail may hide, in the largest standard error of a share."""
_ROUND: Final = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    """The values below a place: all of the first cells, and a part of the next.

    ``is_cut`` where the histogram does not tell how many records of that cell lie below.
    """

    cell: int
    share: float
    is_cut: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class Cells:
    """Stretches of values that a histogram tells apart, ascending, in data units.

    Parameters
    ----------
    first, last
        The first and the last value of each, or its edges where values have no step: ``(J,)``.
    step
        Distance of neighbouring values; 0 without one.
    counts, noise
        Records of each, and the variance of the noise of that: shape ``(J,)``.
    """

    first: Floats
    last: Floats
    step: float
    counts: Floats
    noise: Floats

    @property
    def n_cells(self) -> int:
        """J."""
        return len(self.first)

    @property
    def middles(self) -> Floats:
        """The middle of each cell: shape ``(J,)``."""
        return (self.first + self.last) / 2.0

    @property
    def borders(self) -> Floats:
        """Places between neighbouring cells: shape ``(J - 1,)``."""
        return (self.last[:-1] + self.first[1:]) / 2.0

    def find_part(self, place: float, *, includes: bool) -> Part:
        """Find the values below a place, or with ``includes`` those at it too."""
        if math.isinf(place):
            all_of_it = place > 0.0
            return Part(
                cell=self.n_cells - 1 if all_of_it else 0, share=float(all_of_it), is_cut=False
            )
        if self.step > 0.0:
            number = place / self.step
            whole = math.floor(number + _ROUND) if includes else math.ceil(number - _ROUND) - 1
            place = whole * self.step
        cell = int(np.searchsorted(self.first, place + _ROUND * abs(place), side="right")) - 1
        if cell < 0:
            return Part(cell=0, share=0.0, is_cut=False)
        first, last = float(self.first[cell]), float(self.last[cell])
        if self.step > 0.0:
            most = round((last - first) / self.step) + 1
            share = (round((min(place, last) - first) / self.step) + 1) / most
        else:
            share = min(1.0, (place - first) / (last - first))
        return Part(cell=cell, share=share, is_cut=_ROUND < share < 1.0 - _ROUND)


def list_cells(found: Marginal, step: float) -> Cells:
    """Return the cells of a histogram, for values that are multiples of a step; 0 for any values.

    Records beyond the bounds are in the first and the last.
    """
    edges = found.data_edges
    counts, noise = found.bins.copy(), np.full(found.bins.size, found.noise.variance)
    first, last = edges[:-1], edges[1:]
    if step > 0.0:
        starts, n_values = count_multiples(edges, step)
        kept = np.flatnonzero(n_values)
        if len(kept) < 2:
            return list_cells(found, 0.0)
        first, last = starts[kept], starts[kept] + (n_values[kept] - 1) * step
        counts, noise = counts[kept], noise[kept]
    merged = -(-len(counts) // _MOST_CELLS)
    starts_at = np.arange(0, len(counts), merged)
    counts, noise = np.add.reduceat(counts, starts_at), np.add.reduceat(noise, starts_at)
    counts[[0, -1]] += found.below, found.above
    noise[[0, -1]] += found.noise.variance
    ends_at = np.minimum(starts_at + merged, len(last)) - 1
    return Cells(first=first[starts_at], last=last[ends_at], step=step, counts=counts, noise=noise)


@dataclass(frozen=True, kw_only=True, eq=False)
class Distribution:
    """The shares of cells, and the covariance of their errors.

    Parameters
    ----------
    cells
        J cells.
    shares, covariance
        Shapes ``(J,)``, summing to 1, and ``(J, J)``; noise may make shares negative.
    n_draws
        Draws of the densities.
    seed
        Seed of :attr:`draws`.
    """

    cells: Cells
    shares: Floats
    covariance: Floats
    n_draws: int
    seed: int = 0

    @cached_property
    def reached(self) -> Floats:
        """The share of the records in all cells before each, and of all: shape ``(J + 1,)``."""
        return _accumulate(self.shares)

    @cached_property
    def errors(self) -> Floats:
        """Standard errors of :attr:`reached`: shape ``(J + 1,)``."""
        return np.concatenate([[0.0], np.sqrt(np.maximum(self._covered.diagonal(), 0.0))])

    @cached_property
    def _covered(self) -> Floats:
        covered: Floats = np.cumsum(np.cumsum(self.covariance, axis=0), axis=1)
        return covered

    @cached_property
    def draws(self) -> Floats:
        """Distribution functions that may be true, one for each draw: shape ``(n, J + 1)``."""
        values, vectors = np.linalg.eigh(self.covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        chance = np.random.default_rng(self.seed).normal(size=(self.n_draws, len(values)))
        return _accumulate(self.shares + chance @ root.T)

    def find_share(self, low: Part, high: Part) -> tuple[float, float]:
        """Find the share of the records between two places, and its standard error."""
        weights = self._weigh(high) - self._weigh(low)
        share, square = float(weights @ self.shares), float(weights @ self.covariance @ weights)
        for part in (low, high):
            square += self.measure_cut(part) ** 2
        return min(max(share, 0.0), 1.0), math.sqrt(max(square, 0.0))

    def measure_cut(self, part: Part) -> float:
        """Return the standard error of a place in a cell, of which the histogram knows no more."""
        return max(0.0, float(self.shares[part.cell])) / math.sqrt(3.0) if part.is_cut else 0.0

    def find_heights(self, part: Part) -> Floats:
        """Return the share below a place under each draw: shape ``(n,)``."""
        start, stop = self.draws[:, part.cell], self.draws[:, part.cell + 1]
        found: Floats = start + part.share * (stop - start)
        return found

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
        first, last = self.cells.first, self.cells.last
        rising = np.maximum.accumulate(self.reached)
        inside = (share - rising[cell]) / max(rising[cell + 1] - rising[cell], _LEAST)
        value = float(first[cell] + min(max(inside, 0.0), 1.0) * (last[cell] - first[cell]))
        if self.cells.step > 0.0:
            n_steps = math.floor((value - first[cell]) / self.cells.step + _ROUND)
            value = float(first[cell]) + n_steps * self.cells.step
        # Where records lie in a cell, nobody knows.
        return value, float(first[min(cell, start)]), float(last[max(cell, stop)])

    def find_mean(self) -> tuple[float, float, float]:
        """Find the mean of the column, its standard error, and the variance of the records."""
        values = self.cells.middles
        mean, square = float(values @ self.shares), float(values @ self.covariance @ values)
        variance = float((values - mean) ** 2 @ self.shares)
        return mean, math.sqrt(max(square, 0.0)), max(variance, 0.0)

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
        if self.cells.step > 0.0:
            middles: Floats = self.cells.middles[cells]
            return middles
        start, stop = rising[cells], rising[cells + 1]
        inside = np.clip((heights - start) / np.maximum(stop - start, _LEAST), 0.0, 1.0)
        first, last = self.cells.first[cells], self.cells.last[cells]
        found: Floats = first + inside * (last - first)
        return found

    def _find_cell(self, rising: Floats, share: float) -> int:
        return min(int(np.searchsorted(rising, share - _ROUND)), self.cells.n_cells - 1)

    def _weigh(self, part: Part) -> Floats:
        weights = np.zeros(self.cells.n_cells)
        weights[: part.cell] = 1.0
        weights[part.cell] = part.share
        return weights


def _accumulate(shares: Floats) -> Floats:
    """Add up shares along the last axis, from 0, never falling, up to 1."""
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
        Of the histogram, and the number of records that it counts.
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
    model = _Model(
        missed=cells.counts / n_records - mean,
        noise=cells.noise / n_records**2,
        spread=spread,
        uneven=(sharp * heights**2) @ sharp.T,
        elsewhere=sharp @ sharp.T / cells.n_cells**2,
    )
    prior = model.choose()
    gain = np.linalg.solve(prior + np.diag(model.noise), prior).T
    covariance = prior - gain @ prior
    return Distribution(
        cells=cells,
        shares=mean + gain @ model.missed,
        covariance=_LENGTHEN**2 * (covariance + covariance.T) / 2.0,
        n_draws=posterior.n_draws,
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
    """What the histogram tells of errors of the densities; shapes ``(J,)`` and ``(J, J)``."""

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
        root = np.linalg.cholesky(self._form(numbers) + np.diag(self.noise))
        score = np.linalg.solve(root, self.missed)
        return -0.5 * float(score @ score) - float(np.sum(np.log(np.diag(root))))
