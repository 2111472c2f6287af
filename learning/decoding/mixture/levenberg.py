"""Levenberg-Marquardt in a box: the descent that all mixtures share.

A model gives its equations at a fit: Jacobian, residual, priors, bounds. A step solves

    (H + damping diag H) step = -g,   H = J J' + priors,  g = -J r + priors

with parameters that a bound holds frozen; the damping falls after each step that lowers the
objective and grows until one does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.decoding.problem import Vector
from sfumato.learning.decoding.solver import Monitor

__all__ = ["RIDGE", "Bounds", "DenseStep", "Step", "descend", "form_products", "freeze_held"]

Floating = NDArray[np.floating]

RIDGE: Final = 1e-6
"""Keeps the matrix regular for a parameter without any influence."""
_FIRST_DAMPING: Final = 0.01
_LEAST_DAMPING: Final = 1e-8
_MOST_TRIES: Final = 8


class Fit(Protocol):
    """A mixture with its objective."""

    @property
    def objective(self) -> float:
        """F."""
        ...


F = TypeVar("F", bound=Fit)


@dataclass(frozen=True, kw_only=True, eq=False)
class Bounds:
    """The box around a fit's parameters.

    Parameters
    ----------
    x, lower, upper, limits : float64 (p,)
        Parameters, their bounds, and the largest change of each in one step.
    """

    x: Vector
    lower: Vector
    upper: Vector
    limits: Vector

    def hold(self, gradient: Vector) -> NDArray[np.bool_]:
        """Find the parameters that a bound holds against their gradient: bool (p,)."""
        return ((self.x <= self.lower) & (gradient > 0.0)) | (
            (self.x >= self.upper) & (gradient < 0.0)
        )

    def move(self, step: Vector) -> Vector:
        """Return the point that a step leads to in the box."""
        step = np.clip(step, -self.limits, self.limits)
        point: Vector = np.clip(self.x + step, self.lower, self.upper)
        return point


class Step(Protocol):
    """The quadratic model at a fit."""

    def solve(self, damping: float) -> Vector | None:
        """Return the damped Newton point in the box, or None if there is none."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class DenseStep:
    """The quadratic model at a fit, with the parameters frozen that a bound holds.

    Parameters
    ----------
    bounds : Bounds
        The box.
    jacobian : float32 or float64 (p, 2m)
        J, with the rows of frozen parameters.
    gradient, hessian : float64 (p,) and (p, p)
        g and H.
    held : bool (p,)
        Frozen parameters.
    """

    bounds: Bounds
    jacobian: Floating
    gradient: Vector
    hessian: Vector
    held: NDArray[np.bool_]

    def solve(self, damping: float) -> Vector | None:
        """Return the damped Newton point in the box, or None if there is none."""
        diagonal = np.diagonal(self.hessian)
        damped = self.hessian.copy()
        damped[np.diag_indices(len(damped))] += damping * (diagonal + RIDGE * diagonal.mean())
        # LAPACK itself: it returns a code where SciPy's wrapper would raise or warn.
        from scipy.linalg import lapack  # noqa: PLC0415 - a server never needs it

        _, step, failure = lapack.dposv(damped, -self.gradient, overwrite_a=True)
        if failure != 0 or not np.all(np.isfinite(step)):
            return None
        return self.bounds.move(step)


def form_products(jacobian: Floating, residual: Floating) -> tuple[Vector, Vector]:
    """Return half-gradient and half-Hessian of ``|r|^2``, for priors to be added to."""
    # NumPy detects that both factors are one array, and computes half the products.
    hessian = (jacobian @ jacobian.T).astype(np.float64)
    return -(jacobian @ residual).astype(np.float64), hessian


def freeze_held(bounds: Bounds, jacobian: Floating, gradient: Vector, hessian: Vector) -> DenseStep:
    """Freeze the parameters that a bound holds, in place, and return the step."""
    held = bounds.hold(gradient)
    hessian[held] = 0.0
    hessian[:, held] = 0.0
    hessian[held, held] = 1.0
    gradient[held] = 0.0
    return DenseStep(
        bounds=bounds, jacobian=jacobian, gradient=gradient, hessian=hessian, held=held
    )


def descend(
    fitted: F,
    prepare: Callable[[F], Step],
    move: Callable[[F, Vector], F],
    *,
    n_iterations: int,
    tolerance: float,
    monitor: Monitor,
) -> F:
    """Descend from a fit; the objective never rises.

    Parameters
    ----------
    prepare, move
        The step at a fit, and the fit with other parameters.
    n_iterations
        Largest number of steps.
    tolerance
        Stop after a step that lowers f by less than this share.
    monitor
        Polled for cancellation before every step.
    """
    damping = _FIRST_DAMPING
    for _ in range(n_iterations):
        monitor.check()
        moved, damping = _try_steps(fitted, prepare(fitted), move, damping)
        if moved is None:
            break
        is_enough = fitted.objective - moved.objective < tolerance * fitted.objective
        fitted = moved
        if is_enough:
            break
    return fitted


def _try_steps(
    fitted: F, step: Step, move: Callable[[F, Vector], F], damping: float
) -> tuple[F | None, float]:
    """Shorten the step until the objective falls; None if it never does."""
    for attempt in range(_MOST_TRIES):
        x = step.solve(damping)
        if x is not None:
            moved = move(fitted, x)
            if moved.objective < fitted.objective:
                return moved, max(_LEAST_DAMPING, damping * (0.2 if attempt == 0 else 1.0))
        damping = max(5.0 * damping, 1e-6)
    return None, damping
