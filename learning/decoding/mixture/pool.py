"""Centroids from fitted mixtures: k-means on samples pooled from them.

The expected SSE of centroids is linear in the density, so the centroids of least expected SSE are
those of k-means on the average of all densities consistent with the sketch. This also gives the
centres of k-means rather than those of a mixture, which differ where clusters overlap.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from sfumato.learning.decoding.kmeans import cluster, measure_inertia
from sfumato.learning.decoding.mixture.ellipsoids import Ellipsoids, draw_samples
from sfumato.learning.decoding.mixture.gaussians import Target
from sfumato.learning.decoding.mixture.growth import compute_drop_costs
from sfumato.learning.decoding.mixture.ladder import Candidate, compute_chance_cost
from sfumato.learning.decoding.mixture.posterior import draw_around
from sfumato.learning.decoding.problem import Vector
from sfumato.learning.decoding.solver import Monitor

__all__ = ["Clusters", "Member", "Witness", "choose_members", "draw_pool", "pool_clusters"]

_LEAST_SAMPLES: Final = 40_000
_SAMPLES_PER_CLUSTER: Final = 500
_MANY_CLUSTERS: Final = 30
# Candidates whose PRESS is within this factor of the least are pooled, by exp(-sharpness times the
# relative excess), or less sharply where that is within the chance of PRESS itself.
_NEAR: Final = 2.0
_SHARPNESS: Final = 8.0
_LEAST_PRESS: Final = 1e-30
_MOST_CANDIDATES: Final = 12
_N_DRAWS: Final = 48
_LEAST_CANDIDATES: Final = 3
_SUPPORT_SAMPLES: Final = 3_000
_SUPPORT_DEVIATIONS: Final = 2.0
_SUPPORT: Final = 0.2
# Multiples of the energy that chance explains, and of the heaviest atom's weight.
_LITTLE: Final = 10.0
_LIGHT: Final = 0.15
_N_WITNESSES: Final = 6
_FEW_WITNESSES: Final = 3
_WITNESS_SAMPLES: Final = 4_000
_WITNESS_PER_CLUSTER: Final = 200


@dataclass(frozen=True, kw_only=True, eq=False)
class Member:
    """A density consistent with the sketch, and its share of the pool."""

    atoms: Ellipsoids
    share: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Witness:
    """Comparison of the answer with one member of the pool, taken for the truth.

    Parameters
    ----------
    centroids : float64 (k, d)
        Centroids of k-means on the member's own samples, unit lengths.
    ratio : float
        SSE of the answer over that of these centroids, on its samples; below 1 only by chance.
    """

    centroids: Vector
    ratio: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Clusters:
    """Clusters of k-means on the pool, with comparisons to single members.

    Parameters
    ----------
    centroids, spreads : float64 (k, d)
        Unit lengths; standard deviations.
    shares : float64 (k,)
        Shares of the pool, summing to 1.
    witnesses : tuple of Witness
        Comparisons with a few members, at least one.
    edge_share : float
        Share of the pool beyond the box, which is clipped to its edge.
    """

    centroids: Vector
    shares: Vector
    spreads: Vector
    witnesses: tuple[Witness, ...]
    edge_share: float

    def sort(self) -> "Clusters":
        """Return the same clusters, the heaviest first."""
        order = np.argsort(-self.shares, kind="stable")
        return replace(
            self,
            centroids=self.centroids[order],
            shares=self.shares[order],
            spreads=self.spreads[order],
        )


def choose_members(
    target: Target, candidates: Sequence[Candidate], rng: np.random.Generator
) -> list[Member]:
    """Weigh candidates by PRESS, and replace each by draws around it.

    Parameters
    ----------
    target : Target
        The explained sketch.
    candidates : sequence of Candidate
        By rising PRESS, at least one.
    rng : numpy.random.Generator
        Source of the draws.

    Returns
    -------
    list of Member
        Shares sum to 1; the first draw of every candidate comes before the second of any.
    """
    near = [c for c in candidates if c.press <= _NEAR * candidates[0].press][:_MOST_CANDIDATES]
    presses = np.array([candidate.press for candidate in near])
    chance = max(presses[0], _LEAST_PRESS) / min(_SHARPNESS, math.sqrt(target.n_frequencies))
    weights = np.exp(-(presses - presses[0]) / chance)
    weights /= np.sum(weights)
    drawn: list[tuple[int, Member]] = []
    for candidate, weight in zip(drop_unsupported(target, near, rng), weights, strict=True):
        n_own = max(1, round(_N_DRAWS * float(weight)))
        for i, atoms in enumerate(draw_around(target, candidate, n_own, rng)):
            drawn.append((i, Member(atoms=atoms, share=float(weight) / n_own)))
    return [member for _, member in sorted(drawn, key=lambda pair: pair[0])]


def drop_unsupported(
    target: Target, candidates: Sequence[Candidate], rng: np.random.Generator
) -> list[Candidate]:
    """Remove phantoms: atoms of a candidate where no other candidate has mass.

    Far from all records an atom of little weight can explain the model's misfit, and k-means would
    spend a centroid on it. Most fits find a real cluster. So a light atom that explains little is
    dropped if the others hold less than a fifth of its weight within two of its standard
    deviations, weighted by the inverse square of PRESS. Nothing is dropped with fewer than three
    candidates.
    """
    if len(candidates) < _LEAST_CANDIDATES:
        return list(candidates)
    samples = [draw_samples(c.fitted.atoms, _SUPPORT_SAMPLES, rng) for c in candidates]
    trust = np.array([candidate.press for candidate in candidates]) ** -2.0
    heaviest = np.max([np.max(candidate.fitted.atoms.weights) for candidate in candidates])
    kept: list[Candidate] = []
    for i, candidate in enumerate(candidates):
        atoms = candidate.fitted.atoms
        radii = _SUPPORT_DEVIATIONS * np.sqrt(np.sum(atoms.variances, axis=1))
        held = np.array([_measure_mass(atoms.centres, radii, points) for points in samples])
        others = np.delete(trust, i)
        support = others @ np.delete(held, i, axis=0) / np.sum(others)
        # Its own samples rather than its weight, so that chance is equal on both sides.
        costs = compute_drop_costs(candidate.fitted.rows, atoms.weights)
        little = _LITTLE * compute_chance_cost(target, candidate.fitted)
        is_light = (costs <= little) & (atoms.weights < _LIGHT * heaviest)
        is_kept = (support >= _SUPPORT * held[i]) | ~is_light
        if not np.any(is_kept):
            # A fit of light atoms alone is another reading of the sketch, not a phantom.
            is_kept[:] = True
        left = np.flatnonzero(is_kept)
        fitted = replace(candidate.fitted, atoms=atoms.take(left), rows=candidate.fitted.rows[left])
        kept.append(replace(candidate, fitted=fitted) if len(left) < len(atoms) else candidate)
    return kept


def _measure_mass(centres: Vector, radii: Vector, points: Vector) -> Vector:
    """Return the share of points within each ball: float64 (K,)."""
    squares = np.sum((centres[:, None] - points[None]) ** 2, axis=2)
    shares: Vector = np.mean(squares <= radii[:, None] ** 2, axis=1)
    return shares


def pool_clusters(
    target: Target,
    members: Sequence[Member],
    start: Vector,
    *,
    rng: np.random.Generator,
    monitor: Monitor,
) -> Clusters:
    """Cluster a pool of samples of the members, from their centroids and from `start` (k, d)."""
    n_clusters = len(start)
    many = n_clusters > _MANY_CLUSTERS
    n_restarts = 2 if many else 6
    size = max(_WITNESS_SAMPLES, _WITNESS_PER_CLUSTER * n_clusters)
    heard = []
    for member in members[: _FEW_WITNESSES if many else _N_WITNESSES]:
        samples = np.clip(draw_samples(member.atoms, size, rng), target.lower, target.upper)
        own = cluster(samples, [start], n_restarts=2, rng=rng, monitor=monitor)
        heard.append((samples, own))
    n_samples = max(_LEAST_SAMPLES, _SAMPLES_PER_CLUSTER * n_clusters)
    pool = draw_pool(members, n_samples, rng)
    outside = np.any((pool < target.lower) | (pool > target.upper), axis=1)
    pool = np.clip(pool, target.lower, target.upper)
    found = cluster(
        pool,
        [start, *(own.centroids for _, own in heard)],
        n_restarts=n_restarts,
        rng=rng,
        monitor=monitor,
    )
    counts = np.bincount(found.labels, minlength=n_clusters)
    deviations = (pool - found.centroids[found.labels]) ** 2
    sums = [
        np.bincount(found.labels, weights=column, minlength=n_clusters) for column in deviations.T
    ]
    spreads = np.sqrt(np.stack(sums, axis=1) / np.maximum(counts, 1)[:, None])
    return Clusters(
        centroids=found.centroids,
        shares=counts / n_samples,
        spreads=spreads,
        witnesses=tuple(
            Witness(
                centroids=own.centroids,
                ratio=measure_inertia(samples, found.centroids) / max(own.inertia, 1e-300),
            )
            for samples, own in heard
        ),
        edge_share=float(np.mean(outside)),
    )


def draw_pool(members: Sequence[Member], n_samples: int, rng: np.random.Generator) -> Vector:
    """Draw samples of the members by their shares: float64 (n, d), not clipped to the box."""
    shares = np.array([member.share for member in members])
    counts = rng.multinomial(n_samples, shares / np.sum(shares))
    parts = [
        draw_samples(member.atoms, int(count), rng)
        for member, count in zip(members, counts, strict=True)
    ]
    return np.concatenate(parts)
