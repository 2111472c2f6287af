"""Mixture of Gaussians that explains a sketch."""

from dataclasses import dataclass

import numpy as np

from sfumato.learning.decoding.problem import Vector
from sfumato.shared.errors import DecodingError

__all__ = ["GaussianMixture"]

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
