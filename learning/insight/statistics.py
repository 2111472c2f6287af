"""Three statistics of a difference D between mean features.

    T_all    = |D|^2                                    omnibus: any change of the density
    T_moved  = g' (J Sw^-1 J' + I / s^2)^-1 g           directed: changes of many clusters
    T_single = max_i |delta_i| / se_i                   one parameter of one cluster
    delta    = (J Sw^-1 J' + I / s^2)^-1 g
    g        = J Sw^-1 D,   Sw = Sigma + ridge

J holds the derivatives of the fit, one parameter a row. Most of the 2 m coordinates carry no signal
under noise; T_moved looks where clusters can move, and its solution delta is the change itself. A
change of a single cluster is one of p = k (d + 2) parameters: T_single finds it where the sum of
all hides it.

T_moved and T_single weigh coordinates by the inverse of the covariance, and so take the covariance
of sampling at its word. Where that may be wrong by a tenth, and sampling matters, p-values rest on
T_all alone, see :func:`trusts_directions`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from sfumato.learning.insight.covariance import Floats
from sfumato.learning.insight.model import StudyModel
from sfumato.learning.insight.selection import Errors

__all__ = ["PRIOR", "RIDGE", "Statistics", "compute_sigma", "describe_doubt", "trusts_directions"]

PRIOR: Final = 0.3
"""s: standard deviation of a change before the sketches are seen, in units of the parameters."""
RIDGE: Final = 0.1
"""Of the mean variance of a coordinate: bounds what a wrong covariance can do to its inverse."""
_MOST_SAMPLING: Final = 1.0
"""Largest share of sampling in the mean of T_moved, in standard deviations of T_moved. A covariance
that is wrong by a tenth moves it by a tenth of that, and a false alarm rate of 5 % by a fifth."""


def trusts_directions(model: StudyModel, *, sampling: float, deviation: float) -> bool:
    """Return whether the p-values of T_moved and T_single can be trusted.

    The covariance of sampling is that of the density; no sketch shows it. It is trusted where k
    round atoms explain the sketches, and does not matter where noise dominates.

    Parameters
    ----------
    model
        Model of the study.
    sampling, deviation
        What sampling adds to the mean of T_moved where nothing has changed, and the standard
        deviation of T_moved then.
    """
    return model.is_fitted or sampling <= _MOST_SAMPLING * deviation


def describe_doubt(n_clusters: int) -> str:
    """Return the doubt where they cannot be trusted."""
    return (
        "where sampling errors matter, as here, probabilities rest on all features alike: "
        f"{n_clusters} round clusters do not describe the records, so changes of single clusters "
        "are a hint, and their own probabilities rough"
    )


def compute_sigma(model: StudyModel, errors: Errors) -> Floats:
    """Compute the covariance of a difference of means where nothing has changed.

    ``S / n`` of each side, plus noise: shape ``(2 m, 2 m)``. The errors are the sum of both sides'.
    """
    block_of = np.tile(model.plan.blocks.block_of, 2)
    sampling = np.sqrt(errors.sampling)[block_of]
    sigma: Floats = model.covariance * np.outer(sampling, sampling)
    sigma[np.diag_indices(len(sigma))] += errors.noise[block_of]
    if model.plan.releases_count:
        counting = np.sqrt(errors.counting)[block_of] * model.features
        sigma += np.where(block_of[:, None] == block_of, np.outer(counting, counting), 0.0)
    return sigma


@dataclass(frozen=True, kw_only=True, eq=False)
class Statistics:
    """The statistics of differences with a covariance.

    Parameters
    ----------
    model
        Model of the study.
    sigma
        Of :func:`compute_sigma`.
    """

    model: StudyModel
    sigma: Floats

    @cached_property
    def projection(self) -> Floats:
        """``J Sw^-1``: shape ``(p, 2 m)``."""
        from scipy.linalg import cho_factor, cho_solve  # noqa: PLC0415 - a server never needs it

        whitened = self.sigma.copy()
        diagonal = np.diag_indices(len(whitened))
        whitened[diagonal] += RIDGE * float(np.mean(whitened[diagonal]))
        solved: Floats = cho_solve(cho_factor(whitened), self.model.jacobian.T).T
        return solved

    @cached_property
    def information(self) -> Floats:
        """H, ``J Sw^-1 J'``: shape ``(p, p)``."""
        product = self.projection @ self.model.jacobian.T
        information: Floats = (product + product.T) / 2.0
        return information

    @cached_property
    def gain(self) -> Floats:
        """``(H + I / s^2)^-1 J Sw^-1``: from a difference to the changes, shape ``(p, 2 m)``."""
        precision = self.information + np.eye(len(self.information)) / PRIOR**2
        return np.linalg.solve(precision, self.projection).astype(np.float64)

    @cached_property
    def errors(self) -> Floats:
        """Standard errors of the changes where nothing has changed: shape ``(p,)``."""
        errors: Floats = np.sqrt(np.einsum("pj,pj->p", self.gain @ self.sigma, self.gain))
        return errors

    def measure_all(self, differences: Floats) -> Floats:
        """Compute T_all of differences of shape ``(n, 2 m)``: shape ``(n,)``."""
        energies: Floats = np.einsum("nj,nj->n", differences, differences)
        return energies

    def estimate_changes(self, differences: Floats) -> Floats:
        """Estimate the changes of differences of shape ``(n, 2 m)``: shape ``(n, p)``."""
        changes: Floats = differences @ self.gain.T
        return changes

    def measure_moved(self, differences: Floats) -> Floats:
        """Compute T_moved of differences of shape ``(n, 2 m)``: shape ``(n,)``."""
        moved: Floats = np.einsum(
            "np,np->n", differences @ self.projection.T, self.estimate_changes(differences)
        )
        return moved

    def measure_single(self, differences: Floats) -> Floats:
        """Compute T_single of differences of shape ``(n, 2 m)``: shape ``(n,)``."""
        scores = np.abs(self.estimate_changes(differences)) / self.errors
        single: Floats = np.max(scores, axis=1)
        return single

    def measure_sampling(self, errors: Errors) -> float:
        """Compute what sampling adds to the mean of T_moved where nothing has changed.

        The errors are those of sigma.
        """
        block_of = np.tile(self.model.plan.blocks.block_of, 2)
        total = float(np.sum(self.gain * (self.projection @ self.sigma)))
        noise = float(np.einsum("pj,pj->j", self.gain, self.projection) @ errors.noise[block_of])
        if self.model.plan.releases_count:
            for block, variance in enumerate(errors.counting.tolist()):
                own = np.where(block_of == block, self.model.features, 0.0)
                noise += variance * float((self.gain @ own) @ (self.projection @ own))
        return max(0.0, total - noise)

    @property
    def energy_per_shift(self) -> float:
        """Q, the squared difference that a common shift causes."""
        return self.model.energy_per_shift

    def measure_variance(self, difference: Floats) -> tuple[float, float]:
        """Compute ``D' Sigma D`` and ``tr Sigma^2`` of a difference of shape ``(2 m,)``."""
        return float(difference @ self.sigma @ difference), float(np.sum(self.sigma**2))
