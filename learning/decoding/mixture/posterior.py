"""Draws around a fit: the uncertainty of the truth, given the sketch's noise.

To second order the posterior around a fit is Gaussian, with covariance nv / 2 (J J' + priors)^-1.
Here nv is the fit's residual of each equation, if that exceeds the privacy noise: a model that
misses the data is less certain than its noise suggests. A further prior keeps parameters that the
sketch does not determine within the atom's own size, so that no draw runs away.
"""

import numpy as np

from sfumato.learning.decoding.mixture.ellipsoid_descent import form_equations
from sfumato.learning.decoding.mixture.ellipsoids import Ellipsoids
from sfumato.learning.decoding.mixture.gaussians import Target
from sfumato.learning.decoding.mixture.ladder import Candidate, compute_white_variance
from sfumato.learning.decoding.problem import Vector

__all__ = ["draw_around"]

_LARGEST_LOG_CHANGE = 0.75


def draw_around(
    target: Target, candidate: Candidate, n_draws: int, rng: np.random.Generator
) -> list[Ellipsoids]:
    """Draw mixtures around a fitted one.

    Parameters
    ----------
    target, candidate
        The explained sketch, and the fitted model.
    n_draws : int
        Number of mixtures, at least one.
    rng : numpy.random.Generator
        Source of the draws.

    Returns
    -------
    list of Ellipsoids
        In the box, weights not below 0; the fit itself if the equations cannot be solved.
    """
    fitted, atoms = candidate.fitted, candidate.fitted.atoms
    _, hessian = form_equations(target, fitted, kind=candidate.kind)
    free = max(1.0, target.n_frequencies - len(hessian) / 2.0)
    noise = max(compute_white_variance(target), fitted.misfit / free)
    precision = 2.0 / noise * hessian
    precision[np.diag_indices(len(hessian))] += 1.0 / _compute_scales(atoms, len(hessian)) ** 2
    from scipy.linalg import solve_triangular  # noqa: PLC0415 - a server never needs it

    try:
        factor = np.linalg.cholesky(precision)
    except np.linalg.LinAlgError:
        return [atoms] * n_draws
    chance = rng.normal(size=(len(hessian), n_draws))
    steps = solve_triangular(factor, chance, lower=True, trans="T", check_finite=False)
    return [_move(target, candidate, step) for step in steps.T]


def _compute_scales(atoms: Ellipsoids, n_parameters: int) -> Vector:
    """Return each parameter's natural size: its range where the sketch does not determine it."""
    scales = np.ones(n_parameters)
    n_atoms, d = atoms.centres.shape
    scales[: n_atoms * d] = np.sqrt(atoms.variances).ravel()
    scales[-n_atoms:] = np.maximum(atoms.weights, 1e-6)
    return scales


def _move(target: Target, candidate: Candidate, step: Vector) -> Ellipsoids:
    """Apply a step of the parameters, bounded as in a descent."""
    atoms = candidate.fitted.atoms
    n_atoms, d = atoms.centres.shape
    n_logs = n_atoms if candidate.kind == "round" else n_atoms * d
    logs = step[n_atoms * d : n_atoms * d + n_logs].reshape(n_atoms, -1)
    slants = atoms.slants
    if candidate.kind == "full":
        rows, columns = np.tril_indices(d, -1)
        slants = slants.copy()
        slants[:, rows, columns] += step[2 * n_atoms * d : -n_atoms].reshape(n_atoms, -1)
    least, largest = (bound / 2.0 for bound in target.log_variance_bounds)
    moved = atoms.logs + np.clip(logs, -_LARGEST_LOG_CHANGE, _LARGEST_LOG_CHANGE)
    return Ellipsoids(
        centres=np.clip(
            atoms.centres + step[: n_atoms * d].reshape(n_atoms, d), target.lower, target.upper
        ),
        logs=np.clip(moved, least, largest),
        slants=slants,
        weights=np.maximum(atoms.weights + step[-n_atoms:], 0.0),
    )
