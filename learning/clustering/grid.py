"""k-means from the noisy counts of a joint grid.

After EUGkM of Su, Cao, Li, Bertino and Jin, "Differentially Private K-Means Clustering" (2016):
each record adds 1 to its cell, noise is added once to each sum, and the cells' places are clustered
by their counts. It differs at three points: the box is public, counts that noise explains are cut
off where the paper keeps negative weights, and k-means has many starts. All of it reads released
numbers only. Counts of sums of the same plan add up, and so does their noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.clustering.cells import CellGrid, CellNoise
from sfumato.learning.clustering.grid_verdict import GridEvidence, judge_grid, warn_of_grid
from sfumato.learning.clustering.thinning import KeptMass, keep_mass
from sfumato.learning.clustering.weighted_points import (
    RESTARTS,
    WeightedRun,
    assign_weighted,
    run_weighted,
)
from sfumato.learning.decoding.density import GaussianMixture
from sfumato.learning.decoding.problem import Vector, freeze
from sfumato.learning.decoding.solution import Solution
from sfumato.learning.decoding.solver import Monitor, check_count
from sfumato.shared.errors import DecodingError

__all__ = ["GridProblem", "GridSolver", "describe_clusters"]

# Runs whose cost is within a hundredth of the best agree with it.
_AGREEMENT = 1.01
# Squared widths of a cell that a uniform density within it has as variance.
_UNIFORM = 1.0 / 12.0


@dataclass(frozen=True, kw_only=True, eq=False)
class GridProblem:
    """Noisy counts of a grid with all public knowledge needed to recover centroids.

    Parameters
    ----------
    counts : int64 (M + 1,)
        Sums of cells' counts with their noise, the last dimension varying fastest; the last count
        is that of records with a missing value.
    cells : tuple of int
        Number of cells in each dimension; M is their product.
    lower, upper : float64 (d,)
        The plan's public box, data units; transformed values where a dimension has a transform.
    unit : float64 (d,)
        Public length per dimension in which distances are measured, data units; half widths of the
        box if nothing else is known.
    noise : CellNoise
        Noise of each count, all sums together.
    n_records : float
        n > 0, with those of missing values; where it is secret, its estimate from noised numbers.
    n_clusters : int
        k, from 1 to M.

    Raises
    ------
    DecodingError
        A field has the wrong shape or range.
    """

    counts: NDArray[np.int64]
    cells: tuple[int, ...]
    lower: Vector
    upper: Vector
    unit: Vector
    noise: CellNoise
    n_records: float
    n_clusters: int

    def __post_init__(self) -> None:
        """Freeze the arrays and refuse a problem that cannot be solved."""
        object.__setattr__(self, "counts", freeze("counts", self.counts, np.int64, 1))
        for name in ("lower", "upper", "unit"):
            object.__setattr__(self, name, freeze(name, getattr(self, name), np.float64, 1))
            if getattr(self, name).size != len(self.cells):
                raise DecodingError(
                    f"must have one entry per dimension, {len(self.cells)}",
                    field=name,
                    fix="give it in the order of the plan's dimensions",
                )
        _require(
            not np.any(self.lower >= self.upper), "lower", "must be below upper", "swap the bounds"
        )
        _require(bool(np.all(self.unit > 0.0)), "unit", "must be positive", "give a length")
        _require(
            len(self.cells) >= 1 and min(self.cells) >= 1,
            "cells",
            "must be at least 1 in each dimension",
            "take them from the plan",
        )
        n_cells = self.grid.n_cells
        _require(
            self.counts.size == n_cells + 1,
            "counts",
            f"must have {n_cells + 1} entries for these cells, not {self.counts.size}",
            "use the cells of the plan that made the counts",
        )
        _require(
            0.0 < self.n_records < np.inf, "n_records", "must be positive", "count the records"
        )
        _require(
            1 <= self.n_clusters <= n_cells,
            "n_clusters",
            f"must be from 1 to the number of cells, {n_cells}",
            "look for fewer clusters",
        )

    @property
    def grid(self) -> CellGrid:
        """Places of the cells in units in which distances are measured."""
        return CellGrid(
            sizes=self.cells, lower=self.lower / self.unit, upper=self.upper / self.unit
        )

    @property
    def n_located(self) -> float:
        """Estimated records without a missing value, at least 1."""
        return max(1.0, min(self.n_records, self.n_records - float(self.counts[-1])))


@dataclass(frozen=True, kw_only=True)
class GridSolver:
    """Weighted k-means on the cells that stand out of the noise.

    Parameters
    ----------
    n_replicates : int
        Starts of k-means.
    n_redraws : int
        Simulated studies behind the verdict: the kept counts are given fresh noise and solved
        again.

    Guarantees
    ----------
    The solution is a function of the problem and the state of `rng`; the order of records has no
    effect on the counts. It never contains NaN.
    """

    name: ClassVar[str] = "grid/1"
    n_replicates: int = RESTARTS
    n_redraws: int = 8

    def __post_init__(self) -> None:
        """Refuse settings out of range."""
        check_count("n_replicates", self.n_replicates, 1000)
        check_count("n_redraws", self.n_redraws, 1000)

    def solve(
        self,
        problem: GridProblem,
        *,
        rng: np.random.Generator,
        progress: Callable[[float], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> Solution:
        """Recover centroids; see `Solver.solve`.

        Weights are shares of the records that stand out, and `spreads` are corrected for the width
        of cells. `residual` is the mean squared difference of counts and kept counts, over n^2;
        `noise_floor` is the part that noise leaves.
        """
        monitor = Monitor(1 + self.n_redraws, progress, cancelled)
        for_runs, *for_redraws = rng.spawn(1 + self.n_redraws)
        grid, counts = problem.grid, problem.counts[:-1].astype(np.float64)
        kept = keep_mass(grid, counts, problem.noise, problem.n_located)
        runs = run_weighted(
            kept.points, kept.weights, problem.n_clusters, for_runs, n_restarts=self.n_replicates
        )
        best = min(runs, key=lambda run: run.cost)
        monitor.advance()
        excesses = []
        for source in for_redraws:
            excesses.append(self._redraw(problem, grid, kept, best, source))
            monitor.advance()
        return _assemble(problem, grid, kept, runs, np.array(excesses))

    def _redraw(
        self,
        problem: GridProblem,
        grid: CellGrid,
        kept: KeptMass,
        best: WeightedRun,
        rng: np.random.Generator,
    ) -> float:
        """Return by how much the SSE rises if the kept counts are released and solved again."""
        noisy = np.rint(kept.density + problem.noise.draw(rng, grid.n_cells))
        again = keep_mass(grid, noisy, problem.noise, problem.n_located)
        runs = run_weighted(
            again.points, again.weights, problem.n_clusters, rng, n_restarts=self.n_replicates
        )
        moved = min(runs, key=lambda run: run.cost).centroids
        full = kept.density > 0.0
        places, masses = grid.centres[full], kept.density[full]
        inside = _UNIFORM * float(np.sum(grid.widths**2)) * float(masses.sum())
        costs = [assign_weighted(places, masses, c)[1] + inside for c in (moved, best.centroids)]
        return costs[0] / costs[1] - 1.0


def _assemble(
    problem: GridProblem,
    grid: CellGrid,
    kept: KeptMass,
    runs: tuple[WeightedRun, ...],
    excesses: Vector,
) -> Solution:
    """Convert the best run to data units, and judge it."""
    best = min(runs, key=lambda run: run.cost)
    shares, variances = describe_clusters(grid, kept, best)
    order = np.argsort(-shares, kind="stable")
    shares, variances, centroids = shares[order], variances[order], best.centroids[order]
    agreement = float(np.mean([run.cost <= _AGREEMENT * best.cost for run in runs]))
    n, counts = problem.n_located, problem.counts[:-1]
    explained = float(np.mean(kept.density > 0.0))
    residual = float(np.mean((counts - kept.density) ** 2)) / n**2
    floor = problem.noise.variance * (1.0 - explained) / n**2
    evidence = GridEvidence(
        kept_share=kept.share,
        redraw_excess=float(np.mean(excesses)),
        worst_redraw_excess=float(np.max(excesses)),
        cell_over_spread=_compare_widths(grid, shares, variances),
        agreement=agreement,
        n_points=len(kept.points),
        n_empty=int(np.sum(shares == 0.0)),
        missing_share=min(1.0, max(0.0, 1.0 - n / problem.n_records)),
        n_clusters=problem.n_clusters,
    )
    centroids = np.clip(centroids * problem.unit, problem.lower, problem.upper)
    return Solution(
        centroids=centroids,
        weights=shares,
        residual=residual,
        noise_floor=floor,
        # The mean of M squares of noise has a relative deviation of some sqrt(6 / M).
        at_noise_floor=bool(residual <= floor * (1.0 + 3.0 * np.sqrt(6.0 / grid.n_cells))),
        n_replicates=len(runs),
        replicate_residuals=tuple(run.cost / float(kept.weights.sum()) for run in runs),
        agreement=agreement,
        solver=GridSolver.name,
        warnings=warn_of_grid(evidence),
        succeeded=kept.share > 0.0,
        spreads=np.sqrt(variances) * problem.unit,
        mixture=GaussianMixture(
            weights=shares, means=centroids, variances=variances * problem.unit**2
        ),
        verdict=judge_grid(evidence),
    )


def describe_clusters(grid: CellGrid, kept: KeptMass, run: WeightedRun) -> tuple[Vector, Vector]:
    """Return the shares of clusters, and their variances by Sheppard's correction."""
    labels, _ = assign_weighted(kept.points, kept.weights, run.centroids)
    k = len(run.centroids)
    masses = np.bincount(labels, kept.weights, minlength=k)
    offsets = (kept.points - run.centroids[labels]) ** 2
    squares = np.stack(
        [np.bincount(labels, kept.weights * column, minlength=k) for column in offsets.T], axis=1
    )
    inside = _UNIFORM * grid.widths**2
    variances = squares / np.maximum(masses, np.finfo(np.float64).tiny)[:, None] - inside
    return masses / masses.sum(), np.maximum(variances, inside)


def _compare_widths(grid: CellGrid, shares: Vector, variances: Vector) -> float:
    """Return the root mean square of cells' widths over that of the clusters' spreads."""
    spread = float(shares @ variances.sum(axis=1))
    return float(np.sqrt(np.sum(grid.widths**2) / spread))


def _require(holds: bool, field: str, rule: str, fix: str) -> None:
    if not holds:
        raise DecodingError(rule, field=field, fix=fix)
