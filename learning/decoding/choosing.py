"""Choose the number of clusters: the residual against the noise floor over k."""

from typing import Final

import numpy as np

from sfumato.learning.decoding.choice import ClusterChoice
from sfumato.learning.decoding.diagnosis import compute_signal
from sfumato.learning.decoding.gaussians import Target, measure_in_wavelengths, prepare_target
from sfumato.learning.decoding.growth import cycle, expand, find_first_atom
from sfumato.learning.decoding.levenberg import Fitted, refine
from sfumato.learning.decoding.problem import DecodingProblem, Vector
from sfumato.learning.decoding.solver import Monitor

__all__ = ["choose_n_clusters"]

_N_CYCLES: Final = 6
_DEVIATIONS: Final = 3.0
_EXACT: Final = 1e-5
# Share of the signal's energy that a further cluster must explain to be worthwhile, where no number
# of clusters explains everything.
_WORTHWHILE: Final = 0.01
# The share that a fair reading may leave unexplained, or must gain.
_ROUGHLY: Final = 0.05
_GAIN: Final = 0.002
_OF_PLACES: Final = 8.0
_OF_PARAMETER: Final = 0.5


def choose_n_clusters(
    problem: DecodingProblem,
    *,
    rng: np.random.Generator,
    monitor: Monitor | None = None,
) -> ClusterChoice:
    """Fit 1, 2, ..., k round clusters, with the problem's k, and compare with the noise floor.

    Recommends the least number whose residual is at the noise floor up to chance. If there is none,
    recommends the least whose residual is within a hundredth of the signal's energy of the lowest.
    The range starts there, or where all but a twentieth of the signal is explained if that is less;
    it ends at the last number that explained more than chance would.

    Parameters
    ----------
    problem : DecodingProblem
        Its `n_clusters` is the largest number tried.
    rng
        As in `Solver.solve`.
    monitor
        Counts every step.

    Raises
    ------
    DecodingCancelledError
        The monitor reports that the caller cancelled.
    """
    problem = measure_in_wavelengths(problem)
    target = prepare_target(problem)
    with np.errstate(all="ignore"):
        fits = _fit_each(target, int(problem.n_clusters), rng, monitor or Monitor(1, None, None))
    residuals = np.array([fit.misfit for fit in fits]) / problem.n_frequencies
    # A fit of more atoms need never be worse: if one is, the search fell short, not the model.
    residuals = np.minimum.accumulate(residuals)
    counts = np.arange(1, len(residuals) + 1)
    absorbed = counts * (problem.n_dimensions + 2) / (2 * problem.n_frequencies)
    floors = problem.noise_variance * np.maximum(0.0, 1.0 - absorbed)
    return _recommend(problem, residuals, floors)


def _fit_each(
    target: Target, n_most: int, rng: np.random.Generator, monitor: Monitor
) -> list[Fitted]:
    """Fit one atom, then one more each time."""
    fitted = find_first_atom(target, rng, monitor)
    fits = [fitted]
    for n_atoms in range(2, n_most + 1):
        part = monitor.part((n_atoms - 2) / n_most, (n_atoms - 1) / n_most)
        fitted, touched = expand(target, fitted, 1, jitter=0.0, rng=rng)
        fitted = refine(
            target, fitted, n_iterations=2, tolerance=1e-2, monitor=part, chosen=touched
        )
        fitted = refine(target, fitted, n_iterations=10, tolerance=1e-3, monitor=part)
        fitted = cycle(target, fitted, _N_CYCLES, rng=rng, monitor=part)
        fits.append(refine(target, fitted, n_iterations=10, tolerance=1e-5, monitor=part))
    monitor.reach(1.0)
    return fits


def _recommend(problem: DecodingProblem, residuals: Vector, floors: Vector) -> ClusterChoice:
    signal = compute_signal(problem)
    chance = _DEVIATIONS * problem.noise_variance / np.sqrt(problem.n_frequencies)
    if signal <= chance:
        return ClusterChoice(
            residuals=residuals,
            noise_floors=floors,
            recommended=1,
            least=1,
            most=1,
            reaches_floor=True,
            statement="the sketch cannot be told from noise: it shows no clusters",
        )
    at_floor = np.flatnonzero(residuals <= floors + chance + _EXACT * signal)
    if at_floor.size:
        recommended = int(at_floor[0]) + 1
        statement = (
            f"{recommended} clusters explain all that the noise lets the sketch tell; "
            "more would fit noise"
        )
    else:
        enough = np.flatnonzero(residuals - residuals[-1] <= _WORTHWHILE * signal)
        recommended = int(enough[0]) + 1
        left = (residuals[recommended - 1] - floors[recommended - 1]) / max(signal, 1e-300)
        statement = (
            f"{recommended} clusters leave {left:.1%} of the signal unexplained, and more, up to "
            f"{len(residuals)}, hardly less: there is structure that round clusters do not show"
        )
    least, most = _find_range(problem, residuals, recommended, signal)
    if least < most:
        statement += f"; any number from {least} to {most} is a fair reading"
    return ClusterChoice(
        residuals=residuals,
        noise_floors=floors,
        recommended=recommended,
        least=least,
        most=most,
        reaches_floor=bool(at_floor.size),
        statement=statement,
    )


def _find_range(
    problem: DecodingProblem, residuals: Vector, recommended: int, signal: float
) -> tuple[int, int]:
    """Return the least and the largest number of clusters that are a fair reading."""
    rough = np.flatnonzero(residuals - residuals[-1] <= _ROUGHLY * signal)
    least = min(recommended, int(rough[0]) + 1)
    # Energy that one more atom explains of noise alone, at the best of thousands of places.
    chance = (_OF_PLACES + _OF_PARAMETER * (problem.n_dimensions + 2)) / problem.n_frequencies
    allowance = chance * problem.noise_variance + _EXACT * signal
    gained = np.flatnonzero(-np.diff(residuals) > max(allowance, _GAIN * signal))
    most = int(gained[-1]) + 2 if gained.size else 1
    return least, max(recommended, most)
