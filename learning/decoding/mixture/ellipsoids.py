"""Gaussian atoms with their own covariances: the upper rungs of the ladder.

The sketch of a Gaussian of centre c and covariance S = B B', B lower triangular, is

    E(w) = exp(i w.c - |B' w|^2 / 2)

Row i of B is exp(l_i) (n_i1, ..., n_i(i-1), 1), so that S stays positive in every step. Without n
an atom has one variance for each dimension; with n, a full covariance.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.decoding.mixture.gaussians import Atoms, Single, Target, compute_phases
from sfumato.learning.decoding.problem import Vector

__all__ = ["Ellipsoids", "Kind", "compute_rows", "count_parameters", "draw_samples", "widen"]

Kind = Literal["round", "axes", "full"]
"""Shape of an atom's covariance: round, along the axes, or any."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Ellipsoids:
    """A mixture of K Gaussians.

    Parameters
    ----------
    centres : float64 (K, d)
        Unit lengths.
    logs : float64 (K, d)
        l, logarithms of lengths.
    slants : float64 (K, d, d)
        n, strictly lower triangular; all zero for atoms along the axes.
    weights : float64 (K,)
        a >= 0, not scaled.
    """

    centres: Vector
    logs: Vector
    slants: Vector
    weights: Vector

    def __len__(self) -> int:
        """Return K."""
        return len(self.weights)

    @property
    def roots(self) -> Vector:
        """The matrices B: float64 (K, d, d)."""
        unit = self.slants + np.eye(self.centres.shape[1])
        return np.exp(self.logs)[:, :, None] * unit

    @property
    def variances(self) -> Vector:
        """The variances along the axes, diag S: float64 (K, d)."""
        variances: Vector = np.sum(self.roots**2, axis=2)
        return variances

    def weigh(self, weights: Vector) -> "Ellipsoids":
        """Return the same atoms with other weights."""
        return Ellipsoids(
            centres=self.centres, logs=self.logs, slants=self.slants, weights=np.asarray(weights)
        )

    def take(self, chosen: NDArray[np.intp]) -> "Ellipsoids":
        """Return the chosen atoms."""
        return Ellipsoids(
            centres=self.centres[chosen],
            logs=self.logs[chosen],
            slants=self.slants[chosen],
            weights=self.weights[chosen],
        )

    def join(self, others: "Ellipsoids") -> "Ellipsoids":
        """Return these atoms followed by the others."""
        return Ellipsoids(
            centres=np.concatenate([self.centres, others.centres]),
            logs=np.concatenate([self.logs, others.logs]),
            slants=np.concatenate([self.slants, others.slants]),
            weights=np.concatenate([self.weights, others.weights]),
        )


def count_parameters(n_atoms: int, n_dimensions: int, *, kind: Kind) -> int:
    """Count the real parameters of a mixture: centres, covariances and weights."""
    d = n_dimensions
    of_covariance = {"round": 1, "axes": d, "full": d * (d + 1) // 2}[kind]
    return n_atoms * (d + of_covariance + 1)


def widen(atoms: Atoms) -> Ellipsoids:
    """Return round atoms as ellipsoids."""
    n_atoms, d = atoms.centres.shape
    return Ellipsoids(
        centres=atoms.centres,
        logs=np.repeat(atoms.log_variances[:, None] / 2.0, d, axis=1),
        slants=np.zeros((n_atoms, d, d)),
        weights=atoms.weights,
    )


def compute_rows(target: Target, atoms: Ellipsoids) -> Single:
    """Compute the sketches of the atoms of weight one: float32 (K, 2m)."""
    phases = compute_phases(target, atoms.centres)
    turned = np.matmul(np.swapaxes(atoms.roots, 1, 2).astype(np.float32), target.frequencies)
    envelope = np.exp(-0.5 * np.einsum("kim,kim->km", turned, turned))
    target.apply_factors(envelope)
    m = target.n_frequencies
    rows = np.empty((len(atoms), 2 * m), dtype=np.float32)
    np.multiply(envelope, np.cos(phases), out=rows[:, :m])
    np.multiply(envelope, np.sin(phases), out=rows[:, m:])
    return rows


def draw_samples(atoms: Ellipsoids, n_samples: int, rng: np.random.Generator) -> Vector:
    """Draw samples of a mixture, atom by atom: float64 (n, d)."""
    total = float(np.sum(atoms.weights))
    n_atoms = len(atoms)
    weights = atoms.weights / total if total > 0.0 else np.full(n_atoms, 1.0 / n_atoms)
    chosen = np.repeat(np.arange(n_atoms), rng.multinomial(n_samples, weights))
    chance = rng.normal(size=(n_samples, atoms.centres.shape[1]))
    samples: Vector = atoms.centres[chosen] + np.einsum("nij,nj->ni", atoms.roots[chosen], chance)
    return samples
