"""What a study's sketches say about its records: densities, their covariance, and derivatives.

Computed once for all comparisons of a study. A fit of k atoms gives the directions in which
clusters can change, and a pooled density the errors of sampling.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sfumato.learning.decoding.density import GaussianMixture
from sfumato.learning.decoding.mixture.assembly import describe_density
from sfumato.learning.decoding.mixture.ellipsoids import Ellipsoids, widen
from sfumato.learning.decoding.mixture.ensemble import fit_clusters
from sfumato.learning.decoding.mixture.gaussians import measure_in_wavelengths, prepare_target
from sfumato.learning.decoding.mixture.ladder import climb, leaves_only_noise
from sfumato.learning.decoding.mixture.pool import choose_members
from sfumato.learning.decoding.mixture.round_descent import Fitted
from sfumato.learning.decoding.problem import DecodingProblem
from sfumato.learning.decoding.solver import Monitor
from sfumato.learning.insight.covariance import (
    Complexes,
    Density,
    Floats,
    compute_atoms,
    compute_covariance,
    pool_densities,
    stack,
)
from sfumato.learning.insight.selection import require_supported
from sfumato.shared.errors import DecodingError
from sfumato.shared.plan import SketchPlan

__all__ = ["Explanation", "StudyModel", "explain"]

_N_REPLICATES = 12
# Of the largest variance: keeps the factor defined where features hardly vary.
_JITTER = 1e-7


@dataclass(frozen=True, kw_only=True, eq=False)
class Explanation:
    """Densities that explain a sketch, data units.

    Parameters
    ----------
    fit
        The best fit of k round atoms: the clusters whose changes are measured.
    density
        The mean of all draws of the posterior. Its sampling errors are right where those of any
        single fit are not.
    draws
        Shares and densities of the posterior, whose mean it is.
    is_fitted
        Whether k round atoms leave no more than errors would. Richer densities that do so are right
        at the frequencies of the plan, but the covariance of sampling is of their sums and
        differences.
    """

    fit: GaussianMixture
    density: Density
    draws: tuple[tuple[float, Density], ...] = ()
    is_fitted: bool = True


def explain(
    problem: DecodingProblem,
    *,
    rng: np.random.Generator,
    cancelled: Callable[[], bool] | None = None,
) -> Explanation:
    """Fit k clusters to a sketch, and pool the densities that it leaves possible.

    Parameters
    ----------
    problem
        The sketch of all records that are to be compared.
    rng
        Source of starts and draws.
    cancelled
        Polled between steps.

    Raises
    ------
    DecodingCancelledError
        ``cancelled`` returned true.
    """
    # As in every solver: bad input may overflow single precision, and steps check their results.
    with np.errstate(all="ignore"):
        standard = measure_in_wavelengths(problem)
        target, monitor = prepare_target(standard), Monitor(1, None, cancelled)
        for_fits, for_ladder, for_members, for_verdict = rng.spawn(4)
        fits = fit_clusters(
            target,
            int(problem.n_clusters),
            n_replicates=_N_REPLICATES,
            rng=for_fits,
            monitor=monitor,
        )
        candidates = climb(target, fits, rng=for_ladder, monitor=monitor)
        members = choose_members(target, candidates, for_members)
        best: Fitted = min(fits, key=lambda fit: fit.objective)
        is_fitted = leaves_only_noise(target, best, for_verdict)
    draws = tuple((member.share, _convert(standard, member.atoms)) for member in members)
    return Explanation(
        fit=describe_density(standard, widen(best.atoms)),
        density=pool_densities(draws),
        draws=draws,
        is_fitted=is_fitted,
    )


def _convert(problem: DecodingProblem, atoms: Ellipsoids) -> Density:
    """Convert a mixture to data units, weights summing to 1."""
    total = float(np.sum(atoms.weights))
    weights = atoms.weights / total if total > 0.0 else np.full(len(atoms), 1.0 / len(atoms))
    roots = problem.unit[:, None] * atoms.roots
    return Density(
        weights=weights,
        means=problem.centre + problem.unit * atoms.centres,
        covariances=roots @ roots.swapaxes(1, 2),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class StudyModel:
    """The densities of a study, seen through the frequencies of its plan.

    Parameters
    ----------
    plan
        The plan of the sketches.
    fit, density, draws, is_fitted
        As in :class:`Explanation`. Without draws, the density is taken for certain.

    Raises
    ------
    WrongStatisticError, DecodingError
        The plan is not supported, or the densities have other dimensions.
    """

    plan: SketchPlan
    fit: GaussianMixture
    density: Density
    draws: tuple[tuple[float, Density], ...] = ()
    is_fitted: bool = True

    @classmethod
    def of(cls, plan: SketchPlan, found: Explanation) -> StudyModel:
        """Return the model of a plan with the densities of an explanation."""
        return cls(
            plan=plan,
            fit=found.fit,
            density=found.density,
            draws=found.draws,
            is_fitted=found.is_fitted,
        )

    def __post_init__(self) -> None:
        require_supported(self.plan)
        for name, found in (
            ("fit", self.fit.n_dimensions),
            ("density", self.density.n_dimensions),
        ):
            if found != self.plan.n_axes:
                raise DecodingError(
                    f"must have {self.plan.n_axes} dimensions and has {found}",
                    field=name,
                    fix="decode sketches of the same plan",
                )

    @property
    def n_clusters(self) -> int:
        """The number k of clusters of the fit."""
        return len(self.fit.weights)

    @cached_property
    def frequencies(self) -> Floats:
        """Omega: shape ``(d, m)``, radians per data unit."""
        return self.plan.frequencies.to_angular(self.plan.quantiser)

    @cached_property
    def features(self) -> Floats:
        """The expected features under the density, stacked: shape ``(2 m,)``."""
        return stack(self.density.weights @ self._compute_atoms(self.density))

    @cached_property
    def covariance(self) -> Floats:
        """The covariance of one record's stacked features: shape ``(2 m, 2 m)``."""
        blocks = self.plan.blocks.block_of if self.plan.is_split else None
        return compute_covariance(
            self.density, self.frequencies, self.plan.quantiser.centre, block_of=blocks
        )

    @cached_property
    def factor(self) -> Floats:
        """F with ``F F'`` the covariance: shape ``(2 m, 2 m)``, lower triangular."""
        diagonal = np.diag_indices(len(self.covariance))
        least, highest = _JITTER, float(np.max(self.covariance[diagonal]))
        while True:
            raised = self.covariance.copy()
            raised[diagonal] += least * highest
            try:
                return np.linalg.cholesky(raised).astype(np.float64)
            except np.linalg.LinAlgError:
                # Single precision may leave small negative eigenvalues.
                least *= 10.0

    @cached_property
    def shift_energies(self) -> Floats:
        """The squared difference of each feature that a common shift causes: shape ``(m,)``.

        ``|phi_j|^2 |w_j|^2 / d``, of one of the plan's scales, to first order.
        """
        m = self.plan.n_frequencies
        lengths = np.sum((self.frequencies * self.plan.scale[:, None]) ** 2, axis=0)
        signal = self.features[:m] ** 2 + self.features[m:] ** 2
        energies: Floats = signal * lengths / self.plan.n_axes
        return energies

    @property
    def energy_per_shift(self) -> float:
        """Q, the squared difference of all features that a common shift causes."""
        return float(np.sum(self.shift_energies))

    @cached_property
    def jacobian(self) -> Floats:
        """Derivatives of the fit's features, stacked: shape ``(k (d + 2), 2 m)``.

        For each cluster: its centre, in its own standard deviations along each axis; the logarithm
        of its variances; the logarithm of its weight.
        """
        atoms = self.fit.weights[:, None] * self._compute_atoms(Density.of(self.fit))
        spreads = np.sqrt(self.fit.variances)
        turned = 1j * atoms[:, None] * (spreads[:, :, None] * self.frequencies)
        widened = -0.5 * (self.fit.variances @ self.frequencies**2) * atoms
        rows = np.concatenate([turned, widened[:, None], atoms[:, None]], axis=1)
        return stack(rows.reshape(-1, self.plan.n_frequencies))

    def _compute_atoms(self, density: Density) -> Complexes:
        return compute_atoms(density, self.frequencies, self.plan.quantiser.centre)
