"""Caution on a chosen number of clusters: expected SSE and stability over k.

Neither chooses: records of clear clusters may be stable at several numbers, and unstable at the
right one. The SSE curve is for people to read; a low agreement warns that another number, or none,
may describe the records as well.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.decoding.choice import Caution
from sfumato.learning.decoding.densities import Posterior
from sfumato.learning.decoding.kmeans import assign, cluster
from sfumato.learning.decoding.problem import Vector
from sfumato.learning.decoding.solver import Monitor

__all__ = ["choose_counts", "compare_labels", "compute_caution"]

_BELOW: Final = 6
_ABOVE: Final = 4
_N_SAMPLES: Final = 1_500
_MOST_SAMPLES: Final = 6_000
_PER_CLUSTER: Final = 60
_N_SPLITS: Final = 3
_N_RESTARTS: Final = 2


def choose_counts(chosen: int, most: int) -> list[int]:
    """Choose the numbers of clusters to look at: around the chosen one, at most eleven."""
    return list(range(max(1, chosen - _BELOW), max(chosen, min(most, chosen + _ABOVE)) + 1))


def compute_caution(
    posterior: Posterior,
    counts: Sequence[int],
    *,
    unit: Vector,
    rng: np.random.Generator,
    monitor: Monitor,
) -> Caution:
    """Cluster samples of the posterior, and of random halves of its draws.

    Parameters
    ----------
    posterior
        The draws.
    counts
        Numbers of clusters, rising.
    unit : float64 (d,)
        Lengths in which distances are meaningful.
    rng
        Source of samples, halves and starts.
    monitor
        Polled for cancellation before every number.
    """
    size = min(_MOST_SAMPLES, max(_N_SAMPLES, _PER_CLUSTER * max(counts)))
    common = posterior.draw_samples(size, rng=rng) / unit
    whole = float(np.mean(np.sum((common - common.mean(axis=0)) ** 2, axis=1)))
    halves = [_split(posterior, size, rng) for _ in range(_N_SPLITS)]
    sses, agreements = [], []
    for count in counts:
        monitor.check()
        sses.append(_find(common, count, rng, monitor)[1] / max(whole, 1e-300))
        pairs = [
            [
                assign(common, _find(half / unit, count, rng, monitor)[0])[0]
                for half in (first, second)
            ]
            for first, second in halves
        ]
        agreements.append(
            float(np.mean([compare_labels(one, other, count) for one, other in pairs]))
        )
    return Caution(counts=tuple(counts), sses=tuple(sses), agreements=tuple(agreements))


def _split(posterior: Posterior, size: int, rng: np.random.Generator) -> tuple[Vector, Vector]:
    """Draw samples of two random halves of the draws; of all draws where there is one."""
    order = rng.permutation(posterior.n_draws)
    middle = len(order) // 2
    first, second = (order[:middle], order[middle:]) if middle else (order, order)
    return (
        posterior.keep_draws(first).draw_samples(size, rng=rng),
        posterior.keep_draws(second).draw_samples(size, rng=rng),
    )


def _find(
    points: Vector, n_clusters: int, rng: np.random.Generator, monitor: Monitor
) -> tuple[Vector, float]:
    """Return centroids of k-means and their inertia."""
    start = points[rng.choice(len(points), size=n_clusters, replace=False)]
    found = cluster(points, [start], n_restarts=_N_RESTARTS, rng=rng, monitor=monitor)
    return found.centroids, found.inertia


def compare_labels(first: NDArray[np.intp], second: NDArray[np.intp], n_labels: int) -> float:
    """Compute the adjusted Rand index of two labellings (n,) by labels below ``n_labels``.

    1 where they are the same up to names, 0 on average for unrelated ones.
    """
    table = np.bincount(first * n_labels + second, minlength=n_labels**2)
    table = table.reshape(n_labels, n_labels).astype(np.float64)
    together = float(np.sum(table * (table - 1.0)) / 2.0)
    rows, columns = (
        float(np.sum(sums * (sums - 1.0)) / 2.0) for sums in (table.sum(axis=1), table.sum(axis=0))
    )
    pairs = len(first) * (len(first) - 1.0) / 2.0
    expected = rows * columns / max(pairs, 1.0)
    most = (rows + columns) / 2.0
    return 1.0 if most <= expected else (together - expected) / (most - expected)
