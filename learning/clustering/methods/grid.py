"""Grid, weighted k-means and rounds of sums: EUGkM, its hybrid with DPLloyd, and ours.

Su, Cao, Li, Bertino and Jin, "Differentially Private K-Means Clustering" (2016): a noisy histogram
of a uniform grid, and k-means on cell centres weighted by its counts (EUGkM); then, in the hybrid,
a round of DPLloyd. As published, negative counts are weights, and k-means starts from one sphere
packing. Ours cuts off what noise explains, starts k-means often, and sums residuals that are
clipped to four spreads inside a cluster, under cube noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, ClassVar, Final, Literal, Self

import numpy as np

from sfumato.learning.clustering.cells import (
    LEAST_SIZE,
    MOST_SIZE,
    CellGrid,
    CellNoise,
    compute_cells,
    divide_box,
)
from sfumato.learning.clustering.grid import describe_clusters
from sfumato.learning.clustering.methods.contract import (
    Answer,
    Clusters,
    Curator,
    Floats,
    QuantisedRecords,
    Round,
    Task,
    divide_pure,
    guess_scale,
)
from sfumato.learning.clustering.methods.starts import make_rng, pack_spheres
from sfumato.learning.clustering.methods.sums import (
    NoisyClusters,
    ask_sums,
    choose_radius,
    choose_rounds,
    make_noise,
    read_sums,
)
from sfumato.learning.clustering.thinning import FALSE_CELLS, keep_cells, keep_mass
from sfumato.learning.clustering.weighted_points import assign_weighted, run_weighted
from sfumato.shared.core.quantise import STEPS
from sfumato.shared.core.statistics.grid import MOST_GRID_DIMENSIONS, locate_cells
from sfumato.shared.core.statistics.interface import count_records_moved
from sfumato.shared.errors import ConfigError
from sfumato.shared.privacy.histogram import NoisyHistogram

MOST_DIMENSIONS: Final = 12
"""With two cells in each of more dimensions, nearly all cells would be empty."""
_PUBLISHED_BASE: Final = 10.0
_PUBLISHED_ITERATIONS: Final = 30
_MOST_CELLS: Final = float(1 << 16)
"""More take a second to draw, and are no better: half a megabyte is released."""
_ABOVE_NOISE: Final = 2.0
_MOST_LOG: Final = 100.0


@dataclass(frozen=True, kw_only=True)
class GridMethod:
    """A noisy histogram of a grid, weighted k-means, and then rounds of noisy sums.

    Parameters
    ----------
    n_rounds
        Rounds of sums after the grid: 0 for the grid alone, -1 for a number by ``n epsilon / k``.
    grid_share
        Share of epsilon for the grid, where rounds follow.
    is_published
        Whether grid, weights, start and division are those of the paper.
    noise
        Law of the rounds' noise, ``cube`` or ``laplace``.
    """

    name: ClassVar[str] = "grid"

    n_rounds: int = -1
    grid_share: Fraction = Fraction(1, 2)
    is_published: bool = False
    noise: Literal["cube", "laplace"] = "cube"

    def __post_init__(self) -> None:
        if self.noise not in ("cube", "laplace"):
            raise ConfigError("must be cube or laplace", field="noise", fix="leave it out")
        if not -1 <= self.n_rounds <= 10:
            raise ConfigError(
                "must be from 0 to 10", field="n_rounds", fix="leave it out for a choice"
            )
        if not 0 < self.grid_share < 1:
            raise ConfigError("must be between 0 and 1", field="grid_share", fix="use 1/2")

    @classmethod
    def published(cls, *, n_rounds: int = 0) -> Self:
        """Return EUGkM as published, or its hybrid with a round of DPLloyd."""
        return cls(n_rounds=n_rounds, is_published=True, noise="laplace")

    def describe(self) -> dict[str, Any]:
        """See ``Method``."""
        return asdict(self)

    def plan_rounds(self, task: Task) -> tuple[Round, ...]:
        """See ``Method``."""
        if task.n_dimensions > MOST_DIMENSIONS:
            raise ConfigError(
                f"must be at most {MOST_DIMENSIONS} for a grid, not {task.n_dimensions}",
                field="n_dimensions",
                fix="use fewer columns, or the method tree or compressive",
            )
        rounds = self._divide(task)
        _, sizes = self._design(task)
        if task.n_clusters > math.prod(sizes):
            raise ConfigError(
                f"must be at most {math.prod(sizes)}, the cells that this noise leaves room for",
                field="n_clusters",
                fix="ask for fewer clusters, or use more records or a larger epsilon",
            )
        for planned in rounds[1:]:
            make_noise(self.noise, planned, task, STEPS)
        return rounds

    def release(self, records: QuantisedRecords, task: Task, curator: Curator) -> None:
        """See ``Method``."""
        histogram, sizes = self._design(task)
        places = locate_cells(records.steps, sizes)
        counts = np.bincount(places, minlength=histogram.n_cells).astype(np.int64)
        counts[-1] += records.n_missing
        answer = curator.ask(histogram, counts, cells=np.array(sizes))
        if not self.n_rounds:
            return
        found = self._cluster(task, answer, task.n_clusters, make_rng(task, self.name))
        centroids = found.centroids
        radius = STEPS
        if not self.is_published:
            radius = choose_radius(task.scale or found.scale, curator.next_round)
        for planned in self._divide(task)[1:]:
            answer = ask_sums(records, task, curator, centroids, self.noise, radius)
            centroids = self._read(task, planned, answer).centroids

    def recover(
        self, task: Task, answers: Sequence[Answer], *, n_clusters: int, rng: np.random.Generator
    ) -> Clusters:
        """See ``Method``; another k than the task's is clustered from the grid alone."""
        if n_clusters == task.n_clusters and len(answers) > 1:
            moved = self._read(task, self._divide(task)[len(answers) - 1], answers[-1])
            return Clusters.of(moved.centroids, moved.masses)
        if not 1 <= n_clusters <= answers[0].values.size - 1:
            raise ConfigError(
                f"must be from 1 to the number of cells, {answers[0].values.size - 1}",
                field="n_clusters",
                fix="ask for fewer clusters",
            )
        found = self._cluster(task, answers[0], n_clusters, rng)
        return Clusters.of(found.centroids, found.masses)

    def _divide(self, task: Task) -> tuple[Round, ...]:
        if not self.n_rounds:
            return (Round(name="counts", epsilon=task.epsilon),)
        n_rounds = choose_rounds(task) if self.n_rounds < 0 else self.n_rounds
        rest = (1 - self.grid_share) / n_rounds
        names = ["counts", *["sums"] * n_rounds]
        return divide_pure(task, names, [self.grid_share, *[rest] * n_rounds])

    def _read(self, task: Task, planned: Round, answer: Answer) -> NoisyClusters:
        return read_sums(task, planned, answer, self.noise, is_shrunk=not self.is_published)

    def _design(self, task: Task) -> tuple[NoisyHistogram, tuple[int, ...]]:
        """Choose the cells, and calibrate the noise of their counts."""
        planned = self._divide(task)[0]
        n_moved = count_records_moved(task.relation)
        base = task.n_records * float(planned.epsilon) / n_moved
        d = task.n_dimensions
        if self.is_published:
            wanted = compute_cells(base / _PUBLISHED_BASE, d)
            sizes = divide_box(wanted, [MOST_SIZE] * d, least=1)
        else:
            least = LEAST_SIZE if d <= MOST_GRID_DIMENSIONS else 2
            wanted = limit_cells(min(compute_cells(base, d), _MOST_CELLS), base, task)
            sizes = divide_box(wanted, [MOST_SIZE] * d, least=least)
        histogram = NoisyHistogram.calibrate(
            n_cells=math.prod(sizes) + 1, epsilon=planned.epsilon, neighbouring=task.relation
        )
        return histogram, sizes

    def _cluster(
        self, task: Task, answer: Answer, n_clusters: int, rng: np.random.Generator
    ) -> _Found:
        """Cluster the cells of a noisy histogram by their counts."""
        sizes = tuple(answer.asked["cells"].tolist())
        d, edge = len(sizes), STEPS + 0.5
        grid = CellGrid(sizes=sizes, lower=np.full(d, -edge), upper=np.full(d, edge))
        counts = answer.values[:-1].astype(np.float64)
        if self.is_published:
            start = pack_spheres(n_clusters, d, rng)
            return _descend_signed(grid.centres, counts, start)
        n_located = float(answer.values[:-1].sum())
        if task.is_counted:
            n_located = float(task.n_records - answer.values[-1])
        histogram, _ = self._design(task)
        n_located = min(max(n_located, 1.0), float(task.n_records))
        if d <= MOST_GRID_DIMENSIONS:
            noise = CellNoise.of(histogram.mechanism, n_sums=1)
            kept = keep_mass(grid, counts, noise, n_located)
        else:
            kept = keep_cells(grid, counts, histogram.threshold, n_located)
        runs = run_weighted(kept.points, kept.weights, n_clusters, rng)
        best = min(runs, key=lambda run: run.cost)
        shares, variances = describe_clusters(grid, kept, best)
        spread = math.sqrt(float(shares @ variances.mean(axis=1)))
        return _Found(
            centroids=best.centroids, masses=shares * kept.weights.sum(), scale=spread / STEPS
        )


