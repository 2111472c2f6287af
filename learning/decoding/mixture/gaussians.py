"""Round Gaussian atoms in standardised coordinates: their sketches and the Jacobian.

The sketch of a Gaussian of centre c and variance s, the same in all d directions, is

    E(w) = exp(i w.c - s |w|^2 / 2)

A point mass is the limit s = 0. Complex vectors are stacked to real ones of length 2m, [Re; Im].
Vectors of length m are in single precision, which is twice as fast; it suffices because every phase
is first reduced by whole turns in double precision.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.decoding.equations import (
    compute_quantile,
    get_factors,
    standardise,
    weigh_equations,
)
from sfumato.learning.decoding.problem import Box, DecodingProblem, Vector

__all__ = [
    "Atoms",
    "Single",
    "Target",
    "compute_envelopes",
    "compute_gaussians",
    "compute_jacobian",
    "compute_misfit_of",
    "compute_residual",
    "compute_unit_atoms",
    "measure_in_wavelengths",
    "prepare_target",
]

Single = NDArray[np.float32]

# A variance s only matters where s |w|^2 is of order one. An atom smaller than this at the median
# frequency is a point mass to the sketch; trials with 10 and 30 times as much were ruinous for
# narrow clusters.
_LEAST_TURN: Final = 0.01
_LEAST_SQUARE: Final = 1e-30
# Below this share of the signal, chance fluctuations of the noise's energy do not matter.
_WEAK: Final = 1e-4
# Weights are shares; this bound only keeps a fit to noise finite.
LARGEST_WEIGHT: Final = 8.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Target:
    """The sketch to explain, in the units of `sfumato.learning.decoding.points.atoms`.

    Parameters
    ----------
    sketch : float32 (2m,)
        z, [Re; Im].
    turns : float64 (d, m)
        W / (2 pi), turns per unit length.
    frequencies : float32 (d, m)
        W, radians per unit length.
    squares : float32 (m,)
        |w_j|^2.
    lower, upper : float64 (d,)
        The plan's box: the centres of atoms and all records lie in it.
    search_box : Box
        The search box: random starts lie in it, and no atom is wider.
    log_variance_bounds : tuple of float
        Least and largest L = ln s.
    noise_variance : float
        Noise variance per complex coordinate.
    sampling_variance : float
        The part of it due to the sampling of records.
    factors : float32 (m,), optional
        omega of `sfumato.learning.decoding.equations`: sketch and noise are those of the weighted
        equations, and so are all rows. None stands for ones.
    feature_noise : float64 (m,), optional
        Noise variance of each weighted equation; None stands for equal ones.
    """

    sketch: Single
    turns: Vector
    frequencies: Single
    squares: Single
    lower: Vector
    upper: Vector
    search_box: Box
    log_variance_bounds: tuple[float, float]
    noise_variance: float
    sampling_variance: float = 0.0
    factors: Single | None = None
    feature_noise: Vector | None = None

    @property
    def n_dimensions(self) -> int:
        """The number d of dimensions."""
        return int(self.turns.shape[0])

    @property
    def n_frequencies(self) -> int:
        """The number m of complex coordinates."""
        return int(self.turns.shape[1])

    def shorten(self, n_frequencies: int) -> "Target":
        """Return the same target with only the first frequencies, or those of least noise."""
        m = self.n_frequencies
        chosen: slice | NDArray[np.intp] = slice(n_frequencies)
        if self.factors is not None:
            chosen = np.sort(np.argsort(-self.factors, kind="stable")[:n_frequencies])
        return replace(
            self,
            sketch=np.concatenate([self.sketch[:m][chosen], self.sketch[m:][chosen]]),
            turns=np.ascontiguousarray(self.turns[:, chosen]),
            frequencies=np.ascontiguousarray(self.frequencies[:, chosen]),
            squares=self.squares[chosen],
            factors=None if self.factors is None else self.factors[chosen],
            feature_noise=None if self.feature_noise is None else self.feature_noise[chosen],
        )

    def apply_factors(self, rows: Single) -> None:
        """Multiply rows of one number a feature, (..., m), by omega in place."""
        if self.factors is not None:
            rows *= self.factors

    @property
    def n_informative(self) -> float:
        """The number of features that count: (sum_j omega_j)^2 / m, at most m."""
        if self.factors is None:
            return self.n_frequencies
        return float(np.sum(self.factors, dtype=np.float64)) ** 2 / self.n_frequencies

    @property
    def energy(self) -> float:
        """The energy |z|^2."""
        return float(np.sum(np.square(self.sketch, dtype=np.float64)))

    @property
    def signal_energy(self) -> float:
        """Estimate of |z|^2 without noise."""
        return max(0.0, self.energy - self.n_frequencies * self.noise_variance)

    @cached_property
    def has_weak_noise(self) -> bool:
        """True where chance in the noise's energy is small compared with the signal."""
        chance = self.noise_variance * math.sqrt(self.n_frequencies)
        return chance <= _WEAK * self.signal_energy


