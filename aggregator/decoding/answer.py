"""From fits and pooled clusters in standardised coordinates to the `Solution` in data units."""

from collections.abc import Sequence

import numpy as np

from aggregator.decoding.density import GaussianMixture
from aggregator.decoding.diagnosis import (
    Diagnosis,
    compute_agreement,
    compute_noise_floor,
    diagnose,
    is_at_noise_floor,
)
from aggregator.decoding.gaussians import Atoms
from aggregator.decoding.levenberg import Fitted
from aggregator.decoding.pooling import Clusters
from aggregator.decoding.problem import DecodingProblem
from aggregator.decoding.solution import Solution

__all__ = ["assemble_pooled_solution", "describe_density"]


def assemble_pooled_solution(
    problem: DecodingProblem,
    fits: Sequence[Fitted],
    clusters: Clusters,
    density: Atoms,
    *,
    solver: str,
) -> Solution:
    """Put centroids, shares, spreads and a density into data units, and say how good they are.

    Parameters
    ----------
    problem : DecodingProblem
        What was solved.
    fits : sequence of Fitted
        Of k atoms each, at least one; residual and agreement are theirs.
    clusters : Clusters
        What k-means on the pool found.
    density : Atoms
        The mixture to show.
    solver : str
        Name and version.
    """
    best = min(fits, key=lambda fit: fit.objective)
    order = np.argsort(-clusters.shares, kind="stable")
    centroids = problem.centre + problem.unit * clusters.centroids[order]
    found = Diagnosis(
        atom="round clusters",
        n_parameters=problem.n_clusters * (problem.n_dimensions + 2),
        residual=best.misfit / problem.n_frequencies,
        replicate_residuals=tuple(fit.misfit / problem.n_frequencies for fit in fits),
        fitted_weights=best.atoms.weights,
        centres=problem.centre + problem.unit * best.atoms.centres,
        shares=clusters.shares,
        n_failures=0,
        predicts=True,
    )
    return Solution(
        centroids=np.clip(centroids, problem.lower, problem.upper),
        weights=clusters.shares[order],
        residual=found.residual,
        noise_floor=compute_noise_floor(problem, found),
        at_noise_floor=is_at_noise_floor(problem, found),
        n_replicates=len(fits),
        replicate_residuals=found.replicate_residuals,
        agreement=compute_agreement(problem, found),
        solver=solver,
        warnings=diagnose(problem, found),
        succeeded=bool(np.sum(best.atoms.weights) > 0.0),
        spreads=problem.unit * clusters.spreads[order],
        mixture=describe_density(problem, density),
    )


def describe_density(problem: DecodingProblem, atoms: Atoms) -> GaussianMixture:
    """Put a mixture into data units, heaviest atom first, weights summing to 1."""
    total = float(np.sum(atoms.weights))
    weights = atoms.weights / total if total > 0.0 else np.full(len(atoms), 1.0 / len(atoms))
    order = np.argsort(-weights, kind="stable")
    return GaussianMixture(
        weights=weights[order],
        means=(problem.centre + problem.unit * atoms.centres)[order],
        variances=atoms.variances[order, None] * problem.unit**2,
    )
