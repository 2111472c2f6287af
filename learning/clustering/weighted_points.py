"""From noisy counts to centroids: projection on the simplex, and weighted k-means.

Both read released numbers only, so they cost no privacy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sfumato.shared.errors import PlanError

Floats = NDArray[np.float64]
Labels = NDArray[np.intp]

RESTARTS: Final = 15
_MOST_ITERATIONS: Final = 100
_TOLERANCE: Final = 1e-6


def project_on_simplex(counts: Floats, total: float) -> Floats:
    """Find the nearest point of ``{w >= 0, sum w = total}``: shape of ``counts``.

    ``w_i = max(counts_i - tau, 0)`` for the one tau that gives the sum (Duchi, Shalev-Shwartz,
    Singer and Chandra 2008, figure 1).

    Parameters
    ----------
    counts
        Shape ``(M,)``, of any sign.
    total
        Greater than zero.
    """
    falling = np.sort(counts)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, counts.size + 1)
    last = np.flatnonzero(falling > excess)[-1]
    projected: Floats = np.maximum(counts - excess[last], 0.0)
    return projected


@dataclass(frozen=True, kw_only=True, eq=False)
class WeightedRun:
    """One run of Lloyd's k-means.

    Parameters
    ----------
    centroids
        Shape ``(k, d)``.
    cost
        Sum over points of weight times squared distance to the nearest centroid.
    """

    centroids: Floats
    cost: float


def cluster_weighted(
    points: Floats,
    weights: Floats,
    n_clusters: int,
    rng: np.random.Generator,
    *,
    n_restarts: int = RESTARTS,
) -> Floats:
    """Return the centroids of lowest cost: shape ``(k, d)``; see :func:`run_weighted`."""
    runs = run_weighted(points, weights, n_clusters, rng, n_restarts=n_restarts)
    return min(runs, key=lambda run: run.cost).centroids


def run_weighted(
    points: Floats,
    weights: Floats,
    n_clusters: int,
    rng: np.random.Generator,
    *,
    n_restarts: int = RESTARTS,
) -> tuple[WeightedRun, ...]:
    """Run Lloyd's k-means on weighted points from k-means++ starts.

    Parameters
    ----------
    points
        Shape ``(M, d)``, in units in which distances are meaningful.
    weights
        Shape ``(M,)``, at least one above zero; points of weight zero are left out.
    n_clusters
        k. Centroids are repeated if there are fewer distinct points.
    rng
        Source of the starts.
    n_restarts
        Number of starts.

    Returns
    -------
    tuple of WeightedRun
        One for each start, in the order run.

    Raises
    ------
    PlanError
        k is below 1.
    """
    if n_clusters < 1:
        raise PlanError("must be at least 1", field="n_clusters", fix="ask for 1 or more")
    present = weights > 0
    points, weights = points[present], weights[present]
    return tuple(
        _descend(points, weights, _start_plus_plus(points, weights, n_clusters, rng))
        for _ in range(n_restarts)
    )


def assign_weighted(points: Floats, weights: Floats, centroids: Floats) -> tuple[Labels, float]:
    """Find the nearest centroid of each point, shape ``(M,)``, and the cost of all."""
    shift = points.mean(axis=0)
    moved = points - shift
    return _assign(moved, np.sum(moved**2, axis=1), weights, centroids - shift)


def _start_plus_plus(
    points: Floats, weights: Floats, n_clusters: int, rng: np.random.Generator
) -> Floats:
    """Choose points with probability proportional to weight times squared distance.

    Each is the best of several tries, the one that leaves the lowest cost, as in scikit-learn.
    """
    chosen = points[rng.choice(len(points), size=n_clusters, p=weights / weights.sum())]
    squares = np.sum((points - chosen[0]) ** 2, axis=1)
    n_tries = 2 + int(np.log(n_clusters))
    for i in range(1, n_clusters):
        total = np.cumsum(weights * squares)
        if total[-1] <= 0.0:  # fewer distinct points than clusters
            break
        tries = np.searchsorted(total, rng.uniform(0.0, total[-1], size=n_tries))
        options = [
            np.minimum(squares, np.sum((points - points[at]) ** 2, axis=1))
            for at in np.minimum(tries, len(points) - 1)
        ]
        best = int(np.argmin([weights @ option for option in options]))
        chosen[i], squares = points[min(tries[best], len(points) - 1)], options[best]
    return chosen


def _descend(points: Floats, weights: Floats, start: Floats) -> WeightedRun:
    """Run Lloyd's iteration to a constant cost; an empty cluster keeps its centroid."""
    centroids, before = start.copy(), np.inf
    # Relative to the mean, where squares cancel least.
    shift = points.mean(axis=0)
    moved = points - shift
    norms = np.sum(moved**2, axis=1)
    for _ in range(_MOST_ITERATIONS):
        labels, cost = _assign(moved, norms, weights, centroids - shift)
        if before - cost <= _TOLERANCE * cost:
            break
        before = cost
        members = np.bincount(labels, weights, minlength=len(centroids))
        sums = np.stack(
            [np.bincount(labels, weights * column, minlength=len(centroids)) for column in moved.T],
            axis=1,
        )
        full = members > 0
        centroids[full] = shift + sums[full] / members[full, None]
    return WeightedRun(centroids=centroids, cost=cost)


def _assign(moved: Floats, norms: Floats, weights: Floats, around: Floats) -> tuple[Labels, float]:
    scores = np.sum(around**2, axis=1) - 2.0 * (moved @ around.T)
    labels = np.argmin(scores, axis=1)
    nearest = np.take_along_axis(scores, labels[:, None], axis=1)[:, 0]
    return labels, float(np.sum(weights * np.maximum(norms + nearest, 0.0)))
