"""Levenberg-Marquardt in a box, on the centres, log-variances and weights of a mixture at once.

Minimises, with nv the noise variance,

    f = |r|^2 + p_L sum_k (L_k - mean L)^2 + p_a K^2 sum_k (a_k - 1/K)^2
    p_L = nv / (2 tau_L^2),  p_a = nv / (2 tau_a^2)

which is, up to the factor nv, the negative log-posterior for Gaussian noise and Gaussian priors:
clusters have similar spreads and weights unless the data outweigh the noise. At weak noise both
priors are left out, and the data decide: a prior that is small against the signal but not against a
good fit's residual would still draw together clusters whose spreads differ a hundredfold (a dense
core, rare outliers).
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.decoding.density import GaussianMixture
from sfumato.learning.decoding.mixture.gaussians import (
    LARGEST_WEIGHT,
    Atoms,
    Single,
    Target,
    compute_jacobian,
    compute_residual,
    compute_unit_atoms,
    measure_in_wavelengths,
    prepare_target,
)
from sfumato.learning.decoding.mixture.levenberg import (
    Bounds,
    Step,
    descend,
    form_products,
    freeze_held,
)
from sfumato.learning.decoding.mixture.matrix_free import MatrixFreeStep, Products
from sfumato.learning.decoding.problem import DecodingProblem, Vector
from sfumato.learning.decoding.solver import Monitor

__all__ = ["Fitted", "descend_from", "descend_round", "evaluate", "refine"]

# Prior standard deviations of L and of K a.
_TAU_LOG_VARIANCE: Final = 0.2
_TAU_WEIGHT: Final = 1.0
_LARGEST_LOG_STEP: Final = 1.5
# Beyond this many parameters, products with the normal matrix are faster than the matrix.
_MANY_PARAMETERS: Final = 300


@dataclass(frozen=True, kw_only=True, eq=False)
class Fitted:
    """A mixture with the intermediate results that the next step needs.

    Parameters
    ----------
    atoms : Atoms
        The mixture.
    rows : float32 (K, 2m)
        The atoms' sketches.
    residual : float32 (2m,)
        r.
    misfit : float
        |r|^2.
    objective : float
        f, which adds the priors.
    """

    atoms: Atoms
    rows: Single
    residual: Single
    misfit: float
    objective: float


def evaluate(target: Target, atoms: Atoms) -> Fitted:
    """Compute residual, misfit and objective of a mixture."""
    rows = compute_unit_atoms(target, atoms)
    residual = compute_residual(target, rows, atoms.weights)
    misfit = float(np.sum(np.square(residual, dtype=np.float64)))
    return Fitted(
        atoms=atoms,
        rows=rows,
        residual=residual,
        misfit=misfit,
        objective=misfit + _compute_penalty(target, atoms),
    )


def refine(
    target: Target,
    fitted: Fitted,
    *,
    n_iterations: int,
    tolerance: float,
    monitor: Monitor,
    chosen: NDArray[np.intp] | None = None,
) -> Fitted:
    """Descend from a mixture.

    Parameters
    ----------
    target : Target
        The sketch to explain.
    fitted : Fitted
        The starting mixture.
    n_iterations : int
        Largest number of steps.
    tolerance : float
        Stop after a step that lowers f by less than this share.
    monitor : Monitor
        Polled for cancellation before every step.
    chosen : intp (q,), optional
        Atoms whose centre and variance are free, all by default; the weights of all are free.

    Returns
    -------
    Fitted
        In the box; its objective is never above the start's.
    """
    free = np.arange(len(fitted.atoms)) if chosen is None else chosen
    return descend(
        fitted,
        lambda fit: _prepare(target, fit, free),
        lambda fit, x: evaluate(target, _unpack(fit.atoms, free, x)),
        n_iterations=n_iterations,
        tolerance=tolerance,
        monitor=monitor,
    )


def _prepare(target: Target, fitted: Fitted, chosen: NDArray[np.intp]) -> Step:
    """Set up the normal equations of the free parameters."""
    atoms = fitted.atoms
    bounds = _bound(target, atoms, chosen)
    priors = _weigh_priors(target, len(atoms))
    if len(bounds.x) > _MANY_PARAMETERS:
        products = Products(target, atoms, fitted.rows, chosen)
        gradient = -products.apply_transposed(fitted.residual)
        _add_gradient(atoms, chosen, priors, gradient)
        return MatrixFreeStep.at(bounds, gradient, products, priors)
    jacobian = compute_jacobian(target, atoms, fitted.rows, chosen)
    gradient, hessian = form_products(jacobian, fitted.residual)
    _add_gradient(atoms, chosen, priors, gradient)
    n_atoms, q = len(atoms), len(chosen)
    logs, weights = slice(-n_atoms - q, -n_atoms), slice(-n_atoms, None)
    hessian[logs, logs] += priors[0] * (np.eye(q) - 1.0 / n_atoms)
    hessian[weights, weights] += priors[1] * np.eye(n_atoms)
    return freeze_held(bounds, jacobian, gradient, hessian)


def _weigh_priors(target: Target, n_atoms: int) -> tuple[float, float]:
    """Return p_L and p_a K^2; 0 at weak noise."""
    if target.has_weak_noise:
        return 0.0, 0.0
    half = target.noise_variance / 2.0
    return half / _TAU_LOG_VARIANCE**2, half * n_atoms**2 / _TAU_WEIGHT**2


def _compute_penalty(target: Target, atoms: Atoms) -> float:
    """Compute the priors' part of f."""
    if len(atoms) == 0:
        return 0.0
    on_logs, on_weights = _weigh_priors(target, len(atoms))
    logs = atoms.log_variances - np.mean(atoms.log_variances)
    weights = atoms.weights - 1.0 / len(atoms)
    return float(on_logs * logs @ logs + on_weights * weights @ weights)