@dataclass(frozen=True, kw_only=True, eq=False)
class Atoms:
    """A mixture of K atoms.

    Parameters
    ----------
    centres : float64 (K, d)
        C, unit lengths.
    log_variances : float64 (K,)
        L = ln s, s in squared unit lengths.
    weights : float64 (K,)
        a >= 0, not scaled.
    """

    centres: Vector
    log_variances: Vector
    weights: Vector

    def __len__(self) -> int:
        """Return K."""
        return len(self.weights)

    @property
    def variances(self) -> Vector:
        """The variances s."""
        return np.exp(self.log_variances)

    def take(self, chosen: NDArray[np.intp]) -> "Atoms":
        """Return the chosen atoms."""
        return Atoms(
            centres=self.centres[chosen],
            log_variances=self.log_variances[chosen],
            weights=self.weights[chosen],
        )

    def join(self, other: "Atoms") -> "Atoms":
        """Return these atoms followed by the others."""
        return Atoms(
            centres=np.concatenate([self.centres, other.centres]),
            log_variances=np.concatenate([self.log_variances, other.log_variances]),
            weights=np.concatenate([self.weights, other.weights]),
        )

    def weigh(self, weights: Vector) -> "Atoms":
        """Return the same atoms with other weights."""
        return Atoms(
            centres=self.centres, log_variances=self.log_variances, weights=np.asarray(weights)
        )


def measure_in_wavelengths(problem: DecodingProblem) -> DecodingProblem:
    """Weigh the equations, and choose a unit in which the median frequency is 1 rad.

    The ratios between the dimensions' units stay. No unit, however large or small, then brings the
    numbers near the limits of single precision.
    """
    problem = weigh_equations(problem)
    lengths = np.linalg.norm(problem.frequencies * problem.unit[:, None], axis=0)
    typical = float(compute_quantile(lengths, 0.5, get_factors(problem)))
    if not (np.isfinite(typical) and typical > 0.0):
        return problem
    return replace(problem, unit=problem.unit / typical)


def prepare_target(problem: DecodingProblem) -> Target:
    """Convert a problem to standardised coordinates, weighted equations and two precisions."""
    problem = weigh_equations(problem)
    standard = standardise(problem)
    squares = np.sum(standard.frequencies**2, axis=0)
    width = float(np.max(standard.search_box.upper - standard.search_box.lower))
    typical = max(float(compute_quantile(squares, 0.5, standard.factors)), _LEAST_SQUARE)
    largest = math.log(width**2 / 4.0)
    return Target(
        sketch=standard.target.astype(np.float32),
        turns=standard.frequencies / (2.0 * np.pi),
        frequencies=standard.frequencies.astype(np.float32),
        squares=squares.astype(np.float32),
        lower=standard.lower,
        upper=standard.upper,
        search_box=standard.search_box,
        # In a box too small for the frequencies the bounds would cross.
        log_variance_bounds=(min(math.log(_LEAST_TURN / typical), largest - 1.0), largest),
        noise_variance=float(problem.noise_variance),
        sampling_variance=min(float(problem.sampling_variance), float(problem.noise_variance)),
        factors=None if standard.factors is None else standard.factors.astype(np.float32),
        feature_noise=problem.feature_noise,
    )


