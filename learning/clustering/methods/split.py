"""Split-Lloyd: cells that are split and looked at under Gaussian noise, merged and polished.

A *look* puts each record to the nearest of public centres, and releases the count, the sum of
clipped residuals and the sum of capped squares of each cell. Levels of looks split the cells with
the largest sums of squares, from one cell to three for each cluster, or two where noise is strong;
weighted k-means joins these to k; two more looks move the centroids. A cell's own squares tell
where its residuals are clipped, so no scale is needed: rounds, weights and radii follow from
earlier answers and public numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.clustering.methods.contract import (
    Answer,
    Clusters,
    Curator,
    Floats,
    Integers,
    QuantisedRecords,
    Round,
    Task,
    divide_jointly,
    find_rho,
)
from sfumato.learning.clustering.methods.cover import take_fewer
from sfumato.learning.clustering.methods.starts import make_rng
from sfumato.learning.clustering.methods.sums import SumsNoise, find_nearest, make_gaussian
from sfumato.learning.clustering.weighted_points import assign_weighted, cluster_weighted
from sfumato.shared.core.quantise import STEPS
from sfumato.shared.errors import ConfigError
from sfumato.shared.privacy.cluster_sums import CellMoments

_DEPTHS: Final = ((0.125, 3, 2), (0.2, 3, 1), (math.inf, 2, 0))
"""Up to a noise of :func:`measure_noise`: cells for each cluster, before they are merged, and
levels after the one that could have split all cells. The stronger noise is, the less can be found,
and the more of rho each look needs."""
_FINDING: Final = Fraction(3, 5)
"""Share of rho for the looks that find the clusters; the rest moves their centroids."""
_POLISHING: Final = (Fraction(1, 3), Fraction(2, 3))
_SPLIT: Final = 2.0
_DROP: Final = 1.0
"""Deviations of its count that a cell must hold to be split, and to be kept."""
_NARROW, _WIDE, _CLEAR = 1.0, 1.5, 0.01
"""Root mean squares of a cell from its centre to where residuals are clipped, and the noise below
which they are clipped further out: there the bias of clipping is more than the noise."""
_UNIT: Final = 1 << 16
"""Squared, what the squares of count, length and square add up to; see ``_WEIGHTS``."""
_WEIGHTS: Final = {
    "add-remove-one": ((0.3, 0.5, 0.2), (0.1, 0.8, 0.1), (0.08, 0.92, 0.0)),
    # No residual may have more than half: two opposite ones in one cell are twice as far apart.
    "replace-one": ((0.35, 0.45, 0.2), (0.4, 0.475, 0.1), (0.5, 0.5, 0.0)),
}
"""Squared weights of count, residual and square: of a look that finds, and of those that polish."""
_BATCH: Final = 1 << 14


@dataclass(frozen=True, kw_only=True)
class SplitMethod:
    """Looks at cells that are split, merged to k and polished; it has no setting."""

    name: ClassVar[str] = "split"

    def describe(self) -> dict[str, Any]:
        """See ``Method``."""
        return {}

    def plan_rounds(self, task: Task) -> tuple[Round, ...]:
        """See ``Method``: rho doubles from level to level until there can be k cells."""
        k, (cells, more) = task.n_clusters, choose_depth(task)
        first = _choose_first(task)
        n_levels = (cells * k - 1).bit_length() + more
        powers = [2 ** min(level, k.bit_length() - 1) for level in range(n_levels)]
        shares = [_FINDING * first]
        shares += [_FINDING * (1 - first) * power / sum(powers) for power in powers]
        shares += [(1 - _FINDING) * part for part in _POLISHING]
        names = ["cells"] * (1 + n_levels) + ["clusters"] * len(_POLISHING)
        return divide_jointly(task, names, shares)

    def release(self, records: QuantisedRecords, task: Task, curator: Curator) -> None:
        """See ``Method``."""
        rng, d, k = make_rng(task, self.name), task.n_dimensions, task.n_clusters
        most = choose_depth(task)[0] * k
        finding, *polishing = _WEIGHTS[task.relation]
        n_levels = len(self.plan_rounds(task)) - 1 - len(polishing)
        width = _NARROW if measure_noise(task) > _CLEAR else _WIDE
        cells = _Cells(
            centres=np.zeros((1, d)),
            squares=np.array([d * STEPS**2 / 3.0]),
            counts=np.array([float(task.n_records)]),
        )
        # The first cell is the whole box, and may have any mean square.
        cells = _look(records, task, curator, cells, np.sqrt(3.0 * cells.squares), finding)
        for _ in range(n_levels):
            cells = _split(cells, _choose_split(cells, k, most), rng)
            cells = _look(records, task, curator, cells, width * np.sqrt(cells.squares), finding)
            cells = _drop(cells)
        cells = _merge(cells, k, rng)
        for weights in polishing:
            pooled = np.average(cells.squares, weights=np.maximum(cells.counts, 1e-9))
            radii = width * np.sqrt((cells.squares + pooled) / 2.0)
            cells = _look(records, task, curator, cells, radii, weights)

    def recover(
        self, task: Task, answers: Sequence[Answer], *, n_clusters: int, rng: np.random.Generator
    ) -> Clusters:
        """See ``Method``; fewer clusters than the task's join those that were found.

        More of them are made of the cells before they were merged.
        """
        finding, *polishing = _WEIGHTS[task.relation]
        rounds = self.plan_rounds(task)
        if n_clusters > task.n_clusters:
            last = len(rounds) - len(polishing) - 1
            seen = _read(answers[last], _make_noise(task, rounds[last], finding))
            return _take_more(seen, n_clusters, rng)
        seen = _read(answers[-1], _make_noise(task, rounds[-1], polishing[-1]))
        return take_fewer(task, Clusters.of(seen.centres, seen.counts), n_clusters, rng)


def measure_noise(task: Task) -> float:
    """Return ``sqrt(d) k / (mu n)``, a public number: no cluster is found far above 0.1.

    mu is that of Gaussian differential privacy for the whole method, less the factor of two records
    that change under replace-one.
    """
    mu_squared = 2.0 * float(find_rho(task))
    mu = math.sqrt(mu_squared / (2.0 if task.is_counted else 1.0))
    return math.sqrt(task.n_dimensions) * task.n_clusters / (mu * task.n_records)


def choose_depth(task: Task) -> tuple[int, int]:
    """Choose the cells for each cluster, and the levels after the one that could split them all."""
    noise = measure_noise(task)
    return next((cells, more) for most, cells, more in _DEPTHS if noise <= most)


def _choose_first(task: Task) -> Fraction:
    """Choose the share of the first look, whose radius is that of the box: 1/50 to 1/5.

    The noise of its mean is then a sixteenth of the radius, if that is possible.
    """
    noise = measure_noise(task) / task.n_clusters
    return Fraction(min(max(math.ceil(42_500.0 * noise**2), 1), 10), 50)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Cells:
    """Cells as they are known from answers.

    Parameters
    ----------
    centres
        Shape ``(C, d)``, steps.
    squares
        Shape ``(C,)``, mean squared distance of a record to the centre, steps squared.
    counts
        Shape ``(C,)``, noisy numbers of records, of any sign.
    deviation
        The standard deviation of the noise of a count.
    """

    centres: Floats
    squares: Floats
    counts: Floats
    deviation: float = 0.0

    @property
    def losses(self) -> Floats:
        """Sums of squares: shape ``(C,)``."""
        return np.maximum(self.counts, 0.0) * self.squares


def _choose_split(cells: _Cells, k: int, most: int) -> NDArray[np.intp]:
    """Choose the cells to split, those with the largest sums of squares first."""
    n_cells, losses = len(cells.counts), cells.losses
    allowed = cells.counts > _SPLIT * cells.deviation
    if 2 * n_cells >= k:
        allowed &= losses >= losses.sum() / (8.0 * k)
    order = np.argsort(-losses, kind="stable")
    return order[allowed[order]][: max(most - n_cells, 0)]


def _split(cells: _Cells, chosen: NDArray[np.intp], rng: np.random.Generator) -> _Cells:
    """Put two cells in the place of each chosen one, a deviation apart from it either way."""
    directions = rng.normal(size=(len(chosen), cells.centres.shape[1]))
    lengths = np.sqrt(np.sum(directions**2, axis=1) * directions.shape[1])
    moves = directions * (np.sqrt(cells.squares[chosen]) / lengths)[:, None]
    centres, counts = cells.centres.copy(), cells.counts.copy()
    centres[chosen] += moves
    counts[chosen] /= 2.0
    return _Cells(
        centres=np.clip(np.concatenate([centres, cells.centres[chosen] - moves]), -STEPS, STEPS),
        squares=np.concatenate([cells.squares, cells.squares[chosen]]),
        counts=np.concatenate([counts, counts[chosen]]),
        deviation=cells.deviation,
    )


def _drop(cells: _Cells) -> _Cells:
    """Leave out the cells that hold no more than noise, but never all."""
    kept = cells.counts >= _DROP * cells.deviation
    kept[np.argmax(cells.counts)] = True
    return _Cells(
        centres=cells.centres[kept],
        squares=cells.squares[kept],
        counts=cells.counts[kept],
        deviation=cells.deviation,
    )


def _merge(cells: _Cells, n_clusters: int, rng: np.random.Generator) -> _Cells:
    """Merge cells to k by weighted k-means; where there are fewer, split the largest."""
    while len(cells.counts) < n_clusters:
        order = np.argsort(-cells.losses, kind="stable")
        cells = _split(cells, order[: n_clusters - len(order)], rng)
    weights = np.maximum(cells.counts, 1e-6)
    centres = cluster_weighted(cells.centres, weights, n_clusters, rng)
    labels, _ = assign_weighted(cells.centres, weights, centres)
    away = np.sum((cells.centres - centres[labels]) ** 2, axis=1)
    counts = np.bincount(labels, weights, minlength=n_clusters).astype(np.float64)
    sums = np.bincount(labels, weights * (cells.squares + away), minlength=n_clusters)
    pooled = sums.sum() / counts.sum()
    return _Cells(
        centres=centres,
        squares=np.where(counts > 0.0, sums / np.maximum(counts, 1e-9), pooled),
        counts=counts,
        deviation=cells.deviation,
    )


# ---- one look ----


def _look(
    records: QuantisedRecords,
    task: Task,
    curator: Curator,
    cells: _Cells,
    radii: Floats,
    weights: Sequence[float],
) -> _Cells:
    """Ask for the moments of cells, and return the cells with the answers taken in."""
    noise = _make_noise(task, curator.next_round, weights, len(radii))
    centres = np.rint(cells.centres).astype(np.int64)
    most = math.isqrt(task.n_dimensions * STEPS**2)
    clipped = np.clip(np.rint(radii), 1, most).astype(np.int64)
    sums = sum_moments(records.steps, centres, clipped, _moments(noise))
    is_first = not curator.answers
    seen = _read(curator.ask(noise, sums, centres=centres, radii=clipped), noise)
    squares = cells.squares if seen.squares is None else seen.join(cells.squares, is_first=is_first)
    return _Cells(
        centres=seen.centres, squares=squares, counts=seen.counts, deviation=seen.deviation
    )


def _make_noise(
    task: Task, planned: Round, weights: Iterable[float], n_cells: int = 1
) -> SumsNoise:
    count, length, square = (math.floor(_UNIT * math.sqrt(weight)) for weight in weights)
    moments = CellMoments(count_unit=count, length=length, square=square)
    n_coordinates = n_cells * (task.n_dimensions + 2)
    squared = moments.measure_l2_squared(task.relation)
    return SumsNoise(
        sums=moments, mechanism=make_gaussian(planned, task.relation, squared, n_coordinates)
    )


def _moments(noise: SumsNoise) -> CellMoments:
    assert isinstance(noise.sums, CellMoments)
    return noise.sums


def sum_moments(
    steps: NDArray[np.int16], centres: Integers, radii: Integers, moments: CellMoments
) -> Integers:
    """Sum counts, clipped residuals and capped squares by nearest centre: int64, exact.

    A record u in the cell of centre c and radius R adds, with ``z = u - c`` and N the least integer
    that is at least ``|z|``, ``w``, ``z_i B / max(N, R)`` for each i, and ``min(|z|^2, R^2) Q /
    R^2``. Divisions truncate toward zero, so that no residual is longer than B.

    Parameters
    ----------
    steps
        Shape ``(n, d)``.
    centres, radii
        Shapes ``(C, d)`` and ``(C,)``, inside the box and at most its radius.

    Returns
    -------
    Shape ``(C, d + 2)``: counts, residuals, squares; ``(C, d + 1)`` where Q is 0.
    """
    n_cells, d = centres.shape
    labels = find_nearest(steps, centres)
    found = np.zeros((n_cells, d + 2), dtype=np.int64)
    for first in range(0, len(steps), _BATCH):
        own = labels[first : first + _BATCH]
        residuals = steps[first : first + _BATCH].astype(np.int64) - centres[own]
        added = np.empty((len(own), d + 2), dtype=np.int64)
        added[:, 0] = moments.count_unit
        added[:, 1:-1], added[:, -1] = clip_residuals(residuals, radii[own], moments)
        for i, column in enumerate(added.T):
            # Integers below 2^53 in all, so that the order of additions changes nothing.
            found[:, i] += np.bincount(own, column, minlength=n_cells).astype(np.int64)
    return found if moments.square else found[:, :-1]


def clip_residuals(
    residuals: Integers, radii: Integers, moments: CellMoments
) -> tuple[Integers, Integers]:
    """Return clipped residuals, shape ``(n, d)``, and capped squares, ``(n,)``."""
    squares = np.sum(residuals**2, axis=1)
    # The root of an integer below 2^50 is rounded to no integer that it is not.
    lengths = np.maximum(np.ceil(np.sqrt(squares)).astype(np.int64), radii)
    clipped = np.abs(residuals) * moments.length // lengths[:, None] * np.sign(residuals)
    return clipped, np.minimum(squares, radii**2) * moments.square // radii**2


@dataclass(frozen=True, kw_only=True, eq=False)
class _Seen:
    """An answer, read: as :class:`_Cells`, with the squares and their variances by noise."""

    centres: Floats
    counts: Floats
    deviation: float
    squares: Floats | None
    variances: Floats

    def join(self, before: Floats, *, is_first: bool) -> Floats:
        """Join squares with earlier ones, whose deviation is half of them, by precision."""
        assert self.squares is not None
        if is_first:
            # What noise hides must not pass for small: a ball too narrow never finds its records.
            least = np.maximum(1e-4 * before, np.sqrt(self.variances))
            return np.clip(self.squares, np.minimum(least, before), 3.0 * before)
        prior = (before / 2.0) ** 2
        joined = (self.squares * prior + before * self.variances) / (prior + self.variances)
        joined = np.clip(joined, 0.3 * before, 3.0 * before)
        return np.maximum(joined, 0.3 * np.median(joined))


def _take_more(seen: _Seen, n_clusters: int, rng: np.random.Generator) -> Clusters:
    kept = seen.counts > _DROP * seen.deviation
    if n_clusters > np.count_nonzero(kept):
        raise ConfigError(
            f"must be at most {np.count_nonzero(kept)}, the number of cells that were found",
            field="n_clusters",
            fix="ask for fewer clusters, or fit again for more, which spends again",
        )
    points, weights = seen.centres[kept], seen.counts[kept]
    centres = cluster_weighted(points, weights, n_clusters, rng)
    labels, _ = assign_weighted(points, weights, centres)
    masses = np.bincount(labels, weights, minlength=n_clusters).astype(np.float64)
    return Clusters.of(centres, masses)


def _read(answer: Answer, noise: SumsNoise) -> _Seen:
    """Move centres by noisy sums, less where noise is strong; a function of the answer alone."""
    moments, sigma = _moments(noise), noise.deviation
    centres = answer.asked["centres"].astype(np.float64)
    radii = answer.asked["radii"].astype(np.float64)
    d, deviation = centres.shape[1], noise.count_deviation
    counts = answer.values[:, 0] / moments.count_unit
    divisor = np.maximum(counts, 2.0 * deviation)
    steps = (radii / (moments.length * divisor))[:, None] * answer.values[:, 1 : d + 1]
    energies = d * (radii * sigma / (moments.length * divisor)) ** 2
    lengths = np.maximum(np.sum(steps**2, axis=1), 1e-300)
    kept = np.maximum(1.0 - energies / lengths, 0.0)
    kept = np.minimum(kept, radii / np.sqrt(lengths))
    squares, variances = None, np.zeros(len(counts))
    if moments.square:
        shares = answer.values[:, -1] / (moments.square * divisor)
        squares = radii**2 * shares - np.maximum(lengths - energies, 0.0)
        # Where much lies at the cap, what lies beyond it is not seen.
        squares *= 1.0 + 3.0 * np.maximum(shares - 0.7, 0.0)
        by_count = (np.clip(shares, 0.0, 1.0) * deviation) ** 2
        variances = (radii**2 / divisor) ** 2 * ((sigma / moments.square) ** 2 + by_count)
    return _Seen(
        centres=np.clip(centres + steps * kept[:, None], -STEPS, STEPS),
        counts=counts,
        deviation=deviation,
        squares=squares,
        variances=variances,
    )
