"""Solutions: the answer of a solver, and its assembly from fitted mixtures."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.learning.decoding.bars import Bars
from sfumato.learning.decoding.density import GaussianMixture, Posterior
from sfumato.learning.decoding.diagnosis import (
    Diagnosis,
    compute_agreement,
    compute_noise_floor,
    diagnose,
    is_at_noise_floor,
)
from sfumato.learning.decoding.judgement import Evidence, judge_without_evidence
from sfumato.learning.decoding.problem import DecodingProblem, Vector
from sfumato.learning.decoding.verdict import Influence, Verdict

__all__ = ["Caution", "ClusterChoice", "Fit", "Solution", "assemble_solution"]


@dataclass(frozen=True, kw_only=True, eq=False)
class ClusterChoice:
    """Residual of each number of clusters, and the recommended number.

    Parameters
    ----------
    residuals : float64 (k_max,)
        Residual of the best fit of 1, 2, ..., k_max round clusters, per complex coordinate.
    noise_floors : float64 (k_max,)
        The residual that noise alone would leave.
    recommended : int
        The number of clusters to use.
    least, most : int
        Range of numbers that are a fair reading of the sketch.
    reaches_floor : bool
        Whether the recommended number explains everything except noise.
    statement : str
        The recommendation in words.
    """

    residuals: Vector
    noise_floors: Vector
    recommended: int
    least: int
    most: int
    reaches_floor: bool
    statement: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Caution:
    """Expected SSE and agreement by number of clusters.

    Parameters
    ----------
    counts : tuple of int
        Numbers of clusters, rising.
    sses : tuple of float
        Expected mean squared distance to the nearest centroid, over that to the mean; distances in
        the plan's scales.
    agreements : tuple of float
        Mean adjusted Rand index between clusters from two halves of the draws, on common samples.
    """

    counts: tuple[int, ...]
    sses: tuple[float, ...]
    agreements: tuple[float, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Solution:
    """Centroids with weights, and the trust that they deserve.

    Parameters
    ----------
    centroids : float64 (k, d)
        C, data units, inside the box, sorted by falling weight.
    weights : float64 (k,)
        a >= 0, summing to 1.
    residual : float
        ||sketch - sum_k w_k atom_k||^2 / m of the best fit of k atoms, points or round clusters,
        with the fitted weights w before they were scaled to sum to 1. Where features differ in
        noise, the mean of |.|^2 over features is by precision, here and in `noise_floor`.
    noise_floor : float
        The part of `residual` that noise alone would leave.
    at_noise_floor : bool
        Whether the residual is at the noise floor up to chance: then k atoms explain everything
        that the sketch can show.
    n_replicates : int
        Number of independent runs.
    replicate_residuals : tuple of float
        Their residuals, in the order run; the lowest was kept.
    agreement : float
        Share of the replicates that reached the same residual as the best, which is included.
    solver : str
        Name and version.
    warnings : tuple of str
        Warnings in plain words; empty if there are no doubts.
    succeeded : bool
        False if there is no usable result; centroids and weights are then finite placeholders. True
        means that the solver ran, not that the sketch held clusters: read `warnings`.
    spreads : float64 (k, d), optional
        Standard deviation of each cluster's records about its mean, from the fitted density, data
        units; None from a solver of point masses.
    mixture : GaussianMixture, optional
        A density that explains the sketch, of k atoms or more; None from a solver of point masses.
    choice : ClusterChoice, optional
        Reason for the number of clusters, if the solver chose it.
    evidence : Evidence, optional
        Evidence for the verdict; None from a solver of point masses.
    verdict : Verdict, optional
        How far to trust the answer.
    posterior : Posterior, optional
        Densities that agree with the sketch, which answer questions; None from a solver of point
        masses, and where they would be too large to keep.
    bars : Bars, optional
        Error bars of centroids and weights; None from a solver of point masses.
    caution : Caution, optional
        Expected SSE and stability around the number of clusters, if the solver chose it.
    influence : Influence, optional
        What the answer owes to a single device or part; None where their sums are not known.
    """

    centroids: Vector
    weights: Vector
    residual: float
    noise_floor: float
    at_noise_floor: bool
    n_replicates: int
    replicate_residuals: tuple[float, ...]
    agreement: float
    solver: str
    warnings: tuple[str, ...]
    succeeded: bool
    spreads: Vector | None = None
    mixture: GaussianMixture | None = None
    choice: ClusterChoice | None = None
    evidence: Evidence | None = None
    verdict: Verdict | None = None
    posterior: Posterior | None = None
    bars: Bars | None = None
    caution: Caution | None = None
    influence: Influence | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Fit:
    """One replicate's mixture in standardised coordinates.

    Parameters
    ----------
    points : float64 (K, d)
        V, unit lengths, in the box.
    weights : float64 (K,)
        >= 0, not scaled.
    misfit : float
        ||z - sum_k w_k A(v_k)||^2.
    n_failures : int
        Steps in which an optimiser failed.
    """

    points: Vector
    weights: Vector
    misfit: float
    n_failures: int


def assemble_solution(problem: DecodingProblem, fits: Sequence[Fit], *, solver: str) -> Solution:
    """Keep the fit of lowest misfit and convert it to data units.

    Parameters
    ----------
    problem : DecodingProblem
        The solved problem.
    fits : sequence of Fit
        One for each replicate, at least one, k atoms each.
    solver : str
        Name and version.

    Returns
    -------
    Solution
        Finite, in the box, sorted, with weights that sum to 1. The first of equal fits is kept.
    """
    residuals = np.array([fit.misfit for fit in fits]) / problem.n_frequencies
    best = fits[int(np.argmin(np.nan_to_num(residuals, nan=np.inf)))]
    weights, has_mass = _normalise(best.weights)
    order = np.argsort(-weights, kind="stable")
    centroids = np.clip(problem.centre + problem.unit * best.points, problem.lower, problem.upper)
    residual = best.misfit / problem.n_frequencies
    found = Diagnosis(
        atom="points",
        n_parameters=problem.n_clusters * (problem.n_dimensions + 1),
        residual=residual,
        replicate_residuals=tuple(residuals.tolist()),
        fitted_weights=best.weights,
        centres=centroids,
        centroids=centroids,
        shares=best.weights,
        n_failures=sum(fit.n_failures for fit in fits),
    )
    return Solution(
        centroids=centroids[order],
        weights=weights[order],
        residual=residual,
        noise_floor=compute_noise_floor(problem, found),
        at_noise_floor=is_at_noise_floor(problem, found),
        n_replicates=len(fits),
        replicate_residuals=found.replicate_residuals,
        agreement=compute_agreement(problem, found),
        solver=solver,
        warnings=diagnose(problem, found),
        succeeded=bool(has_mass and np.isfinite(residual)),
        verdict=judge_without_evidence(solver),
    )


def _normalise(weights: Vector) -> tuple[Vector, bool]:
    """Scale weights to sum to 1; equal weights and False if there is no mass."""
    total = float(np.sum(weights))
    if not (np.isfinite(total) and total > 0.0):
        return np.full(len(weights), 1.0 / len(weights)), False
    return weights / total, True
