"""Densities behind an answer: a mixture of Gaussians, and the posterior of several.

The posterior is what a sketch says about its records beyond centroids: every question on the
density is answered by the mean over its members, and its error bar comes from their spread.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.decoding.problem import Vector
from sfumato.shared.errors import DecodingError

__all__ = ["GaussianMixture", "Posterior"]

_CHUNK = 1 << 20


@dataclass(frozen=True, kw_only=True, eq=False)
class GaussianMixture:
    """A density in data units: K Gaussians with diagonal covariances.

        p(x) = sum_k a_k prod_i N(x_i; mu_ki, v_ki)

    Parameters
    ----------
    weights : float64 (K,)
        a >= 0, summing to 1, falling.
    means : float64 (K, d)
        mu, data units.
    variances : float64 (K, d)
        v > 0, squared data units. The mixture decoder fits one variance an atom in units of the
        plan's scales; here it is repeated for each dimension, in that dimension's unit.

    Raises
    ------
    DecodingError
        The shapes do not agree, or a value is out of range.
    """

    weights: Vector
    means: Vector
    variances: Vector

    def __post_init__(self) -> None:
        """Refuse values that are not a density."""
        n_atoms = len(self.weights)
        if self.means.ndim != 2 or len(self.means) != n_atoms:
            raise DecodingError(
                "must be (K, d) for K weights", field="means", fix="give one row each"
            )
        if self.variances.shape != self.means.shape:
            raise DecodingError("has the shape of means", field="variances", fix="reshape it")
        if not (np.all(self.variances > 0.0) and np.all(np.isfinite(self.variances))):
            raise DecodingError("must be finite and > 0", field="variances", fix="widen the atoms")
        if not (np.all(self.weights >= 0.0) and np.isclose(np.sum(self.weights), 1.0)):
            raise DecodingError(
                "must be >= 0 and sum to 1", field="weights", fix="divide by the sum"
            )

    @property
    def n_dimensions(self) -> int:
        """The number d of dimensions."""
        return int(self.means.shape[1])

    def draw_samples(self, n_samples: int, *, rng: np.random.Generator) -> Vector:
        """Draw records from the density: float64 (n, d), data units, in random order."""
        chosen = rng.choice(len(self.weights), size=n_samples, p=self.weights / self.weights.sum())
        spread = np.sqrt(self.variances[chosen])
        return self.means[chosen] + spread * rng.normal(size=(n_samples, self.n_dimensions))

    def compute_log_density(self, points: Vector) -> Vector:
        """Compute ln p at points.

        Parameters
        ----------
        points : float64 (n, d)
            Data units.

        Returns
        -------
        float64 (n,)
            Nats, for densities per product of the data units; finite at finite points that lie
            within about 1e150 standard deviations.
        """
        rows = max(1, _CHUNK // max(1, self.means.size))
        parts = [
            self._compute_part(points[first : first + rows])
            for first in range(0, len(points), rows)
        ]
        return np.concatenate(parts) if parts else np.empty(0)

    def compute_responsibilities(self, points: Vector) -> Vector:
        """Compute the share of each atom in the density at points: float64 (n, K), rows sum to 1.

        Parameters
        ----------
        points : float64 (n, d)
            Data units.
        """
        rows = max(1, _CHUNK // max(1, self.means.size))
        found = np.empty((len(points), len(self.weights)))
        for first in range(0, len(points), rows):
            logs = self._compute_logs(points[first : first + rows])
            shares = np.exp(logs - np.max(logs, axis=1, keepdims=True))
            found[first : first + rows] = shares / np.sum(shares, axis=1, keepdims=True)
        return found

    def _compute_part(self, points: Vector) -> Vector:
        logs = self._compute_logs(points)
        highest = np.max(logs, axis=1, keepdims=True)
        total: Vector = highest[:, 0] + np.log(np.sum(np.exp(logs - highest), axis=1))
        return total

    def _compute_logs(self, points: Vector) -> Vector:
        """Compute ln of the weighted density of each atom: (n, K), -inf without weight."""
        squares = np.sum((points[:, None] - self.means) ** 2 / self.variances, axis=2)
        with np.errstate(divide="ignore"):
            constants = np.log(self.weights) - 0.5 * np.sum(
                np.log(2.0 * np.pi * self.variances), axis=1
            )
        logs: Vector = constants - 0.5 * squares
        return logs


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
        Whether it may be asked, with error bars: see :func:`tells_shares` of the judgement.

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
