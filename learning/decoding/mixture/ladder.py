"""A ladder of models: round atoms, a variance for each dimension, full covariances, more atoms.

A further rung is climbed only while the residual is above the noise floor, and its gain is judged
on equations held out of the fit: the PRESS statistic

    PRESS = sum_j (r_j / (1 - h_j))^2

of the 2m real equations, with h_j the leverage of equation j. To first order, r_j / (1 - h_j) is
the residual of equation j had it been held out of the fit. So a model that only fits noise loses,
however small its residual on the fitted equations.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from sfumato.learning.decoding.mixture.ellipsoid_descent import (
    Shaped,
    evaluate_shaped,
    project,
    refine_shaped,
)
from sfumato.learning.decoding.mixture.ellipsoids import (
    Ellipsoids,
    Kind,
    count_parameters,
    draw_samples,
    widen,
)
from sfumato.learning.decoding.mixture.far_search import find_far_place
from sfumato.learning.decoding.mixture.gaussians import Single, Target, compute_phases
from sfumato.learning.decoding.mixture.growth import compute_drop_costs, fit_weights, grow
from sfumato.learning.decoding.mixture.round_descent import Fitted
from sfumato.learning.decoding.problem import Vector
from sfumato.learning.decoding.solver import Monitor

__all__ = [
    "Candidate",
    "climb",
    "compute_chance_cost",
    "compute_white_variance",
    "descend",
    "draw_errors",
    "leaves_only_noise",
]

# Simulated draws of the noise, and the samples behind the draws of sampling errors.
_N_ERRORS: Final = 64
_N_SAMPLES: Final = 2000
_CHUNK: Final = 250
# The energy of K-norm noise varies more than that of Gaussian noise, because its radius is common
# to all coordinates.
_HEAVIER: Final = 1.5
# Share of the signal's energy lost to single precision and the integer features.
_EXACT: Final = 1e-6
# Chance in the residual, in standard deviations.
_CHANCE: Final = 2.0
# Noise variances that the best of thousands of places explains of noise alone; and the increase for
# each parameter fitted there.
_OF_PLACES: Final = 8.0
_OF_PARAMETER: Final = 0.5
# Largest share of parameters per equation: a model must leave equations to judge it.
_LARGEST_SHARE: Final = 0.7
# Beyond this many parameters a rung is climbed only if the one below left more than noise.
_MANY_PARAMETERS: Final = 900
# Floating-point operations that the search for more atoms may take: some seconds.
_MOST_WORK: Final = 1.5e11
# Operations that one model may take.
_LARGEST_WORK: Final = 3e11
_GROWN: Final = (1.5, 2.0, 3.0)
_N_GROWN: Final = 3
_JITTER: Final = 0.5
# Candidates that receive far atoms.
_MOST_REACHED: Final = 6
# Replaces the PRESS of a failed fit.
_WORST: Final = 1e30


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidate:
    """A fitted model.

    Parameters
    ----------
    fitted : Shaped
        The mixture.
    kind : str
        Kind of its atoms' covariances.
    press : float
        PRESS.
    floor, deviation : float
        Mean and standard deviation of |r|^2 where the model is true and noise alone is left.
    expected_press : float
        The mean of PRESS in that case.
    left : float (2m, n)
        Residuals of n simulated errors in that case.
    leverages : float64 (2m,)
        h_j of each equation.
    """

    fitted: Shaped
    kind: Kind
    press: float
    floor: float
    deviation: float
    expected_press: float
    left: Vector | Single
    leverages: Vector

    @property
    def is_at_floor(self) -> bool:
        """True where it leaves no more than noise would, up to chance."""
        return self.fitted.misfit <= _find_most(self.floor, self.deviation)

    @property
    def n_parameters(self) -> int:
        """The number of real parameters."""
        n_atoms, d = self.fitted.atoms.centres.shape
        return count_parameters(n_atoms, d, kind=self.kind)


def compute_least_variance(target: Target) -> float:
    """Compute the noise variance of a complex coordinate, at least the arithmetic's error."""
    return max(target.noise_variance, _compute_arithmetic_variance(target))


def compute_white_variance(target: Target) -> float:
    """Compute the noise variance that is independent between coordinates, bounded likewise."""
    white = target.noise_variance - target.sampling_variance
    return max(white, _compute_arithmetic_variance(target))


