"""Private k-means by max cover: records in, released integers and centroids out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.clustering.weighted_points import cluster_weighted
from sfumato.learning.coverage.averages import find_nearest, sum_clusters
from sfumato.learning.coverage.gains import choose_points
from sfumato.learning.coverage.plan import CoverPlan
from sfumato.learning.coverage.projection import Floats, Integers, clip_to_ball
from sfumato.shared.core.quantise import STEPS
from sfumato.shared.errors import ConfigError
from sfumato.shared.privacy.mechanisms.laplace import draw_laplace
from sfumato.shared.privacy.samplers import UNIT, RandomSource
from sfumato.shared.privacy.selection import ExponentialChoice

_LEAST_SCALES = 3.0
"""Candidates with fewer votes than so many scales of the noise are left out."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CoverAnswer:
    """All that a cover has released, and the centroids that follow from it.

    Parameters
    ----------
    candidates
        Shape ``(c, d')``: places of the picked grid points.
    votes
        Shape ``(c,)``: noisy numbers of records nearest to each.
    rounds
        Shape ``(n_rounds, k, 1 + d)``: K times a noisy count, then noisy sums.
    centroids
        Shape ``(k, d)``, steps from the centre of the box, inside it.
    masses
        Shape ``(k,)``: noisy numbers of records.
    """

    candidates: Integers
    votes: Integers
    rounds: Integers
    centroids: Floats
    masses: Floats


def run_cover(
    steps: NDArray[np.integer[Any]],
    plan: CoverPlan,
    *,
    source: RandomSource,
    rng: np.random.Generator,
) -> CoverAnswer:
    """Release a cover of records; a second call is a second release.

    Parameters
    ----------
    steps
        Shape ``(n, d)``: records in steps from the centre of the box, without those that cannot be
        read. Under replace-one, too, a record may be replaced by one of these.
    plan
        Public numbers.
    source
        Source of the noise.
    rng
        Starts of the clustering of released points.

    Raises
    ------
    ConfigError
        The records have another number of dimensions.

    Guarantees
    ----------
    ``candidates``, ``votes`` and ``rounds`` together are (epsilon, delta) differentially private
    under the relation of the plan (``proofs.md``, sections 16 and 17); the rest follows from them.
    How long the call takes depends on the records.
    """
    if steps.ndim != 2 or steps.shape[1] != plan.projection.n_dimensions:
        raise ConfigError(
            f"must have {plan.projection.n_dimensions} columns",
            field="steps",
            fix="plan for these records",
        )
    clipped = clip_to_ball(steps, plan.projection.radius)
    places = plan.projection.project(clipped)
    candidates, votes = _discover(places, plan, source)
    centres = cluster_votes(candidates, votes, plan, rng)
    labels = find_nearest(places, np.rint(centres).astype(np.int64))
    rounds: list[Integers] = []
    centroids: Floats | None = None
    masses = np.empty(0)
    for averages in plan.averages:
        if centroids is not None:
            labels = find_nearest(clipped, np.rint(centroids).astype(np.int64))
        counts, sums = sum_clusters(clipped, labels, plan.n_clusters)
        rounds.append(averages.add_noise(counts, sums, source))
        centroids, masses = averages.read(rounds[-1], centroids)
        centroids = np.clip(centroids, -STEPS, STEPS)
    assert centroids is not None
    return CoverAnswer(
        candidates=candidates,
        votes=votes,
        rounds=np.array(rounds),
        centroids=centroids,
        masses=masses,
    )


def _discover(places: Integers, plan: CoverPlan, source: RandomSource) -> tuple[Integers, Integers]:
    """Pick points, then count the records nearest to each with noise."""
    if not plan.has_cover:
        centre = np.zeros((1, plan.projection.n_projected), dtype=np.int64)
        return centre, np.zeros(1, dtype=np.int64)
    candidates = choose_points(
        places,
        plan.grids,
        n_picks=plan.n_picks,
        choice=ExponentialChoice(rate=plan.cover_rate),
        source=source,
    )
    labels = find_nearest(places, candidates)
    exact = np.bincount(labels, minlength=len(candidates)).astype(np.int64)
    return candidates, exact + draw_laplace(source, plan.count_rate, exact.size)


def cluster_votes(
    candidates: Integers, votes: Integers, plan: CoverPlan, rng: np.random.Generator
) -> Floats:
    """Cluster candidates by their votes: places, shape ``(k, d')``; reads released numbers only.

    Candidates that noise alone explains are left out; if none is left, the first ones remain.
    """
    if not plan.has_cover:
        return candidates.astype(np.float64)
    weights = votes.astype(np.float64)
    weights[weights <= _LEAST_SCALES * UNIT / plan.count_rate] = 0.0
    if not weights.any():
        weights[: plan.n_clusters] = 1.0
    return cluster_weighted(candidates.astype(np.float64), weights, plan.n_clusters, rng)
