"""The posterior of a decode: densities that agree with the sketch, with their shares.

It is what a sketch says about its records beyond centroids: every question on the density is
answered by the mean over these densities, and its error bar comes from their spread.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.decoding.problem import Vector
from sfumato.shared.errors import DecodingError

__all__ = ["Posterior"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Posterior:
    """Draws of a mixture of Gaussians, with the public box.

        p(x) = sum_j s_j sum_k a_jk N(x; mu_jk, B_jk B_jk')

    The atoms of all draws stand behind one another. Records beyond the box were clipped, so mass
    beyond a bound stands on the bound.

    Parameters
    ----------
    shares : float64 (n,)
        s, >= 0, summing to 1.
    draw_of : intp (K,)
        The draw of each atom, 0 to n - 1, never falling.
    weights : float64 (K,)
        a, >= 0; those of each draw sum to 1.
    means : float64 (K, d)
        mu, the plan's coordinates.
    roots : float64 (K, d, d)
        B, lower triangular with a positive diagonal, the plan's coordinates.
    lower, upper : float64 (d,)
        The box, the plan's coordinates.
    doubt : float
        z, by how many standard deviations of chance the best model misses the sketch.
    held_out : float
        How badly it misses what was held out of the fit; 1 is what noise alone does.
    is_trusted : bool
        Whether the decode was found sound or rough; error bars of other ones mean nothing.

    Raises
    ------
    DecodingError
        The shapes do not agree, or a value is out of range.
    """

    shares: Vector
    draw_of: NDArray[np.intp]
    weights: Vector
    means: Vector
    roots: Vector
    lower: Vector
    upper: Vector
    doubt: float
    held_out: float
    is_trusted: bool

    def __post_init__(self) -> None:
        """Refuse values that are not a posterior."""
        n_atoms, d = self.means.shape if self.means.ndim == 2 else (0, 0)
        shapes = (
            ("draw_of", self.draw_of.shape, (n_atoms,)),
            ("weights", self.weights.shape, (n_atoms,)),
            ("roots", self.roots.shape, (n_atoms, d, d)),
            ("lower", self.lower.shape, (d,)),
            ("upper", self.upper.shape, (d,)),
        )
        for name, found, expected in shapes:
            if found != expected:
                raise DecodingError(
                    f"must have the shape {expected}, not {found}",
                    field=name,
                    fix="give one entry for each atom of means",
                )
        if not n_atoms or not np.array_equal(np.unique(self.draw_of), np.arange(self.n_draws)):
            raise DecodingError(
                "must name every draw at least once", field="draw_of", fix="number draws from 0"
            )
        for name, values in (("shares", self.shares), ("weights", self.sum_draws(self.weights))):
            total = np.sum(values) if name == "shares" else values
            if not (np.all(values >= 0.0) and np.allclose(total, 1.0, atol=1e-3)):
                raise DecodingError("must be >= 0 and sum to 1", field=name, fix="divide by sums")
        if not np.all(np.diagonal(self.roots, axis1=1, axis2=2) > 0.0):
            raise DecodingError(
                "must have a positive diagonal", field="roots", fix="give Cholesky factors"
            )

    @property
    def n_draws(self) -> int:
        """The number n of draws."""
        return len(self.shares)

    @property
    def n_dimensions(self) -> int:
        """The number d of coordinates."""
        return int(self.means.shape[1])

    @property
    def is_along_axes(self) -> bool:
        """Whether all atoms have diagonal covariances."""
        return not np.any(np.tril(self.roots, -1))

    def sum_draws(self, values: Vector) -> Vector:
        """Sum one number an atom over the atoms of each draw: float64 (n,)."""
        sums = np.bincount(self.draw_of, weights=values, minlength=self.n_draws)
        return sums.astype(np.float64)

    def keep_draws(self, chosen: NDArray[np.intp]) -> "Posterior":
        """Return the chosen draws alone, their shares scaled to sum to 1."""
        kept = np.sort(chosen)
        atoms = np.flatnonzero(np.isin(self.draw_of, kept))
        shares = self.shares[kept]
        return replace(
            self,
            shares=shares / np.sum(shares),
            draw_of=np.searchsorted(kept, self.draw_of[atoms]),
            weights=self.weights[atoms],
            means=self.means[atoms],
            roots=self.roots[atoms],
        )

    def draw_samples(self, n_samples: int, *, rng: np.random.Generator) -> Vector:
        """Draw synthetic records in the box, from all draws by share: float64 (n, d)."""
        chances = self.shares[self.draw_of] * self.weights
        atoms = rng.choice(len(chances), size=n_samples, p=chances / np.sum(chances))
        chance = rng.normal(size=(n_samples, self.n_dimensions))
        samples = self.means[atoms] + np.einsum("nij,nj->ni", self.roots[atoms], chance)
        inside: Vector = np.clip(samples, self.lower, self.upper)
        return inside