def _compute_arithmetic_variance(target: Target) -> float:
    return max(_EXACT * target.signal_energy / target.n_frequencies, 1e-30)


def leaves_only_noise(target: Target, fitted: Fitted, rng: np.random.Generator) -> bool:
    """Return whether a round fit leaves no more than noise would, up to chance."""
    n_parameters = count_parameters(len(fitted.atoms), target.n_dimensions, kind="round")
    m = target.n_frequencies
    most = max(0.0, m - n_parameters / 2.0) + _HEAVIER * _CHANCE * math.sqrt(m)
    # Correlated errors never leave more than independent ones would.
    if fitted.misfit > compute_least_variance(target) * most:
        return False
    shaped = evaluate_shaped(target, widen(fitted.atoms))
    projection = project(target, shaped, kind="round")
    energies = np.sum(projection.leave(draw_errors(target, shaped, rng)) ** 2, axis=0)
    return shaped.misfit <= _find_most(*_summarise(energies))


def climb(
    target: Target,
    fits: Sequence[Fitted],
    *,
    rng: np.random.Generator,
    monitor: Monitor,
) -> list[Candidate]:
    """Climb from round fits of k atoms while the residual is above the noise floor.

    Parameters
    ----------
    target : Target
        The sketch to explain.
    fits : sequence of Fitted
        Round fits, at least one; the climb starts from the best two.
    rng : numpy.random.Generator
        Randomness for the growth of more atoms.
    monitor : Monitor
        Polled for cancellation before every step.

    Returns
    -------
    list of Candidate
        By rising PRESS, at least one.
    """
    starts = _choose_starts(target, fits)
    found = [
        _judge(target, evaluate_shaped(target, widen(fit.atoms)), kind="round", rng=rng)
        for fit in starts
    ]
    n_clusters, d = len(starts[0].atoms), target.n_dimensions
    is_large = count_parameters(n_clusters, d, kind="axes") > _MANY_PARAMETERS
    if not (is_large and any(candidate.is_at_floor for candidate in found)):
        for i, start in enumerate(list(found)):
            part = monitor.part(0.3 * i / len(starts), 0.3 * (i + 1) / len(starts))
            found += _shape(target, start.fitted.atoms, rng, part)
    if not any(candidate.is_at_floor for candidate in found):
        found += _enlarge(target, found, n_clusters, rng, monitor.part(0.3, 1.0))
    if not (is_large and any(candidate.is_at_floor for candidate in found)):
        found = _reach(target, found, n_clusters, rng, monitor)
    monitor.reach(1.0)
    return sorted(found, key=lambda candidate: candidate.press)


def _reach(
    target: Target,
    found: Sequence[Candidate],
    n_clusters: int,
    rng: np.random.Generator,
    monitor: Monitor,
) -> list[Candidate]:
    """Add far atoms to the best candidates while the residual shows one and PRESS falls.

    Added to all of them, because an atom of a single candidate counts as a phantom.
    """
    reached, work = sorted(found, key=lambda candidate: candidate.press), 0.0
    for i, candidate in enumerate(reached[:_MOST_REACHED]):
        best = candidate
        kind: Kind = "full" if candidate.kind == "full" else "axes"
        for _ in range(n_clusters):
            n_atoms = len(best.fitted.atoms) + 1
            if work > _MOST_WORK or not _is_allowed(target, n_atoms, kind):
                break
            monitor.check()
            place = find_far_place(target, best.fitted)
            if place.gain <= compute_chance_cost(target, best.fitted, n_places=place.n_places):
                break
            more = descend(target, best.fitted.atoms.join(place.atom), kind, rng, monitor)
            work += _estimate_work(target, more.n_parameters)
            if more.press >= best.press:
                break
            best = more
        reached[i] = best
    return reached


def _choose_starts(target: Target, fits: Sequence[Fitted]) -> list[Fitted]:
    """Return the best round fits that are distinct optima."""
    chosen: list[Fitted] = []
    apart = 1e-3 + 0.2 * target.noise_variance / max(target.energy, 1e-30)
    for fit in sorted(fits, key=lambda fit: fit.objective):
        if not chosen or fit.objective > chosen[-1].objective * (1.0 + apart):
            chosen.append(fit)
    return chosen[: 2 if target.has_weak_noise else 4]