def _add_gradient(
    atoms: Atoms, chosen: NDArray[np.intp], priors: tuple[float, float], gradient: Vector
) -> None:
    """Add the priors' half-gradient in place."""
    n_atoms, q = len(atoms), len(chosen)
    logs = atoms.log_variances - np.mean(atoms.log_variances)
    gradient[-n_atoms - q : -n_atoms] += priors[0] * logs[chosen]
    gradient[-n_atoms:] += priors[1] * (atoms.weights - 1.0 / n_atoms)


def _pack(atoms: Atoms, chosen: NDArray[np.intp]) -> Vector:
    """Return the free parameters in the Jacobian's order."""
    return np.concatenate(
        [atoms.centres[chosen].ravel(), atoms.log_variances[chosen], atoms.weights]
    )


def _unpack(atoms: Atoms, chosen: NDArray[np.intp], x: Vector) -> Atoms:
    """Return the mixture with its free parameters replaced."""
    q, d = len(chosen), atoms.centres.shape[1]
    centres, logs = atoms.centres.copy(), atoms.log_variances.copy()
    centres[chosen] = x[: q * d].reshape(q, d)
    logs[chosen] = x[q * d : q * (d + 1)]
    return Atoms(centres=centres, log_variances=logs, weights=x[q * (d + 1) :])


def _bound(target: Target, atoms: Atoms, chosen: NDArray[np.intp]) -> Bounds:
    """Return the free parameters in their box."""
    q, n_atoms = len(chosen), len(atoms)
    least, largest = target.log_variance_bounds
    lower = np.concatenate([np.tile(target.lower, q), np.full(q, least), np.zeros(n_atoms)])
    upper = np.concatenate(
        [np.tile(target.upper, q), np.full(q, largest), np.full(n_atoms, LARGEST_WEIGHT)]
    )
    limits = np.full(len(lower), np.inf)
    first = q * target.n_dimensions
    limits[first : first + q] = _LARGEST_LOG_STEP
    return Bounds(x=_pack(atoms, chosen), lower=lower, upper=upper, limits=limits)


_N_ITERATIONS = 30
_TOLERANCE = 1e-6


def descend_from(problem: DecodingProblem, start: GaussianMixture) -> Vector:
    """Fit round clusters by descent alone, from a mixture in data units.

    Parameters
    ----------
    problem : DecodingProblem
        Its number of clusters is ignored.
    start : GaussianMixture
        K components; a component's variances are averaged in the problem's units.

    Returns
    -------
    float64 (K, d)
        The centres, data units, in the given order and inside the box.
    """
    standard = measure_in_wavelengths(problem)
    # As in every solver, bad input may overflow single precision; refine checks its results.
    with np.errstate(all="ignore"):
        fitted = descend_round(standard, start, Monitor())
    centres = standard.centre + standard.unit * fitted.atoms.centres
    return np.clip(centres, problem.lower, problem.upper)


def descend_round(standard: DecodingProblem, start: GaussianMixture, monitor: Monitor) -> Fitted:
    """Descend from a mixture in data units; the problem is measured in wavelengths."""
    target = prepare_target(standard)
    centres = (start.means - standard.centre) / standard.unit
    variances = np.mean(start.variances / standard.unit**2, axis=1)
    least, largest = target.log_variance_bounds
    atoms = Atoms(
        centres=np.clip(centres, target.lower, target.upper),
        log_variances=np.log(np.clip(variances, math.exp(least), math.exp(largest))),
        weights=start.weights.copy(),
    )
    return refine(
        target,
        evaluate(target, atoms),
        n_iterations=_N_ITERATIONS,
        tolerance=_TOLERANCE,
        monitor=monitor,
    )
