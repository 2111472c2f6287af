"""From noisy counts to centroids: projection on the simplex, and weighted k-means.

Both read released numbers only, so they cost no privacy.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from shared.errors import PlanError

Floats = NDArray[np.float64]

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


def cluster_weighted(
    points: Floats,
    weights: Floats,
    n_clusters: int,
    rng: np.random.Generator,
    *,
    n_restarts: int = RESTARTS,
) -> Floats:
    """Run Lloyd's k-means on weighted points from k-means++ starts; keep the lowest cost.

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
    NDArray[np.float64]
        Shape ``(k, d)``.

    Raises
    ------
    PlanError
        k is below 1.
    """
    if n_clusters < 1:
        raise PlanError("must be at least 1", field="n_clusters", fix="ask for 1 or more")
    present = weights > 0
    points, weights = points[present], weights[present]
    runs = [
        _descend(points, weights, _start_plus_plus(points, weights, n_clusters, rng))
        for _ in range(n_restarts)
    ]
    return min(runs, key=lambda run: run[1])[0]


def _start_plus_plus(
    points: Floats, weights: Floats, n_clusters: int, rng: np.random.Generator
) -> Floats:
    """Choose points with probability proportional to weight times squared distance."""
    chosen = points[rng.choice(len(points), size=n_clusters, p=weights / weights.sum())]
    squares = np.sum((points - chosen[0]) ** 2, axis=1)
    for i in range(1, n_clusters):
        shares = weights * squares
        if shares.sum() <= 0.0:  # fewer distinct points than clusters
            break
        chosen[i] = points[rng.choice(len(points), p=shares / shares.sum())]
        squares = np.minimum(squares, np.sum((points - chosen[i]) ** 2, axis=1))
    return chosen


def _descend(points: Floats, weights: Floats, start: Floats) -> tuple[Floats, float]:
    """Run Lloyd's iteration to a constant cost; an empty cluster keeps its centroid."""
    centroids, before = start.copy(), np.inf
    # Relative to the mean, where squares cancel least.
    shift = points.mean(axis=0)
    moved = points - shift
    norms = np.sum(moved**2, axis=1)
    for _ in range(_MOST_ITERATIONS):
        around = centroids - shift
        scores = np.sum(around**2, axis=1) - 2.0 * (moved @ around.T)
        labels = np.argmin(scores, axis=1)
        nearest = np.take_along_axis(scores, labels[:, None], axis=1)[:, 0]
        cost = float(np.sum(weights * np.maximum(norms + nearest, 0.0)))
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
    return centroids, cost