def compute_phases(target: Target, centres: Vector) -> Single:
    """Compute w.c reduced to [-pi, pi], float32 (K, m)."""
    turns = centres @ target.turns
    turns -= np.rint(turns)
    phases: Single = turns.astype(np.float32)
    phases *= np.float32(2.0 * np.pi)
    return phases


def compute_envelopes(target: Target, variances: Vector) -> Single:
    """Compute omega exp(-s |w|^2 / 2), float32 (K, m)."""
    rates: Single = np.float32(-0.5) * variances.astype(np.float32)
    envelopes: Single = np.exp(rates[:, None] * target.squares)
    target.apply_factors(envelopes)
    return envelopes


def compute_gaussians(target: Target, centres: Vector, log_variances: Vector) -> Single:
    """Compute the sketches of several atoms of weight one.

    Returns
    -------
    float32 (K, 2m)
        Rows E_k = omega exp(i w.c_k - s_k |w|^2 / 2), stacked.
    """
    phases = compute_phases(target, centres)
    envelope = compute_envelopes(target, np.exp(log_variances))
    m = target.n_frequencies
    rows = np.empty((len(centres), 2 * m), dtype=np.float32)
    np.multiply(envelope, np.cos(phases), out=rows[:, :m])
    np.multiply(envelope, np.sin(phases), out=rows[:, m:])
    return rows


def compute_unit_atoms(target: Target, atoms: Atoms) -> Single:
    """Compute the sketches of the atoms, each with weight one: float32 (K, 2m)."""
    return compute_gaussians(target, atoms.centres, atoms.log_variances)


def compute_residual(target: Target, rows: Single, weights: Vector) -> Single:
    """Compute r = z - sum_k a_k E_k, float32 (2m,)."""
    residual: Single = target.sketch - weights.astype(np.float32) @ rows
    return residual


def compute_misfit_of(target: Target, atoms: Atoms) -> float:
    """Compute |z - sum_k a_k E_k|^2."""
    residual = compute_residual(target, compute_unit_atoms(target, atoms), atoms.weights)
    return float(np.sum(np.square(residual, dtype=np.float64)))


def compute_jacobian(
    target: Target, atoms: Atoms, rows: Single, chosen: NDArray[np.intp]
) -> Single:
    """Compute the derivatives of sum_k a_k E_k, one parameter a row.

        d/dc_k = a_k w i E_k,   d/dL_k = -a_k s_k |w|^2 E_k / 2,   d/da_k = E_k

    Parameters
    ----------
    target : Target
        Frequencies.
    atoms : Atoms
        K atoms.
    rows : float32 (K, 2m)
        Their `compute_unit_atoms`.
    chosen : intp (q,)
        Atoms whose centre and variance are free; the weights of all are.

    Returns
    -------
    float32 (q d + q + K, 2m)
        Rows in the order centres, log-variances, weights.
    """
    q, d, m = len(chosen), target.n_dimensions, target.n_frequencies
    jacobian = np.empty((q * (d + 1) + len(atoms), 2 * m), dtype=np.float32)
    weights = atoms.weights[chosen].astype(np.float32)[:, None]
    weighted = weights * rows[chosen]
    by_centre = jacobian[: q * d].reshape(q, d, 2 * m)
    np.multiply(-weighted[:, None, m:], target.frequencies, out=by_centre[:, :, :m])
    np.multiply(weighted[:, None, :m], target.frequencies, out=by_centre[:, :, m:])
    slope = np.concatenate([target.squares, target.squares]) * np.float32(-0.5)
    variances = atoms.variances[chosen].astype(np.float32)[:, None]
    np.multiply(weighted * variances, slope, out=jacobian[q * d : q * (d + 1)])
    jacobian[q * (d + 1) :] = rows
    return jacobian
