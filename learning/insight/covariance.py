"""Covariance of the features of one record under a mixture of Gaussians, in closed form.

With ``phi(w) = E exp(i w.(x - centre))`` and the stacked feature ``[cos; sin]`` of the phases,

    M = phi(w_j - w_l),  P = phi(w_j + w_l)
    Cov[cos_j, cos_l] = Re(M + P) / 2 - Re phi_j Re phi_l
    Cov[sin_j, sin_l] = Re(M - P) / 2 - Im phi_j Im phi_l
    Cov[cos_j, sin_l] = Im(P - M) / 2 - Re phi_j Im phi_l
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.decoding.density import GaussianMixture
from sfumato.shared.errors import DecodingError

__all__ = [
    "MOST_FREQUENCIES",
    "Density",
    "compute_atoms",
    "compute_covariance",
    "pool_densities",
    "stack",
    "too_many_frequencies",
]

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]

MOST_FREQUENCIES: Final = 2000
"""Beyond this the matrix and its factor would take half a gigabyte."""
_LEAST_WEIGHT = 1e-7


@dataclass(frozen=True, kw_only=True, eq=False)
class Density:
    """A mixture of Gaussians with any covariances, data units.

    Sampling errors need them: with densities along the axes alone, the directed statistic told
    weather apart from itself two to three times as often as stated where sampling dominates.

    Parameters
    ----------
    weights
        Shape ``(K,)``, >= 0, summing to 1.
    means, covariances
        Shapes ``(K, d)`` and ``(K, d, d)``.
    """

    weights: Floats
    means: Floats
    covariances: Floats

    @classmethod
    def of(cls, mixture: GaussianMixture) -> Density:
        """Return a mixture along the axes as a density."""
        covariances = mixture.variances[:, :, None] * np.eye(mixture.n_dimensions)
        return cls(weights=mixture.weights, means=mixture.means, covariances=covariances)

    @property
    def n_dimensions(self) -> int:
        """The number d of dimensions."""
        return int(self.means.shape[1])

    def draw_samples(self, n: int, *, rng: np.random.Generator) -> Floats:
        """Draw records: shape ``(n, d)``, in no order of atoms."""
        chosen = rng.choice(len(self.weights), size=n, p=self.weights / np.sum(self.weights))
        values, vectors = np.linalg.eigh(self.covariances)
        roots = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
        chance = rng.standard_normal((n, self.n_dimensions))
        samples: Floats = self.means[chosen] + np.einsum("nij,nj->ni", roots[chosen], chance)
        return samples


def pool_densities(draws: Sequence[tuple[float, Density]]) -> Density:
    """Return the share-weighted mean of densities: one mixture of all their atoms.

    Parameters
    ----------
    draws
        Shares, at least one positive, and densities over the same dimensions.

    Raises
    ------
    DecodingError
        No share is positive.
    """
    total = sum(share for share, _ in draws)
    if not total > 0.0:
        raise DecodingError("must have a positive share", field="draws", fix="give a posterior")
    weights = np.concatenate([share / total * density.weights for share, density in draws])
    kept = weights > _LEAST_WEIGHT * np.max(weights)
    return Density(
        weights=weights[kept] / np.sum(weights[kept]),
        means=np.concatenate([density.means for _, density in draws])[kept],
        covariances=np.concatenate([density.covariances for _, density in draws])[kept],
    )


def compute_atoms(density: Density, frequencies: Floats, centre: Floats) -> Complexes:
    """Compute the expected features of each atom: shape ``(K, m)``; ``phi`` is their mean.

    Parameters
    ----------
    density
        Data units.
    frequencies, centre
        Omega, shape ``(d, m)``, and the origin of the phases, shape ``(d,)``; data units.
    """
    phases = (density.means - centre) @ frequencies
    atoms: Complexes = np.exp(1j * phases - _halve(density, frequencies))
    return atoms


def _halve(density: Density, frequencies: Floats) -> Floats:
    """Return ``w' V w / 2`` of each atom: shape ``(K, m)``."""
    halves: Floats = 0.5 * np.sum((density.covariances @ frequencies) * frequencies, axis=1)
    return halves


def stack(features: NDArray[np.complexfloating]) -> Floats:
    """Stack complex features, shape ``(..., m)``, to real ones, shape ``(..., 2 m)``."""
    return np.concatenate([features.real, features.imag], axis=-1).astype(np.float64)


def compute_covariance(
    density: Density,
    frequencies: Floats,
    centre: Floats,
    *,
    block_of: NDArray[np.int64] | None = None,
) -> Floats:
    """Compute the covariance of one record's stacked features: shape ``(2 m, 2 m)``.

    Parameters
    ----------
    density, frequencies, centre
        As in :func:`compute_atoms`.
    block_of
        The block of each feature, shape ``(m,)``, where a sketch carries one block: features of
        different blocks come from different records, so that their covariance is 0.

    Raises
    ------
    DecodingError
        There are more frequencies than the matrix is computed for.
    """
    m = frequencies.shape[1]
    if m > MOST_FREQUENCIES:
        raise too_many_frequencies(m)
    sums, differences = _add_pairs(density, frequencies, centre)
    phi = density.weights @ compute_atoms(density, frequencies, centre)
    covariance = np.empty((2 * m, 2 * m))
    covariance[:m, :m] = (differences + sums).real / 2 - np.outer(phi.real, phi.real)
    covariance[m:, m:] = (differences - sums).real / 2 - np.outer(phi.imag, phi.imag)
    covariance[:m, m:] = (sums - differences).imag / 2 - np.outer(phi.real, phi.imag)
    covariance[m:, :m] = covariance[:m, m:].T
    # Rounding in single precision is not symmetric.
    covariance = (covariance + covariance.T) / 2.0
    if block_of is not None:
        both = np.tile(block_of, 2)
        covariance[both[:, None] != both] = 0.0
    return covariance


def too_many_frequencies(m: int) -> DecodingError:
    """Return the error of a plan whose covariance is too large."""
    return DecodingError(
        f"must be at most {MOST_FREQUENCIES} for this and is {m}",
        field="n_frequencies",
        fix="compare studies whose plans have fewer frequencies",
    )


def _add_pairs(
    density: Density, frequencies: Floats, centre: Floats
) -> tuple[Complexes, Complexes]:
    """Return ``phi(w_j + w_l)`` and ``phi(w_j - w_l)``: shapes ``(m, m)``.

    Single precision: errors of 1e-7 are far below those of any fitted density, and exponentials of
    all pairs for each atom are the whole cost.
    """
    m = frequencies.shape[1]
    sums, differences = np.zeros((2, m, m), dtype=np.complex64)
    phases = (density.means - centre) @ frequencies
    turns = np.exp(1j * phases).astype(np.complex64)
    halves = _halve(density, frequencies).astype(np.float32)
    single = frequencies.astype(np.float32)
    for weight, turn, half, covariance in zip(
        density.weights, turns, halves, density.covariances, strict=True
    ):
        common = half[:, None] + half
        products = single.T @ (covariance.astype(np.float32) @ single)
        heavy = np.float32(weight) * turn[:, None]
        sums += np.exp(-common - products) * (heavy * turn)
        differences += np.exp(products - common) * (heavy * turn.conj())
    return sums.astype(np.complex128), differences.astype(np.complex128)
