"""The answer in data units from fits and pooled clusters, with the evidence for it."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.decoding.bars import describe_bars
from sfumato.learning.decoding.density import GaussianMixture
from sfumato.learning.decoding.diagnosis import (
    Diagnosis,
    compute_agreement,
    compute_signal,
    diagnose,
)
from sfumato.learning.decoding.judgement import Evidence, judge, tells_shares
from sfumato.learning.decoding.mixture.ellipsoids import Ellipsoids
from sfumato.learning.decoding.mixture.gaussians import Target
from sfumato.learning.decoding.mixture.ladder import (
    Candidate,
    compute_chance_cost,
    compute_white_variance,
)
from sfumato.learning.decoding.mixture.pool import Clusters, Member
from sfumato.learning.decoding.mixture.responses import (
    Responses,
    describe_posterior,
    measure_spreads,
)
from sfumato.learning.decoding.mixture.round_descent import Fitted
from sfumato.learning.decoding.mixture.unseen import measure_unseen
from sfumato.learning.decoding.problem import DecodingProblem, Vector
from sfumato.learning.decoding.solution import Solution

__all__ = ["assemble_pooled_solution", "describe_density", "gather_evidence", "measure_kurtosis"]

# A cluster is blurred below this many times the least detectable share; so is a light one that few
# members have, and one that no member has. Where no model explains the sketch, the misfit may look
# like a cluster: there all members must have it.
_BLURRED: Final = 2.0
_RARELY: Final = 0.34
_LIGHT: Final = 0.5
_LIGHT_ALONE: Final = 10.0
_UNEXPLAINED: Final = 10.0
# Least share of the fourth moment inside atoms of a long tail. Isolated far clusters had up to
# 0.02, atoms of tails from 0.07 on.
_LEAST_INSIDE: Final = 0.05


def gather_evidence(
    problem: DecodingProblem,
    target: Target,
    candidates: Sequence[Candidate],
    clusters: Clusters,
    *,
    agreement: float,
    plan_unit: Vector,
) -> Evidence:
    """Gather the evidence for an answer.

    Parameters
    ----------
    problem, target
        The solved problem, in the units of the fits.
    candidates
        By rising PRESS, at least one.
    clusters
        The answer, in the units of the fits and in its order of clusters.
    agreement
        Agreement of the round fits.
    plan_unit : float64 (d,)
        The plan's scale, data units.
    """
    best = candidates[0]
    m = target.n_frequencies
    excesses = [max(0.0, witness.ratio - 1.0) for witness in clusters.witnesses]
    n_centroid_parameters = problem.n_clusters * problem.n_dimensions
    snr = compute_signal(problem) / max(problem.noise_variance, compute_white_variance(target))
    lengths = clusters.spreads * problem.unit / plan_unit
    full = clusters.shares > 0.0
    stabilities = _compute_stabilities(clusters)
    resolutions = _compute_resolutions(target, best, clusters)
    held_out = best.press / best.expected_press
    kurtosis, tail_axis = measure_kurtosis(best.fitted.atoms, problem.is_level)
    return Evidence(
        residual_deviations=(best.fitted.misfit - best.floor) / max(best.deviation, 1e-300),
        held_out=held_out,
        disagreement=float(np.mean(excesses)),
        worst_disagreement=float(np.max(excesses)),
        agreement=agreement,
        snr_per_parameter=snr * (m / n_centroid_parameters),
        features_per_parameter=target.n_informative / n_centroid_parameters,
        spread_over_scale=float(np.median(lengths[full])) if np.any(full) else 0.0,
        **vars(measure_unseen(target, best, clusters)),
        edge_share=clusters.edge_share,
        kurtosis=kurtosis,
        tail_axis=tail_axis,
        model=describe_model(best),
        stabilities=stabilities,
        resolutions=resolutions,
        resolved=~_find_blurred(clusters.shares, resolutions, stabilities, held_out),
    )


def describe_model(candidate: Candidate) -> str:
    """Describe a candidate's model in words."""
    n_atoms = len(candidate.fitted.atoms)
    words = {
        "round": "round",
        "axes": "with a variance for each dimension",
        "full": "with full covariances",
    }
    kind = words[candidate.kind]
    noun = "Gaussian" if n_atoms == 1 else "Gaussians"
    return f"{n_atoms} round {noun}" if candidate.kind == "round" else f"{n_atoms} {noun} {kind}"


def measure_kurtosis(atoms: Ellipsoids, is_level: NDArray[np.bool_] | None) -> tuple[float, int]:
    """Measure the largest kurtosis along an axis, and find the axis."""
    shares, variances = atoms.weights / max(float(np.sum(atoms.weights)), 1e-300), atoms.variances
    squares = (atoms.centres - shares @ atoms.centres) ** 2
    whole = shares @ (squares + variances)
    inside = shares @ (6.0 * squares * variances + 3.0 * variances**2)
    fourth = shares @ squares**2 + inside
    is_tail = (inside >= _LEAST_INSIDE * fourth) & (whole > 0.0)
    if is_level is not None:
        is_tail &= ~is_level
    found = np.where(is_tail, fourth / np.maximum(whole, 1e-150) ** 2, 0.0)
    axis = int(np.argmax(found))
    return float(found[axis]), axis


def _compute_stabilities(clusters: Clusters) -> Vector:
    """Compute for each cluster the share of members with a centroid within half its radius."""
    radii = np.sqrt(np.sum(clusters.spreads**2, axis=1))
    held = [
        np.min(
            np.linalg.norm(clusters.centroids[:, None] - witness.centroids[None], axis=2), axis=1
        )
        <= 0.5 * radii
        for witness in clusters.witnesses
    ]
    shares: Vector = np.mean(np.array(held, dtype=np.float64), axis=0)
    return shares


def _compute_resolutions(target: Target, best: Candidate, clusters: Clusters) -> Vector:
    """Compute the share at which an atom like the nearest one explains no more than chance."""
    chance = compute_chance_cost(target, best.fitted)
    rows, atoms = best.fitted.rows, best.fitted.atoms
    energies = np.einsum("km,km->k", rows, rows).astype(np.float64)
    distances = np.linalg.norm(clusters.centroids[:, None] - atoms.centres[None], axis=2)
    nearest = np.argmin(distances, axis=1)
    shares: Vector = np.sqrt(chance / np.maximum(energies[nearest], 1e-30))
    return np.minimum(shares, 1.0)


def _find_blurred(
    shares: Vector, resolutions: Vector, stabilities: Vector, held_out: float
) -> NDArray[np.bool_]:
    """Find the clusters that may be artefacts of noise or of the model's misfit."""
    below = shares < _BLURRED * resolutions
    rare = (stabilities < _RARELY) & (shares * len(shares) < _LIGHT)
    alone = (stabilities == 0.0) & (shares < _LIGHT_ALONE * resolutions)
    unexplained = (stabilities < 1.0) & (held_out > _UNEXPLAINED)
    blurred: NDArray[np.bool_] = below | rare | alone | unexplained
    return blurred


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
            is_trusted=tells_shares(problem, evidence),
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
