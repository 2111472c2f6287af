"""Choice of the number of clusters: the residual against the noise floor over k, and its caution.

The caution, expected SSE and stability over k, does not choose: records of clear clusters may be
stable at several numbers, and unstable at the right one. The SSE curve is for people to read; a low
agreement warns that another number, or none, may describe the records as well.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.decoding.density import Posterior
from sfumato.learning.decoding.diagnosis import compute_signal
from sfumato.learning.decoding.kmeans import assign, cluster
from sfumato.learning.decoding.mixture.gaussians import (
    Target,
    measure_in_wavelengths,
    prepare_target,
)
from sfumato.learning.decoding.mixture.growth import cycle, expand, find_first_atom
from sfumato.learning.decoding.mixture.round_descent import Fitted, refine
from sfumato.learning.decoding.problem import DecodingProblem, Vector
from sfumato.learning.decoding.solution import Caution, ClusterChoice
from sfumato.learning.decoding.solver import Monitor

__all__ = ["choose_counts", "choose_n_clusters", "compare_labels", "compute_caution"]

_BELOW: Final = 6
_ABOVE: Final = 4
_N_SAMPLES: Final = 1_500
_MOST_SAMPLES: Final = 6_000
_PER_CLUSTER: Final = 60
_N_SPLITS: Final = 3
_N_RESTARTS: Final = 2


def choose_counts(chosen: int, most: int) -> list[int]:
    """Choose the numbers of clusters to look at: around the chosen one, at most eleven."""
    return list(range(max(1, chosen - _BELOW), max(chosen, min(most, chosen + _ABOVE)) + 1))


def compute_caution(
    posterior: Posterior,
    counts: Sequence[int],
    *,
    unit: Vector,
    rng: np.random.Generator,
    monitor: Monitor,
) -> Caution:
    """Cluster samples of the posterior, and of random halves of its draws.

    Parameters
    ----------
    posterior
        The draws.
    counts
        Numbers of clusters, rising.
    unit : float64 (d,)
        Lengths in which distances are meaningful.
    rng
        Source of samples, halves and starts.
    monitor
        Polled for cancellation before every number.
    """
    size = min(_MOST_SAMPLES, max(_N_SAMPLES, _PER_CLUSTER * max(counts)))
    common = posterior.draw_samples(size, rng=rng) / unit
    whole = float(np.mean(np.sum((common - common.mean(axis=0)) ** 2, axis=1)))
    halves = [_split(posterior, size, rng) for _ in range(_N_SPLITS)]
    sses, agreements = [], []
    for count in counts:
        monitor.check()
        sses.append(_find(common, count, rng, monitor)[1] / max(whole, 1e-300))
        pairs = [
            [
                assign(common, _find(half / unit, count, rng, monitor)[0])[0]
                for half in (first, second)
            ]
            for first, second in halves
        ]
        agreements.append(
            float(np.mean([compare_labels(one, other, count) for one, other in pairs]))
        )
    return Caution(counts=tuple(counts), sses=tuple(sses), agreements=tuple(agreements))


def _split(posterior: Posterior, size: int, rng: np.random.Generator) -> tuple[Vector, Vector]:
    """Draw samples of two random halves of the draws; of all draws where there is one."""
    order = rng.permutation(posterior.n_draws)
    middle = len(order) // 2
    first, second = (order[:middle], order[middle:]) if middle else (order, order)
    return (
        posterior.keep_draws(first).draw_samples(size, rng=rng),
        posterior.keep_draws(second).draw_samples(size, rng=rng),
    )


def _find(
    points: Vector, n_clusters: int, rng: np.random.Generator, monitor: Monitor
) -> tuple[Vector, float]:
    """Return centroids of k-means and their inertia."""
    start = points[rng.choice(len(points), size=n_clusters, replace=False)]
    found = cluster(points, [start], n_restarts=_N_RESTARTS, rng=rng, monitor=monitor)
    return found.centroids, found.inertia


def compare_labels(first: NDArray[np.intp], second: NDArray[np.intp], n_labels: int) -> float:
    """Compute the adjusted Rand index of two labellings (n,) by labels below ``n_labels``.

    1 where they are the same up to names, 0 on average for unrelated ones.
    """
    table = np.bincount(first * n_labels + second, minlength=n_labels**2)
    table = table.reshape(n_labels, n_labels).astype(np.float64)
    together = float(np.sum(table * (table - 1.0)) / 2.0)
    rows, columns = (
        float(np.sum(sums * (sums - 1.0)) / 2.0) for sums in (table.sum(axis=1), table.sum(axis=0))
    )
    pairs = len(first) * (len(first) - 1.0) / 2.0
    expected = rows * columns / max(pairs, 1.0)
    most = (rows + columns) / 2.0
    return 1.0 if most <= expected else (together - expected) / (most - expected)


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