def limit_cells(wanted: float, base: float, task: Task) -> float:
    """Limit the cells where clusters are so wide that each cell would hold little but noise.

    A record of a round cluster of spread s, in half widths of the box, shares its cell with
    ``n / (k M) / (sqrt(pi) s)^d`` others on average. The limit is the M where that is twice the
    count that noise alone reaches in a hundredth of a cell of the grid, ``n / base ln(100 M)``.
    """
    d, k = task.n_dimensions, task.n_clusters
    scale = task.scale or guess_scale(k, d)
    log_density = -d * math.log(math.sqrt(math.pi) * scale)
    needed = _ABOVE_NOISE * k * math.log(wanted / FALSE_CELLS) / base
    return min(wanted, math.exp(min(log_density - math.log(needed), _MOST_LOG)))


@dataclass(frozen=True, kw_only=True, eq=False)
class _Found:
    """Centroids ``(k, d)`` in steps, masses ``(k,)``, and the scale inside a cluster if known."""

    centroids: Floats
    masses: Floats
    scale: float | None = None


def _descend_signed(points: Floats, weights: Floats, start: Floats) -> _Found:
    """Run Lloyd's algorithm on weights of any sign; a cluster without weight keeps its centroid."""
    centroids, k = start, len(start)
    masses: Floats = np.zeros(k)
    for _ in range(_PUBLISHED_ITERATIONS):
        labels, _ = assign_weighted(points, np.abs(weights), centroids)
        masses = np.bincount(labels, weights, minlength=k).astype(np.float64)
        sums = np.stack(
            [np.bincount(labels, weights * column, minlength=k) for column in points.T], axis=1
        )
        full = masses >= 1.0
        moved = np.where(full[:, None], sums / np.where(full, masses, 1.0)[:, None], centroids)
        moved = np.clip(moved, -STEPS, STEPS)
        if np.array_equal(moved, centroids):
            break
        centroids = moved
    return _Found(centroids=centroids, masses=masses)
