"""SciPy's bounded descent and non-negative least squares, wrapped so that they never raise.

Failures of SciPy become `failed=True` with the best known value, so that a solver can continue and
report them.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sfumato.learning.decoding.problem import Vector

__all__ = ["Descent", "NonnegativeFit", "descend", "fit_nonnegative"]

_FOREIGN_ERRORS = (ArithmeticError, RuntimeError, ValueError, np.linalg.LinAlgError)


@dataclass(frozen=True, kw_only=True, eq=False)
class Descent:
    """End of a descent: a point in the bounds, its value, and whether SciPy failed."""

    point: Vector
    value: float
    failed: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class NonnegativeFit:
    """Non-negative weights, always finite, and whether SciPy failed."""

    weights: Vector
    failed: bool


def descend(
    objective: Callable[[Vector], tuple[float, Vector]],
    start: Vector,
    lower: Vector,
    upper: Vector,
    *,
    max_iterations: int,
    tolerance: float,
) -> Descent:
    """Minimise a smooth function in a box by L-BFGS-B.

    Parameters
    ----------
    objective : callable
        float64 (p,) -> (value, gradient (p,)); scaled so that values of interest are about 1.
    start : float64 (p,)
        Starting point; clipped to the bounds.
    lower, upper : float64 (p,)
        Bounds, may be infinite.
    max_iterations : int
        Limit of L-BFGS-B iterations; reaching it is not a failure.
    tolerance : float
        Stop when a step lowers the value by less than `tolerance` times max(1, |value|), or when
        the projected gradient is below the square root of `tolerance`.

    Returns
    -------
    Descent
        In the bounds, and finite if `start` is; never above the value at `start`. On failure,
        `start` itself.
    """
    start = np.clip(start, lower, upper)
    value = objective(start)[0]
    try:
        from scipy.optimize import Bounds, minimize  # noqa: PLC0415 - a server never needs it

        result = minimize(
            objective,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=Bounds(lower, upper),
            options={
                "maxiter": max_iterations,
                "maxfun": 2 * max_iterations,
                "ftol": tolerance,
                "gtol": tolerance**0.5,
            },
        )
        point, reached = np.clip(result.x, lower, upper), float(result.fun)
    except _FOREIGN_ERRORS:
        return Descent(point=start, value=value, failed=True)
    if not (np.isfinite(reached) and np.all(np.isfinite(point))):
        return Descent(point=start, value=value, failed=True)
    if reached > value:
        return Descent(point=start, value=value, failed=False)
    return Descent(point=point, value=reached, failed=False)


def fit_nonnegative(atoms: Vector, target: Vector) -> NonnegativeFit:
    """Solve min ||target - weights @ atoms|| over weights >= 0.

    Parameters
    ----------
    atoms : float64 (K, p)
        One atom a row.
    target : float64 (p,)
        The vector to explain.

    Returns
    -------
    NonnegativeFit
        Weights (K,); if SciPy fails, the clipped correlations divided by K, which need no linear
        algebra.
    """
    try:
        from scipy.optimize import nnls  # noqa: PLC0415

        weights, _ = nnls(atoms.T, target)
        if np.all(np.isfinite(weights)):
            return NonnegativeFit(weights=weights, failed=False)
    except _FOREIGN_ERRORS:
        pass
    energies = np.maximum(np.sum(atoms**2, axis=1), np.finfo(np.float64).tiny)
    rough = np.nan_to_num(np.maximum(atoms @ target / energies, 0.0), posinf=0.0) / len(atoms)
    return NonnegativeFit(weights=rough, failed=True)
