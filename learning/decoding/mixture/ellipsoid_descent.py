"""Descent of ellipsoids: centres, covariances and weights together, by Levenberg-Marquardt.

As in `round_descent`. With nv the noise variance, the objective is

    f = |r|^2 + nv / (2 tau^2) sum (L_ki - mean_i L_ki)^2 + nv / (2 tau_n^2) sum n_kij^2,  L = 2 l,

with a weak prior that atoms are nearly round. It keeps dimensions that the sketch does not
determine close to those that it does. Where noise is not weak, the round fit's priors are added:
similar spreads (less strong here) and similar weights.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.decoding.mixture.ellipsoids import Ellipsoids, Kind, compute_rows
from sfumato.learning.decoding.mixture.gaussians import (
    LARGEST_WEIGHT,
    Atoms,
    Single,
    Target,
    compute_jacobian,
)
from sfumato.learning.decoding.mixture.levenberg import (
    RIDGE,
    Bounds,
    DenseStep,
    descend,
    form_products,
    freeze_held,
)
from sfumato.learning.decoding.problem import Vector
from sfumato.learning.decoding.solver import Monitor

__all__ = ["Projection", "Shaped", "evaluate_shaped", "form_equations", "project", "refine_shaped"]

_TAU: Final = 1.0
_TAU_SPREAD: Final = 0.5
_TAU_WEIGHT: Final = 1.0
_TAU_SLANT: Final = 0.5
_LARGEST_SLANT: Final = 10.0
_LARGEST_LOG_STEP: Final = 0.75
_LARGEST_SLANT_STEP: Final = 0.5
_LARGEST_LEVERAGE: Final = 0.999
# Larger Jacobians stay in single precision, which halves time and memory and is exact enough for
# the share of noise.
_LARGEST_EXACT: Final = 10_000_000
_CHUNK: Final = 4096


@dataclass(frozen=True, kw_only=True, eq=False)
class Shaped:
    """A mixture of ellipsoids with its sketches and its residual.

    Parameters
    ----------
    atoms : Ellipsoids
        The mixture.
    rows : float32 (K, 2m)
        The atoms' sketches, each of weight one.
    residual : float32 (2m,)
        r.
    misfit, objective : float
        |r|^2, and f.
    """

    atoms: Ellipsoids
    rows: Single
    residual: Single
    misfit: float
    objective: float


def evaluate_shaped(target: Target, atoms: Ellipsoids) -> Shaped:
    """Compute residual, misfit and objective of a mixture."""
    rows = compute_rows(target, atoms)
    residual = target.sketch - atoms.weights.astype(np.float32) @ rows
    misfit = float(np.sum(np.square(residual, dtype=np.float64)))
    return Shaped(
        atoms=atoms,
        rows=rows,
        residual=residual,
        misfit=misfit,
        objective=misfit + _compute_penalty(target, atoms),
    )


def refine_shaped(
    target: Target,
    fitted: Shaped,
    *,
    full: bool,
    n_iterations: int,
    tolerance: float,
    monitor: Monitor,
) -> Shaped:
    """Descend from a mixture.

    Parameters
    ----------
    target : Target
        The sketch to explain.
    fitted : Shaped
        The starting mixture.
    full : bool
        Whether atoms may be slanted.
    n_iterations : int
        Largest number of steps.
    tolerance : float
        Stop after a step that lowers f by less than this share.
    monitor : Monitor
        Polled for cancellation before every step.

    Returns
    -------
    Shaped
        In the box; its objective is never above the start's.
    """
    return descend(
        fitted,
        lambda fit: _prepare(target, fit, full=full),
        lambda fit, x: evaluate_shaped(target, _unpack(fit.atoms, x, full=full)),
        n_iterations=n_iterations,
        tolerance=tolerance,
        monitor=monitor,
    )


def form_equations(target: Target, fitted: Shaped, *, kind: Kind) -> tuple[Single, Vector]:
    """Form the Jacobian of a fit and its normal matrix with the priors.

    Returns
    -------
    tuple of float32 (p, 2m) and float64 (p, p)
        Rows in the order centres, l, n, weights; a round fit has one l an atom. A parameter held by
        a bound has a row of zeros, and one on the diagonal.
    """
    if kind == "round":
        return _form_round_equations(target, fitted)
    step = _prepare(target, fitted, full=kind == "full")
    jacobian = step.jacobian
    jacobian[step.held] = 0.0
    return jacobian, step.hessian


def _form_round_equations(target: Target, fitted: Shaped) -> tuple[Single, Vector]:
    atoms = fitted.atoms
    round_atoms = Atoms(
        centres=atoms.centres, log_variances=2.0 * atoms.logs.mean(axis=1), weights=atoms.weights
    )
    jacobian = compute_jacobian(target, round_atoms, fitted.rows, np.arange(len(atoms)))
    # By the logarithm of the length, as below: half that of the variance.
    n_atoms, d = atoms.centres.shape
    jacobian[n_atoms * d : n_atoms * (d + 1)] *= 2.0
    hessian = (jacobian @ jacobian.T).astype(np.float64)
    empty = np.diagonal(hessian) == 0.0
    hessian[empty, empty] = 1.0
    return jacobian, hessian


@dataclass(frozen=True, kw_only=True, eq=False)
class Projection:
    """First-order response of a fit to errors in its 2m equations.

        r = (1 - H) e,   H = J' (J J' + ridge)^-1 J

    Parameters
    ----------
    jacobian : float64 or float32 (p, 2m)
        J; in double precision unless it is large.
    factor : float64 (p, p)
        Lower Cholesky factor of J J' + ridge; None where the equations cannot be solved and no
        equation can be held out of the fit.
    """

    jacobian: Vector | Single
    factor: Vector | None

    def leave(self, errors: Vector) -> Vector:
        """Return the part of errors (2m, n) that the fit leaves."""
        if self.factor is None:
            return errors
        from scipy.linalg import cho_solve  # noqa: PLC0415 - a server never needs it

        along = self.jacobian @ errors.astype(self.jacobian.dtype, copy=False)
        steps = cho_solve((self.factor, True), along, check_finite=False)
        taken = self.jacobian.T @ steps.astype(self.jacobian.dtype, copy=False)
        left: Vector = errors - taken
        return left

    @cached_property
    def leverages(self) -> Vector:
        """The diagonal of H, float64 (2m,): a held-out residual is larger by 1 / (1 - leverage)."""
        n_equations = self.jacobian.shape[1]
        if self.factor is None:
            return np.full(n_equations, _LARGEST_LEVERAGE)
        from scipy.linalg import lapack  # noqa: PLC0415 - a server never needs it

        # A product with the inverse is several times as fast as a solution for each equation.
        inverse, _ = lapack.dtrtri(self.factor, lower=True)
        inverse = inverse.astype(self.jacobian.dtype, copy=False)
        found = np.empty(n_equations)
        for first in range(0, n_equations, _CHUNK):
            part = slice(first, first + _CHUNK)
            half = inverse @ self.jacobian[:, part]
            found[part] = np.einsum("pm,pm->m", half, half)
        leverages: Vector = np.clip(
            np.nan_to_num(found, nan=_LARGEST_LEVERAGE), 0.0, _LARGEST_LEVERAGE
        )
        return leverages


def project(target: Target, fitted: Shaped, *, kind: Kind) -> Projection:
    """Linearise a fit."""
    jacobian, hessian = form_equations(target, fitted, kind=kind)
    diagonal = np.diagonal(hessian)
    damped = hessian + np.diag(np.full(len(diagonal), RIDGE * diagonal.mean()))
    exact = jacobian if jacobian.size > _LARGEST_EXACT else jacobian.astype(np.float64)
    factor: Vector | None
    try:
        factor = np.linalg.cholesky(damped).astype(np.float64, copy=False)
    except np.linalg.LinAlgError:
        factor = None
    if factor is not None and not np.all(np.isfinite(factor)):
        factor = None
    return Projection(jacobian=exact, factor=factor)


def _prepare(target: Target, fitted: Shaped, *, full: bool) -> DenseStep:
    """Form the normal equations, and freeze the parameters that a bound holds."""
    atoms = fitted.atoms
    jacobian = _compute_jacobian(target, atoms, fitted.rows, full=full)
    gradient, hessian = form_products(jacobian, fitted.residual)
    _add_priors(target, atoms, gradient, hessian)
    return freeze_held(_bound(target, atoms, full=full), jacobian, gradient, hessian)


def _compute_jacobian(target: Target, atoms: Ellipsoids, rows: Single, *, full: bool) -> Single:
    """Compute the derivatives, a parameter a row, in the order centres, l, n, weights.

    d/dc_i = a w_i i E,  d/dl_i = -a w_i (S w)_i E,  d/dn_ij = -a w_i exp(l_i) (B' w)_j E
    """
    n_atoms, d = atoms.centres.shape
    m = target.n_frequencies
    below = _below(d) if full else (np.empty(0, np.intp), np.empty(0, np.intp))
    n_slants = len(below[0])
    jacobian = np.empty((n_atoms * (2 * d + n_slants + 1), 2 * m), dtype=np.float32)
    weighted = atoms.weights.astype(np.float32)[:, None] * rows
    real, imaginary = weighted[:, None, :m], weighted[:, None, m:]
    frequencies = target.frequencies
    by_centre = jacobian[: n_atoms * d].reshape(n_atoms, d, 2 * m)
    np.multiply(-imaginary, frequencies, out=by_centre[:, :, :m])
    np.multiply(real, frequencies, out=by_centre[:, :, m:])
    roots = atoms.roots.astype(np.float32)
    turned = np.matmul(np.swapaxes(roots, 1, 2), frequencies)
    slopes = -frequencies * np.matmul(roots, turned)
    by_log = jacobian[n_atoms * d : 2 * n_atoms * d].reshape(n_atoms, d, 2 * m)
    np.multiply(slopes, real, out=by_log[:, :, :m])
    np.multiply(slopes, imaginary, out=by_log[:, :, m:])
    if n_slants:
        first = 2 * n_atoms * d
        by_slant = jacobian[first : first + n_atoms * n_slants].reshape(n_atoms, n_slants, 2 * m)
        lengths = np.exp(atoms.logs).astype(np.float32)[:, below[0], None]
        slopes = -lengths * frequencies[below[0]] * turned[:, below[1]]
        np.multiply(slopes, real, out=by_slant[:, :, :m])
        np.multiply(slopes, imaginary, out=by_slant[:, :, m:])
    jacobian[-n_atoms:] = rows
    return jacobian


def _below(d: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return rows and columns of the entries below the diagonal."""
    return np.tril_indices(d, -1)


def _compute_penalty(target: Target, atoms: Ellipsoids) -> float:
    """Compute the priors' part of f."""
    strength = target.noise_variance / 2.0
    means = atoms.logs.mean(axis=1)
    logs = 2.0 * (atoms.logs - means[:, None])
    penalty = np.sum(logs**2) / _TAU**2 + np.sum(atoms.slants**2) / _TAU_SLANT**2
    if not target.has_weak_noise:
        spreads, shares = 2.0 * (means - means.mean()), len(atoms) * atoms.weights - 1.0
        penalty += np.sum(spreads**2) / _TAU_SPREAD**2 + np.sum(shares**2) / _TAU_WEIGHT**2
    return float(strength * penalty)


def _add_priors(target: Target, atoms: Ellipsoids, gradient: Vector, hessian: Vector) -> None:
    """Add the priors' half-gradient and half-Hessian in place."""
    n_atoms, d = atoms.centres.shape
    strength = target.noise_variance / 2.0
    first = n_atoms * d
    means = atoms.logs.mean(axis=1)
    on_logs = 4.0 * strength / _TAU**2
    gradient[first : 2 * first] += on_logs * (atoms.logs - means[:, None]).ravel()
    block = on_logs * (np.eye(d) - 1.0 / d)
    for i in range(n_atoms):
        part = slice(first + i * d, first + (i + 1) * d)
        hessian[part, part] += block
    slants = slice(2 * first, len(gradient) - n_atoms)
    if slants.start < slants.stop:
        rows, columns = _below(d)
        gradient[slants] += strength / _TAU_SLANT**2 * atoms.slants[:, rows, columns].ravel()
        indices = np.arange(slants.start, slants.stop)
        hessian[indices, indices] += strength / _TAU_SLANT**2
    if target.has_weak_noise:
        return
    on_spreads = 4.0 * strength / _TAU_SPREAD**2
    logs = slice(first, 2 * first)
    gradient[logs] += np.repeat(on_spreads / d * (means - means.mean()), d)
    between = np.eye(n_atoms) - 1.0 / n_atoms
    hessian[logs, logs] += on_spreads / d**2 * np.kron(between, np.ones((d, d)))
    on_weights = strength / _TAU_WEIGHT**2
    gradient[-n_atoms:] += on_weights * n_atoms * (n_atoms * atoms.weights - 1.0)
    indices = np.arange(len(gradient) - n_atoms, len(gradient))
    hessian[indices, indices] += on_weights * n_atoms**2


def _pack(atoms: Ellipsoids, *, full: bool) -> Vector:
    rows, columns = _below(atoms.centres.shape[1])
    slants = atoms.slants[:, rows, columns].ravel() if full else np.empty(0)
    return np.concatenate([atoms.centres.ravel(), atoms.logs.ravel(), slants, atoms.weights])


def _unpack(atoms: Ellipsoids, x: Vector, *, full: bool) -> Ellipsoids:
    n_atoms, d = atoms.centres.shape
    slants = atoms.slants
    if full:
        rows, columns = _below(d)
        slants = np.zeros((n_atoms, d, d))
        slants[:, rows, columns] = x[2 * n_atoms * d : -n_atoms].reshape(n_atoms, -1)
    return Ellipsoids(
        centres=x[: n_atoms * d].reshape(n_atoms, d),
        logs=x[n_atoms * d : 2 * n_atoms * d].reshape(n_atoms, d),
        slants=slants,
        weights=x[-n_atoms:],
    )


def _bound(target: Target, atoms: Ellipsoids, *, full: bool) -> Bounds:
    """Return the parameters in their box."""
    n_atoms, d = atoms.centres.shape
    n_slants = n_atoms * d * (d - 1) // 2 if full else 0
    least, largest = (bound / 2.0 for bound in target.log_variance_bounds)
    lower = np.concatenate(
        [
            np.tile(target.lower, n_atoms),
            np.full(n_atoms * d, least),
            np.full(n_slants, -_LARGEST_SLANT),
            np.zeros(n_atoms),
        ]
    )
    upper = np.concatenate(
        [
            np.tile(target.upper, n_atoms),
            np.full(n_atoms * d, largest),
            np.full(n_slants, _LARGEST_SLANT),
            np.full(n_atoms, LARGEST_WEIGHT),
        ]
    )
    limits = np.concatenate(
        [
            np.full(n_atoms * d, np.inf),
            np.full(n_atoms * d, _LARGEST_LOG_STEP),
            np.full(n_slants, _LARGEST_SLANT_STEP),
            np.full(n_atoms, np.inf),
        ]
    )
    return Bounds(x=_pack(atoms, full=full), lower=lower, upper=upper, limits=limits)
