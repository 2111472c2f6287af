"""Lloyd's k-means on samples: k-means++ starts on a subset, then all samples.

Written here rather than taken from scikit-learn, whose threads add in no fixed order, so that the
same decode could give other bits. It also keeps a worker small.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.decoding.problem import Vector
from sfumato.learning.decoding.solver import Monitor

__all__ = ["Clustering", "assign", "cluster", "measure_inertia"]

_CHUNK: Final = 4096
_MOST_ITERATIONS: Final = 100
_TOLERANCE: Final = 1e-5
_SUBSET_PER_CLUSTER: Final = 200
_LEAST_SUBSET: Final = 4000
_NEAR: Final = 1.01
_MOST_RUNS: Final = 4


@dataclass(frozen=True, kw_only=True, eq=False)
class Clustering:
    """Centroids (k, d) of samples, the sample's labels (n,), and their inertia per sample."""

    centroids: Vector
    labels: NDArray[np.intp]
    inertia: float


def cluster(
    samples: Vector,
    starts: Sequence[Vector],
    *,
    n_restarts: int,
    rng: np.random.Generator,
    monitor: Monitor,
) -> Clustering:
    """Cluster samples from given centroids and from k-means++ starts; the lowest inertia is kept.

    All starts take their first steps on a subset; those that end there within a hundredth of the
    best one, four at most, continue with all samples.

    Parameters
    ----------
    samples : float64 (n, d)
        In units in which distances are meaningful.
    starts : sequence of float64 (k, d)
        Initial centroids, at least one set, all of the same k.
    n_restarts : int
        Further runs, with starts chosen on the subset.
    rng : numpy.random.Generator
        Source of subset and starts.
    monitor : Monitor
        Polled for cancellation at every step.
    """
    points = samples.astype(np.float32)
    n_clusters = len(starts[0])
    size = min(len(points), max(_LEAST_SUBSET, _SUBSET_PER_CLUSTER * n_clusters))
    # Samples are ordered by member only: a subset is drawn.
    subset = points
    if size < len(points):
        subset = points[rng.choice(len(points), size=size, replace=False)]
    begun = [
        *starts,
        *(_start_plus_plus(subset, n_clusters, rng) for _ in range(n_restarts)),
    ]
    trials = [_descend(subset, start, monitor) for start in begun]
    if size == len(points):
        return min(trials, key=lambda trial: trial.inertia)
    trials.sort(key=lambda trial: trial.inertia)
    near = [trial for trial in trials if trial.inertia <= _NEAR * trials[0].inertia]
    runs = [_descend(points, trial.centroids, monitor) for trial in near[:_MOST_RUNS]]
    return min(runs, key=lambda run: run.inertia)


def assign(points: NDArray[np.floating], centroids: Vector) -> tuple[NDArray[np.intp], float]:
    """Return each point's nearest centroid and the mean squared distance to it.

    Parameters
    ----------
    points : float32 or float64 (n, d)
        In units in which distances are meaningful; the arithmetic is in this type.
    centroids : float64 (k, d)
        In the same units.
    """
    middle = np.mean(centroids, axis=0)
    # Relative to the mean, where squares cancel least.
    moved = (centroids - middle).astype(points.dtype)
    shift = middle.astype(points.dtype)
    halves = 0.5 * np.einsum("kd,kd->k", moved, moved)
    labels = np.empty(len(points), dtype=np.intp)
    total = 0.0
    for first in range(0, len(points), _CHUNK):
        part = points[first : first + _CHUNK] - shift
        scores = halves - part @ moved.T
        nearest = np.argmin(scores, axis=1)
        labels[first : first + _CHUNK] = nearest
        least = np.take_along_axis(scores, nearest[:, None], axis=1)
        total += 2.0 * float(np.sum(least, dtype=np.float64))
        total += float(np.sum(np.square(part, dtype=np.float64)))
    return labels, max(total, 0.0) / len(points)


def measure_inertia(samples: NDArray[np.floating], centroids: Vector) -> float:
    """Compute the mean squared distance of samples (n, d) to the nearest of centroids (k, d)."""
    return assign(samples.astype(np.float32, copy=False), centroids)[1]


def _start_plus_plus(
    points: NDArray[np.float32], n_clusters: int, rng: np.random.Generator
) -> Vector:
    """Choose distinct starts, each with probability proportional to its squared distance."""
    chosen = np.empty((n_clusters, points.shape[1]))
    chosen[0] = points[rng.integers(len(points))]
    # Relative to the mean, where squares cancel least.
    moved = points - points.mean(axis=0)
    norms = np.einsum("nd,nd->n", moved, moved)
    squares = np.sum((points - chosen[0]) ** 2, axis=1, dtype=np.float64)
    n_tries = 2 + int(np.log(n_clusters))
    for i in range(1, n_clusters):
        total = np.cumsum(squares)
        if total[-1] <= 0.0:  # fewer distinct points than clusters
            chosen[i:] = chosen[0]
            break
        tries = np.searchsorted(total, rng.uniform(0.0, total[-1], size=n_tries))
        tries = np.minimum(tries, len(points) - 1)
        distances = norms[tries][:, None] + norms - 2.0 * (moved[tries] @ moved.T)
        options = np.minimum(squares, np.maximum(distances, 0.0))
        best = int(np.argmin(options.sum(axis=1)))
        chosen[i], squares = points[tries[best]], options[best]
    return chosen


def _descend(points: NDArray[np.float32], start: Vector, monitor: Monitor) -> Clustering:
    """Run Lloyd's iteration to constant inertia; an empty cluster keeps its centroid."""
    centroids, before = start.astype(np.float64), np.inf
    for _ in range(_MOST_ITERATIONS):
        monitor.check()
        labels, inertia = assign(points, centroids)
        if before - inertia <= _TOLERANCE * inertia:
            break
        before = inertia
        counts = np.bincount(labels, minlength=len(centroids))
        sums = np.stack(
            [np.bincount(labels, weights=column, minlength=len(centroids)) for column in points.T],
            axis=1,
        )
        full = counts > 0
        centroids[full] = sums[full] / counts[full, None]
    return Clustering(centroids=centroids, labels=labels, inertia=inertia)