def _shape(
    target: Target, atoms: Ellipsoids, rng: np.random.Generator, monitor: Monitor
) -> Iterator[Candidate]:
    """Yield the fit with a variance for each dimension, and with full covariances."""
    if target.n_dimensions == 1 or not _is_allowed(target, len(atoms), "axes"):
        return
    along = descend(target, atoms, "axes", rng, monitor)
    yield along
    if _is_allowed(target, len(along.fitted.atoms), "full"):
        yield descend(target, along.fitted.atoms, "full", rng, monitor)


def _enlarge(
    target: Target,
    found: Sequence[Candidate],
    n_clusters: int,
    rng: np.random.Generator,
    monitor: Monitor,
) -> list[Candidate]:
    """Fit more atoms than clusters: a wide one for each, and mixtures grown from nothing."""
    more: list[Candidate] = []
    lowest = min(found, key=lambda candidate: candidate.press).fitted.atoms
    if _is_allowed(target, 2 * len(lowest), "axes"):
        more.append(descend(target, _pair(lowest), "axes", rng, monitor))
    sizes = [max(n_clusters + 1, math.ceil(share * n_clusters)) for share in _GROWN]
    plans = [n for _ in range(_N_GROWN) for n in sizes if _is_allowed(target, n, "axes")]
    work, children = 0.0, rng.spawn(len(plans))
    for i, (n_atoms, child) in enumerate(zip(plans, children, strict=True)):
        if work > _MOST_WORK:
            break
        part = monitor.part(i / len(plans), (i + 1) / len(plans))
        grown = grow(
            target, n_atoms, share=0.5, n_iterations=3, jitter=_JITTER, rng=child, monitor=part
        )
        more += _shape(target, widen(grown.atoms), rng, part)
        p = count_parameters(n_atoms, target.n_dimensions, kind="axes")
        work += _estimate_work(target, p)
    return more


def _pair(atoms: Ellipsoids) -> Ellipsoids:
    """Append a wide, lighter atom for each: a heavy tail."""
    return Ellipsoids(
        centres=np.concatenate([atoms.centres, atoms.centres]),
        logs=np.concatenate([atoms.logs - 0.3, atoms.logs + 0.6]),
        slants=np.zeros((2 * len(atoms), *atoms.slants.shape[1:])),
        weights=np.concatenate([0.7 * atoms.weights, 0.3 * atoms.weights]),
    )


def _is_allowed(target: Target, n_atoms: int, kind: Kind) -> bool:
    """Return whether there are enough equations and time for a model."""
    n_parameters = count_parameters(n_atoms, target.n_dimensions, kind=kind)
    is_determined = n_parameters <= _LARGEST_SHARE * 2 * target.n_informative
    return is_determined and _estimate_work(target, n_parameters) <= _LARGEST_WORK


def _estimate_work(target: Target, n_parameters: int) -> float:
    """Estimate the operations of some thirty steps, each forming the normal equations."""
    return 30.0 * 2.0 * target.n_frequencies * float(n_parameters) ** 2


def descend(
    target: Target, atoms: Ellipsoids, kind: Kind, rng: np.random.Generator, monitor: Monitor
) -> Candidate:
    """Refine, drop insignificant atoms, and refine again."""
    full = kind == "full"
    start = evaluate_shaped(target, atoms)
    fitted = refine_shaped(
        target, start, full=full, n_iterations=20, tolerance=1e-3, monitor=monitor
    )
    kept = _drop_insignificant(target, fitted)
    if len(kept.atoms) < len(fitted.atoms):
        kept = refine_shaped(
            target, kept, full=full, n_iterations=8, tolerance=1e-3, monitor=monitor
        )
    return _judge(target, kept, kind=kind, rng=rng)


def _drop_insignificant(target: Target, fitted: Shaped) -> Shaped:
    """Drop atoms that are indistinct from noise and from the model's misfit."""
    chance = compute_chance_cost(target, fitted)
    while len(fitted.atoms) > 1:
        costs = compute_drop_costs(fitted.rows, fitted.atoms.weights)
        least = int(np.argmin(costs))
        if costs[least] > chance:
            break
        left = np.delete(np.arange(len(costs)), least)
        atoms = fitted.atoms.take(left).weigh(fit_weights(target, fitted.rows[left]))
        fitted = evaluate_shaped(target, atoms)
    return fitted


