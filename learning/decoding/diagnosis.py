"""Noise floor and warnings of an answer, for any solver.

All limits apply to quantities that a reader can check from the solution and the problem. They
change no result.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.decoding.problem import DecodingProblem, Vector

__all__ = [
    "Diagnosis",
    "compute_agreement",
    "compute_noise_floor",
    "compute_signal",
    "diagnose",
    "is_at_noise_floor",
]

# The mean of m squared moduli of noise has relative deviation 1/sqrt(m) (Gaussian): up to three of
# them count as chance.
_DEVIATIONS: Final = 3.0
# Share of the signal's energy left unexplained beyond the floor. Chosen by eye on simulated round
# clusters: with (d, k) = (2, 10) answers near k-means left up to 0.04 and poor ones 0.03 to 0.3;
# with (10, 10) poor ones left only 0.02 to 0.06. So the warning detects gross misfits and misses
# others; its absence proves nothing.
_LARGEST_MISFIT: Final = 0.06
# Share of the signal's energy that a perfect fit leaves.
_EXACT: Final = 1e-5
# Weights below this share of an equal share count as zero.
_SMALLEST_SHARE: Final = 1e-3
# Point masses explain spread clusters with a total weight below 1, but a total this far off has
# another cause.
_PLAUSIBLE_TOTALS: Final = (0.5, 1.25)
# Replicates whose residual beyond the floor is within this share of the best agree with it.
_AGREEMENT: Final = 0.1


@dataclass(frozen=True, kw_only=True, eq=False)
class Diagnosis:
    """Findings of a solver, the input of the warnings.

    Parameters
    ----------
    atom : str
        The atoms of the fit, in the plural: "points" or "round clusters".
    n_parameters : int
        Real parameters of the fit.
    residual : float
        Residual of the kept fit, per complex coordinate.
    replicate_residuals : tuple of float
        Residuals of all fits.
    fitted_weights : float64 (k,)
        Weights of the fit's atoms, before scaling.
    centres : float64 (k, d)
        Centres of the fit's atoms, data units.
    centroids : float64 (k, d)
        The answer's centroids, data units.
    shares : float64 (k,)
        Weights of the answer's centroids; they sum to 1 or to 0.
    n_failures : int
        Steps in which an optimiser failed.
    is_judged : bool
        Whether a verdict rates the fit to the sketch; otherwise warnings must.
    """

    atom: str
    n_parameters: int
    residual: float
    replicate_residuals: tuple[float, ...]
    fitted_weights: Vector
    centres: Vector
    centroids: Vector
    shares: Vector
    n_failures: int
    is_judged: bool = False


def compute_noise_floor(problem: DecodingProblem, found: Diagnosis) -> float:
    """Compute the residual that noise alone would leave.

        floor = noise_variance max(0, 1 - p / (2 m))

    because a fit of p real parameters to 2m equations absorbs the share p / (2m) of the noise.
    """
    left = 1.0 - found.n_parameters / (2 * problem.n_frequencies)
    return float(problem.noise_variance * max(0.0, left))


def is_at_noise_floor(problem: DecodingProblem, found: Diagnosis) -> bool:
    """Return whether the residual is at the noise floor up to chance and rounding."""
    allowance = _compute_chance(problem) + _EXACT * compute_signal(problem)
    return bool(found.residual <= compute_noise_floor(problem, found) + allowance)


def compute_agreement(problem: DecodingProblem, found: Diagnosis) -> float:
    """Compute the share of the replicates that reached the lowest residual: (0, 1]."""
    excess = np.array(found.replicate_residuals) - min(found.replicate_residuals)
    scale = max(found.residual - compute_noise_floor(problem, found), 0.0)
    scale += 1e-6 * compute_signal(problem)
    # A difference below the share of noise in one coordinate of m is the same answer.
    tolerance = _AGREEMENT * scale + problem.noise_variance / problem.n_frequencies
    return float(np.mean(excess <= tolerance))


def _compute_chance(problem: DecodingProblem) -> float:
    """Compute the chance deviation of the noise's mean energy from its expectation."""
    return _DEVIATIONS * problem.noise_variance / math.sqrt(problem.n_frequencies)


def compute_signal(problem: DecodingProblem) -> float:
    """Estimate the mean of |z_j|^2 without noise: max(0, mean |s_j|^2 - noise_variance)."""
    return max(0.0, float(np.mean(np.abs(problem.sketch) ** 2)) - problem.noise_variance)


