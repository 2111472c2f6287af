"""From fitted mixtures to centroids: k-means on samples pooled from them.

The expected SSE of centroids is linear in the density, so the centroids of least expected SSE are
those of k-means on the average of all densities that the sketch may come from. This also gives the
centres of k-means rather than those of a mixture, which differ where clusters overlap.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from aggregator.decoding.ensemble import Member
from aggregator.decoding.gaussians import Atoms, Target
from aggregator.decoding.kmeans import cluster
from aggregator.decoding.problem import Vector
from aggregator.decoding.solver import Monitor

__all__ = ["Clusters", "draw_pool", "pool_clusters"]

_LEAST_SAMPLES: Final = 40_000
_SAMPLES_PER_CLUSTER: Final = 500
_MANY_CLUSTERS: Final = 30


@dataclass(frozen=True, kw_only=True, eq=False)
class Clusters:
    """Centroids (k, d) and standard deviations (k, d) in unit lengths, and shares (k,) of 1."""

    centroids: Vector
    shares: Vector
    spreads: Vector


def pool_clusters(
    target: Target,
    members: Sequence[Member],
    start: Atoms,
    *,
    rng: np.random.Generator,
    monitor: Monitor,
) -> Clusters:
    """Cluster a pool of samples of the members, beginning at the atoms of the best k-atom fit."""
    n_clusters = len(start)
    n_samples = max(_LEAST_SAMPLES, _SAMPLES_PER_CLUSTER * n_clusters)
    pool = draw_pool(target, members, n_samples, rng)
    found = cluster(
        pool,
        start.centres,
        n_restarts=2 if n_clusters > _MANY_CLUSTERS else 6,
        rng=rng,
        monitor=monitor,
    )
    counts = np.bincount(found.labels, minlength=n_clusters)
    deviations = (pool - found.centroids[found.labels]) ** 2
    sums = [
        np.bincount(found.labels, weights=column, minlength=n_clusters) for column in deviations.T
    ]
    spreads = np.sqrt(np.stack(sums, axis=1) / np.maximum(counts, 1)[:, None])
    return Clusters(centroids=found.centroids, shares=counts / n_samples, spreads=spreads)


def draw_pool(
    target: Target, members: Sequence[Member], n_samples: int, rng: np.random.Generator
) -> Vector:
    """Draw samples of the members by their shares, pulled into the box: float64 (n, d)."""
    centres = np.concatenate([member.fitted.atoms.centres for member in members])
    variances = np.concatenate([member.fitted.atoms.variances for member in members])
    probabilities = np.concatenate([_spread_share(member) for member in members])
    counts = rng.multinomial(n_samples, probabilities / np.sum(probabilities))
    deviations = np.repeat(np.sqrt(variances), counts)[:, None]
    samples = np.repeat(centres, counts, axis=0)
    samples += deviations * rng.normal(size=samples.shape)
    pool: Vector = np.clip(samples, target.lower, target.upper)
    return pool


def _spread_share(member: Member) -> Vector:
    """Spread a member's share over its atoms."""
    weights = member.fitted.atoms.weights
    total = float(np.sum(weights))
    if total <= 0.0:
        return np.full(len(weights), member.share / len(weights))
    return member.share * weights / total
