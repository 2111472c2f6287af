"""Assemble the `Solution` in data units from fits and pooled clusters."""

from collections.abc import Sequence

import numpy as np

from sfumato.learning.decoding.bars import TRUSTED, describe_bars
from sfumato.learning.decoding.density import GaussianMixture
from sfumato.learning.decoding.diagnosis import (
    Diagnosis,
    compute_agreement,
    diagnose,
)
from sfumato.learning.decoding.ellipsoids import Ellipsoids
from sfumato.learning.decoding.gathering import gather_evidence
from sfumato.learning.decoding.gaussians import Target
from sfumato.learning.decoding.judging import judge
from sfumato.learning.decoding.keeping import describe_posterior
from sfumato.learning.decoding.ladder import Candidate
from sfumato.learning.decoding.levenberg import Fitted
from sfumato.learning.decoding.pooling import Clusters, Member
from sfumato.learning.decoding.problem import DecodingProblem, Vector
from sfumato.learning.decoding.responses import Responses, measure_spreads
from sfumato.learning.decoding.solution import Solution

__all__ = ["assemble_pooled_solution", "describe_density"]


def assemble_pooled_solution(
    problem: DecodingProblem,
    target: Target,
    fits: Sequence[Fitted],
    candidates: Sequence[Candidate],
    clusters: Clusters,
    *,
    members: Sequence[Member],
    responses: Responses,
    plan_unit: Vector,
    solver: str,
    rng: np.random.Generator,
) -> Solution:
    """Convert centroids, shares, spreads and a density to data units, and judge the answer.

    Parameters
    ----------
    problem : DecodingProblem
        The solved problem, in the units of the fits.
    target : Target
        The same problem, as the fits received it.
    fits : sequence of Fitted
        At least one round fit of k atoms; their residuals give the agreement.
    candidates : sequence of Candidate
        All models, by rising PRESS; the residual is that of the first.
    clusters : Clusters
        Clusters from k-means on the pool, the heaviest first.
    members : sequence of Member
        The pool.
    responses : Responses
        Centroids that single members would give.
    plan_unit : float64 (d,)
        The plan's scale, data units.
    solver : str
        Name and version.
    rng : numpy.random.Generator
        Source of simulated noise.
    """
    best, m = candidates[0], problem.n_frequencies
    fitted = best.fitted.atoms
    centroids = np.clip(
        problem.centre + problem.unit * clusters.centroids, problem.lower, problem.upper
    )
    found = Diagnosis(
        atom="clusters",
        n_parameters=best.n_parameters,
        residual=best.fitted.misfit / m,
        replicate_residuals=tuple(fit.misfit / m for fit in fits),
        fitted_weights=fitted.weights,
        centres=problem.centre + problem.unit * fitted.centres,
        centroids=centroids,
        shares=clusters.shares,
        n_failures=0,
        is_judged=True,
    )
    agreement = compute_agreement(problem, found)
    evidence = gather_evidence(
        problem,
        target,
        candidates,
        clusters,
        agreement=agreement,
        plan_unit=plan_unit,
        rng=rng,
    )
    verdict = judge(problem, evidence)
    moves, changes = measure_spreads(clusters, responses)
    return Solution(
        centroids=centroids,
        weights=clusters.shares,
        residual=found.residual,
        noise_floor=best.floor / m,
        at_noise_floor=best.is_at_floor,
        n_replicates=len(fits),
        replicate_residuals=found.replicate_residuals,
        agreement=agreement,
        solver=solver,
        warnings=diagnose(problem, found),
        succeeded=bool(np.sum(fitted.weights) > 0.0),
        spreads=problem.unit * clusters.spreads,
        mixture=describe_density(problem, _find_unslanted(candidates)),
        evidence=evidence,
        verdict=verdict,
        posterior=describe_posterior(
            problem,
            members,
            doubt=evidence.residual_deviations,
            held_out=evidence.held_out,
            is_trusted=verdict.word in TRUSTED,
        ),
        bars=describe_bars(
            evidence,
            verdict,
            centroid_spreads=problem.unit * moves,
            weight_spreads=changes,
        ),
    )


def _find_unslanted(candidates: Sequence[Candidate]) -> Ellipsoids:
    """Return the best mixture with diagonal covariances; round fits always qualify."""
    return next(c for c in candidates if c.kind != "full").fitted.atoms


def describe_density(problem: DecodingProblem, atoms: Ellipsoids) -> GaussianMixture:
    """Convert a mixture to data units, heaviest atom first, weights summing to 1."""
    total = float(np.sum(atoms.weights))
    weights = atoms.weights / total if total > 0.0 else np.full(len(atoms), 1.0 / len(atoms))
    order = np.argsort(-weights, kind="stable")
    return GaussianMixture(
        weights=weights[order],
        means=(problem.centre + problem.unit * atoms.centres)[order],
        variances=atoms.variances[order] * problem.unit**2,
    )
