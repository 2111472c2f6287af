"""Gather the evidence for an answer from the sketch, the fits and the members of the pool."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.decoding.diagnosis import compute_signal
from sfumato.learning.decoding.ellipsoids import Ellipsoids
from sfumato.learning.decoding.evidence import Evidence
from sfumato.learning.decoding.gaussians import Target
from sfumato.learning.decoding.ladder import Candidate, compute_chance_cost, compute_white_variance
from sfumato.learning.decoding.pooling import Clusters
from sfumato.learning.decoding.problem import DecodingProblem, Vector
from sfumato.learning.decoding.unseen import measure_unseen

__all__ = ["gather_evidence", "measure_kurtosis"]

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
    rng: np.random.Generator,
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
    rng
        Source of simulated noise.
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
        **vars(measure_unseen(target, best, clusters, rng)),
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