def compute_chance_cost(target: Target, fitted: Shaped, *, n_places: int = 1) -> float:
    """Compute the |r|^2 that an atom made up by noise or by the model's misfit explains.

    The best of n places explains log n noise variances by chance; at least thousands are tried.
    """
    noise = max(compute_white_variance(target), fitted.misfit / target.n_frequencies)
    of_places = max(_OF_PLACES, math.log(n_places))
    return noise * (of_places + _OF_PARAMETER * (2 * target.n_dimensions + 1))


def _judge(target: Target, fitted: Shaped, *, kind: Kind, rng: np.random.Generator) -> Candidate:
    """Compare a fit with its residual if it were true: privacy and sampling noise."""
    projection = project(target, fitted, kind=kind)
    left = projection.leave(draw_errors(target, fitted, rng))
    held_out = 1.0 / (1.0 - projection.leverages)
    floor, deviation = _summarise(np.sum(left**2, axis=0))
    return Candidate(
        fitted=fitted,
        kind=kind,
        press=float(np.nan_to_num(np.sum((fitted.residual * held_out) ** 2), nan=_WORST)),
        floor=floor,
        deviation=deviation,
        expected_press=float(np.mean(np.sum((left * held_out[:, None]) ** 2, axis=0))),
        left=left.astype(np.float32),
        leverages=projection.leverages,
    )


def _summarise(energies: Vector) -> tuple[float, float]:
    """Return the floor and its standard deviation from the energies of simulated errors."""
    return float(np.mean(energies)), _HEAVIER * float(np.std(energies))


def _find_most(floor: float, deviation: float) -> float:
    """Return the largest |r|^2 that noise alone leaves, up to chance."""
    return floor + _CHANCE * deviation


def draw_errors(target: Target, fitted: Shaped, rng: np.random.Generator) -> Vector:
    """Draw errors of the 2m equations as if the mixture were true: float64 (2m, n).

    Privacy noise is independent between equations. Sampling noise is not: a mean over n records
    varies in as many directions as records differ. Random combinations of the features of samples
    represent it.
    """
    m = target.n_frequencies
    errors = _draw_white(target, rng)
    if target.sampling_variance > 0.0:
        features = _draw_features(target, fitted, rng)
        features -= features.mean(axis=0)
        # Scaled so that their mean energy matches its known value.
        energy = float(np.einsum("nm,nm->", features, features, dtype=np.float64)) / _N_SAMPLES
        scale = math.sqrt(m * target.sampling_variance / max(energy * _N_SAMPLES, 1e-30))
        chance = rng.normal(size=(_N_SAMPLES, _N_ERRORS)).astype(np.float32)
        sampled = scale * (features.T @ chance)
        if target.factors is not None:
            sampled *= np.tile(target.factors, 2)[:, None]
        errors += sampled
    return errors


def _draw_white(target: Target, rng: np.random.Generator) -> Vector:
    """Draw noise that is independent between the 2m equations: float64 (2m, n)."""
    spread: float | Vector = math.sqrt(compute_white_variance(target) / 2.0)
    if target.factors is not None and target.feature_noise is not None:
        # Sampling has one variance in all features, hence not in their weighted equations.
        sampling = np.square(target.factors, dtype=np.float64) * target.sampling_variance
        white = np.maximum(target.feature_noise - sampling, _compute_arithmetic_variance(target))
        spread = np.sqrt(np.tile(white, 2)[:, None] / 2.0)
    return spread * rng.normal(size=(2 * target.n_frequencies, _N_ERRORS))


def _draw_features(target: Target, fitted: Shaped, rng: np.random.Generator) -> Single:
    """Draw samples of the mixture, and compute [cos, sin] of their phases: float32 (n, 2m)."""
    m = target.n_frequencies
    samples = draw_samples(fitted.atoms, _N_SAMPLES, rng)
    features = np.empty((_N_SAMPLES, 2 * m), dtype=np.float32)
    for first in range(0, _N_SAMPLES, _CHUNK):
        part = slice(first, first + _CHUNK)
        phases = compute_phases(target, samples[part])
        np.cos(phases, out=features[part, :m])
        np.sin(phases, out=features[part, m:])
    return features