def diagnose(problem: DecodingProblem, found: Diagnosis) -> tuple[str, ...]:
    """List in plain words the doubts about an answer.

    Parameters
    ----------
    problem : DecodingProblem
        The solved problem.
    found : Diagnosis
        The findings.

    Returns
    -------
    tuple of str
        Gravest first; empty if there are no doubts.
    """
    candidates = (
        _warn_no_signal(problem),
        _warn_misfit(problem, found),
        _warn_empty(found),
        _warn_total(found),
        _warn_replicates(problem, found),
        _warn_edge(problem, found),
        _warn_outside(problem, found),
        _warn_failures(found),
    )
    return tuple(text for text in candidates if text is not None)


def _warn_no_signal(problem: DecodingProblem) -> str | None:
    if not _is_noise_alone(problem):
        return None
    return (
        "the sketch cannot be told from noise: the centroids mean nothing; more records or a "
        "larger epsilon help"
    )


def _is_noise_alone(problem: DecodingProblem) -> bool:
    return compute_signal(problem) <= _compute_chance(problem)


def _warn_misfit(problem: DecodingProblem, found: Diagnosis) -> str | None:
    if found.is_judged:
        return None
    floor = compute_noise_floor(problem, found)
    allowance = _compute_chance(problem) + _LARGEST_MISFIT * compute_signal(problem)
    if found.residual <= floor + allowance:
        return None
    return (
        f"the residual {found.residual:.3g} is far above the noise floor {floor:.3g}: "
        f"{problem.n_clusters} {found.atom} do not explain the sketch; try more clusters, more "
        "replicates or a larger scale"
    )


def _warn_empty(found: Diagnosis) -> str | None:
    n_clusters = len(found.shares)
    n_full = int(np.sum(found.shares > _SMALLEST_SHARE * np.sum(found.shares) / n_clusters))
    if n_full == n_clusters:
        return None
    return (
        f"only {n_full} of {n_clusters} centroids have weight: the others are place-holders; "
        "try fewer clusters"
    )


def _warn_total(found: Diagnosis) -> str | None:
    total = float(np.sum(found.fitted_weights))
    if _PLAUSIBLE_TOTALS[0] <= total <= _PLAUSIBLE_TOTALS[1]:
        return None
    # A record without a value counts as one, and adds nothing to the sum.
    reason = "records without a value were left out, or " if total < 1.0 else ""
    return (
        f"the fitted weights summed to {total:.3g} before scaling, not about 1: {reason}"
        "the weights are doubtful"
    )


def _warn_replicates(problem: DecodingProblem, found: Diagnosis) -> str | None:
    n_replicates = len(found.replicate_residuals)
    if (
        found.is_judged
        or n_replicates < 2
        or compute_agreement(problem, found) * n_replicates > 1.5
    ):
        return None
    return (
        f"only one of {n_replicates} replicates reached the lowest residual: more replicates may "
        "find a better answer"
    )


def _warn_edge(problem: DecodingProblem, found: Diagnosis) -> str | None:
    width = 1e-6 * (problem.upper - problem.lower)
    is_beyond = _find_beyond(problem, found.centres, problem.lower + width, problem.upper - width)
    n_edge = int(np.sum(is_beyond & (found.fitted_weights > 0.0)))
    if n_edge == 0:
        return None
    # Where the density has more parts than the answer, they are none of its clusters.
    atom = found.atom if len(found.centres) <= problem.n_clusters else "parts of the density"
    return (
        f"{n_edge} of the {atom} {_lie(n_edge)} on the edge of the plan's box: its bounds "
        "may be too narrow or the fit poor"
    )


def _warn_outside(problem: DecodingProblem, found: Diagnosis) -> str | None:
    box = problem.search_box
    if box is None:
        return None
    is_beyond = _find_beyond(problem, found.centroids, box.lower, box.upper)
    n_outside = int(np.sum(is_beyond & (found.shares > 0.0)))
    if n_outside == 0:
        return None
    return (
        f"{n_outside} of the centroids {_lie(n_outside)} outside the search box: there may be "
        "more; decode with a wider search box"
    )


def _find_beyond(
    problem: DecodingProblem, points: Vector, lower: Vector, upper: Vector
) -> NDArray[np.bool_]:
    """Return the points at or beyond a bound; all records of a level lie at one of its ends."""
    is_beyond = (points <= lower) | (points >= upper)
    if problem.is_level is not None:
        is_beyond &= ~problem.is_level
    found: NDArray[np.bool_] = np.any(is_beyond, axis=1)
    return found


def _lie(number: int) -> str:
    return "lies" if number == 1 else "lie"


def _warn_failures(found: Diagnosis) -> str | None:
    if found.n_failures == 0:
        return None
    return f"the optimiser failed in {found.n_failures} steps, which were made without it"
