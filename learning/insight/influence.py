"""Influence of one device, or of one part of a secure sum, on an answer.

A device that lies, or that holds what nobody else does, may decide a cluster alone. Its sums are
taken out of the sketch, exactly; the answer's density descends to what is left; and the answer's
centroids are compared with those of k-means on that density. The same is done with nothing taken
out, so that what the descent itself changes does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from sfumato.learning.decoding.bars import describe_bars
from sfumato.learning.decoding.density import GaussianMixture
from sfumato.learning.decoding.judgement import judge_influence
from sfumato.learning.decoding.kmeans import assign, cluster
from sfumato.learning.decoding.mixture.ellipsoids import Ellipsoids, draw_samples
from sfumato.learning.decoding.mixture.gaussians import measure_in_wavelengths, prepare_target
from sfumato.learning.decoding.mixture.ladder import descend
from sfumato.learning.decoding.problem import DecodingProblem, Vector
from sfumato.learning.decoding.solution import Solution
from sfumato.learning.decoding.solver import Monitor
from sfumato.learning.decoding.verdict import Influence
from sfumato.learning.estimate.counts import count_records
from sfumato.learning.estimate.totals import Totals
from sfumato.learning.insight.pairs import pose_pooled
from sfumato.shared.errors import ConfigError, DecodingError, WrongStatisticError
from sfumato.shared.plan import SketchPlan

__all__ = ["LEAST_SOURCES", "add_influence", "rank_sources"]

LEAST_SOURCES: Final = {"device": 5, "file": 5, "part": 3}
"""Least number of sources; each of fewer may well hold a cluster of its own."""
_MOST_LOOKS: Final = 6
_N_SAMPLES: Final = 20_000
_LEAST_SHARE: Final = 0.005


@dataclass(frozen=True, kw_only=True, eq=False)
class _Look:
    """The answer by the density of one sketch: relative SSE, and shares (k,) of its clusters."""

    ratio: float
    shares: Vector


def add_influence(
    plan: SketchPlan,
    solution: Solution,
    sources: Sequence[Totals],
    *,
    whole: Totals,
    kind: str,
    seed: int,
    cancelled: Callable[[], bool] | None = None,
) -> Solution:
    """Return an answer with the influence of the source that it owes most, and its verdict.

    Parameters
    ----------
    plan, solution
        The plan of the sketches, and an answer from all of them.
    sources, whole
        The sums of each device or part, disjoint; and of all sketches.
    kind
        What they are: ``device``, ``file`` or ``part``.
    seed
        Seed of the samples.
    cancelled
        Polled between steps.

    Returns
    -------
    Solution
        The same one where nothing can be said: of few sources, or of plans and answers without a
        density.

    Raises
    ------
    DecodingCancelledError
        ``cancelled`` returned true.
    """
    held = [each for each in sources if each.n_sketches]
    density = solution.mixture
    if density is None or len(held) < LEAST_SOURCES[kind]:
        return solution
    n_clusters, monitor = len(solution.weights), Monitor(1, None, cancelled)
    base: _Look | None = None
    worst: Influence | None = None
    try:
        problem = pose_pooled(plan, whole, n_clusters=n_clusters)
    except (DecodingError, WrongStatisticError):
        return solution
    base = _look(solution, density, problem, seed, monitor)
    for i in rank_sources(plan, whole, held)[:_MOST_LOOKS]:
        try:
            problem = pose_pooled(plan, whole - held[i], n_clusters=n_clusters)
        except (ConfigError, DecodingError):
            # Without it there is nothing to read.
            continue
        found = _look(solution, density, problem, seed, monitor)
        lost = (base.shares - found.shares) / np.maximum(base.shares, _LEAST_SHARE)
        j = int(np.argmax(lost))
        one = Influence(
            source=kind,
            n_sources=len(held),
            ratio=max(1.0, found.ratio / base.ratio),
            cluster=j,
            share=float(base.shares[j]),
            share_without=float(found.shares[j]),
        )
        if worst is None or one.is_worse_than(worst):
            worst = one
    return solution if worst is None else _judge(solution, worst)


def rank_sources(plan: SketchPlan, whole: Totals, sources: Sequence[Totals]) -> list[int]:
    """Order sources by how far each moves the sums, |S_i - n_i / n S|^2, beyond its noise.

    Parameters
    ----------
    whole, sources
        The sums of all sketches, and of each source.

    Returns
    -------
    list of int
        Places of the sources, the one that moves them furthest first.
    """
    n_blocks = plan.blocks.n_blocks
    block_of = np.tile(plan.blocks.block_of, 2)

    def count(totals: Totals) -> Vector:
        return np.array(count_records(plan, totals).by_block, dtype=np.float64)

    all_records, sums = np.maximum(count(whole), 1.0), whole.sums[: block_of.size].astype(float)
    moves = []
    for each in sources:
        shares = (count(each) / all_records)[block_of]
        own = each.sums[: block_of.size] - shares * sums
        noise = plan.released_variance * each.n_sketches * block_of.size / n_blocks
        moves.append(float(own @ own) - noise)
    return [int(i) for i in np.argsort(-np.array(moves), kind="stable")]


def _look(
    solution: Solution,
    density: GaussianMixture,
    problem: DecodingProblem,
    seed: int,
    monitor: Monitor,
) -> _Look:
    """Let the density descend to a sketch, and compare the answer with its own k-means."""
    rng, d = np.random.default_rng(seed), problem.n_dimensions
    # As in every solver, bad input may overflow single precision; each step checks its results.
    with np.errstate(all="ignore"):
        standard = measure_in_wavelengths(problem)
        target = prepare_target(standard)
        start = Ellipsoids(
            centres=(density.means - standard.centre) / standard.unit,
            logs=0.5 * np.log(density.variances / standard.unit**2),
            slants=np.zeros((len(density.weights), d, d)),
            weights=density.weights,
        )
        atoms = descend(target, start, "axes", rng, monitor).fitted.atoms
    points = np.clip(draw_samples(atoms, _N_SAMPLES, rng), target.lower, target.upper)
    centroids = (solution.centroids - standard.centre) / standard.unit
    own = cluster(points, [centroids], n_restarts=2, rng=rng, monitor=monitor)
    labels, inertia = assign(points, centroids)
    return _Look(
        ratio=inertia / max(own.inertia, 1e-300),
        shares=np.bincount(labels, minlength=len(centroids)) / len(points),
    )


def _judge(solution: Solution, influence: Influence) -> Solution:
    """Put the influence into the verdict, and take error bars away with trust."""
    if solution.verdict is None or solution.evidence is None or solution.bars is None:
        return replace(solution, influence=influence)
    verdict, posterior = judge_influence(solution.verdict, influence), solution.posterior
    if posterior is not None:
        is_trusted = posterior.is_trusted and not influence.matters
        posterior = replace(posterior, is_trusted=is_trusted)
    bars = describe_bars(
        solution.evidence,
        verdict,
        centroid_spreads=solution.bars.centroid_spreads,
        weight_spreads=solution.bars.weight_spreads,
    )
    return replace(solution, influence=influence, verdict=verdict, bars=bars, posterior=posterior)
