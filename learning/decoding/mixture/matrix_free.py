"""Normal equations of round atoms without their matrix: for mixtures of many parameters.

The Jacobian of K atoms is their K sketches times a few functions of the frequency,

    J' v = v_weight E + |w|^2 (c E) + sum_i w_i i (A_i E),   A = a v_centre,  c = -a s v_log / 2

so a product with it takes K (d + 2) operations an equation, and the matrix H = J J' + priors is
never formed. Conjugate gradients solve for the step. Blocks of single atoms precondition them: at
random frequencies sketches of different atoms are nearly orthogonal.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.decoding.mixture.gaussians import Atoms, Single, Target
from sfumato.learning.decoding.mixture.levenberg import RIDGE, Bounds
from sfumato.learning.decoding.problem import Vector

__all__ = ["MatrixFreeStep", "Products"]

_MOST_ITERATIONS: Final = 40
_TOLERANCE: Final = 0.1
"""Residual of the linear equations at which a step is good enough, as a share of the gradient."""


class Products:
    """Products with J and J' at a fit of K atoms, of which the chosen q are free."""

    def __init__(
        self, target: Target, atoms: Atoms, rows: Single, chosen: NDArray[np.intp]
    ) -> None:
        self._rows, self.chosen = rows, chosen
        self._frequencies, self._squares = target.frequencies, target.squares
        self._shape = len(chosen), target.n_dimensions, len(atoms)
        self._weights = atoms.weights[chosen]
        self._slopes = -0.5 * self._weights * atoms.variances[chosen]

    def apply(self, v: Vector) -> Single:
        """Return J' v, float32 (2m,)."""
        q, d, n_atoms = self._shape
        m = len(self._squares)
        terms = np.zeros((d + 2, n_atoms), dtype=np.float32)
        terms[:d, self.chosen] = v[: q * d].reshape(q, d).T * self._weights
        terms[d, self.chosen] = v[q * d : q * (d + 1)] * self._slopes
        terms[d + 1] = v[q * (d + 1) :]
        sums = terms @ self._rows
        out: Single = sums[d + 1]
        out[:m] += self._squares * sums[d, :m]
        out[m:] += self._squares * sums[d, m:]
        out[:m] -= np.einsum("dm,dm->m", self._frequencies, sums[:d, m:])
        out[m:] += np.einsum("dm,dm->m", self._frequencies, sums[:d, :m])
        return out

    def apply_transposed(self, u: Single) -> Vector:
        """Return J u, float64 (p,)."""
        q, d, n_atoms = self._shape
        m = len(self._squares)
        along = np.empty((d + 2, 2 * m), dtype=np.float32)
        np.multiply(self._frequencies, u[m:], out=along[:d, :m])
        np.multiply(self._frequencies, -u[:m], out=along[:d, m:])
        np.multiply(self._squares, u[:m], out=along[d, :m])
        np.multiply(self._squares, u[m:], out=along[d, m:])
        along[d + 1] = u
        found = (self._rows @ along.T).astype(np.float64)
        out = np.empty(q * (d + 1) + n_atoms)
        out[: q * d] = (found[self.chosen, :d] * self._weights[:, None]).ravel()
        out[q * d : q * (d + 1)] = found[self.chosen, d] * self._slopes
        out[q * (d + 1) :] = found[:, d + 1]
        return out

    def form_blocks(self) -> tuple[Vector, Vector, Vector]:
        """Return the blocks of H of single atoms.

        Those of centres (q, d, d), of log-variance and weight (q, 2, 2), and the squares of all
        weights' rows (K,). Between a centre and the others there is nothing: one row is imaginary
        where the other is real.
        """
        q, d, _ = self._shape
        m = len(self._squares)
        energies = np.square(self._rows[:, :m]) + np.square(self._rows[:, m:])
        above = np.triu_indices(d)
        products = np.concatenate(
            [
                self._frequencies[above[0]] * self._frequencies[above[1]],
                self._squares[None] ** 2,
                self._squares[None],
                np.ones((1, m), dtype=np.float32),
            ]
        )
        found = (energies @ products.T).astype(np.float64)
        own = found[self.chosen]
        centres = np.empty((q, d, d))
        centres[:, above[0], above[1]] = centres[:, above[1], above[0]] = own[:, :-3]
        centres *= (self._weights**2)[:, None, None]
        pairs = np.empty((q, 2, 2))
        pairs[:, 0, 0] = self._slopes**2 * own[:, -3]
        pairs[:, 0, 1] = pairs[:, 1, 0] = self._slopes * own[:, -2]
        pairs[:, 1, 1] = own[:, -1]
        return centres, pairs, found[:, -1]


@dataclass(frozen=True, kw_only=True, eq=False)
class MatrixFreeStep:
    """The quadratic model at a fit, by products.

    Parameters
    ----------
    bounds : Bounds
        The box.
    gradient : float64 (p,)
        g, 0 for parameters that a bound holds.
    products : Products
        J.
    blocks : tuple
        Blocks of J J', as `Products.form_blocks` returns them.
    priors : tuple of float
        Strengths of the priors on the log-variances' deviations from their mean, and on weights.
    held : bool (p,)
        Parameters that a bound holds.
    """

    bounds: Bounds
    gradient: Vector
    products: Products
    blocks: tuple[Vector, Vector, Vector]
    priors: tuple[float, float]
    held: NDArray[np.bool_]

    @classmethod
    def at(
        cls, bounds: Bounds, gradient: Vector, products: Products, priors: tuple[float, float]
    ) -> "MatrixFreeStep":
        """Freeze the parameters that a bound holds, in place, and return the step."""
        held = bounds.hold(gradient)
        gradient[held] = 0.0
        return cls(
            bounds=bounds,
            gradient=gradient,
            products=products,
            blocks=products.form_blocks(),
            priors=priors,
            held=held,
        )

    def solve(self, damping: float) -> Vector | None:
        """Return the damped Newton point in the box, or None if there is none."""
        diagonal = self._find_diagonal()
        ridge = damping * (diagonal + RIDGE * diagonal.mean())

        def multiply(v: Vector) -> Vector:
            found = self.products.apply_transposed(self.products.apply(v)) + self._weigh(v)
            found += ridge * v
            found[self.held] = 0.0
            return found

        step = _conjugate(multiply, self._precondition(ridge), -self.gradient)
        return self.bounds.move(step) if np.all(np.isfinite(step)) else None

    def _split(self, v: Vector) -> tuple[Vector, Vector, Vector]:
        n_atoms, q = len(self.blocks[2]), len(self.products.chosen)
        first = len(v) - n_atoms - q
        return v[:first], v[first : first + q], v[first + q :]

    def _weigh(self, v: Vector) -> Vector:
        """Multiply by the matrix of the priors."""
        out = np.zeros_like(v)
        _, of_logs, of_weights = self._split(out)
        _, logs, weights = self._split(v)
        of_logs += self.priors[0] * (logs - logs.sum() / len(weights))
        of_weights += self.priors[1] * weights
        return out

    def _find_diagonal(self) -> Vector:
        centres, pairs, weights = self.blocks
        on_logs = self.priors[0] * (1.0 - 1.0 / len(weights))
        return np.concatenate(
            [
                np.einsum("kii->ki", centres).ravel(),
                pairs[:, 0, 0] + on_logs,
                weights + self.priors[1],
            ]
        )

    def _precondition(self, ridge: Vector) -> Callable[[Vector], Vector]:
        """Return the product with the inverse of the atoms' blocks."""
        centres, pairs, weights = self.blocks
        q, d = len(centres), centres.shape[1]
        on_centres, on_logs, on_weights = self._split(ridge)
        centres = centres + on_centres.reshape(q, d)[:, :, None] * np.eye(d)
        pairs = pairs.copy()
        n_atoms = len(weights)
        pairs[:, 0, 0] += on_logs + self.priors[0] * (1.0 - 1.0 / n_atoms)
        pairs[:, 1, 1] += on_weights[self.products.chosen] + self.priors[1]
        of_centres, of_pairs = _invert(centres), _invert(pairs)
        of_weights = 1.0 / (weights + self.priors[1] + on_weights)

        def solve(v: Vector) -> Vector:
            along, logs, shares = self._split(v)
            own = np.stack([logs, shares[self.products.chosen]], axis=1)
            own = np.matmul(of_pairs, own[:, :, None])[:, :, 0]
            shares = of_weights * shares
            shares[self.products.chosen] = own[:, 1]
            moved = np.matmul(of_centres, along.reshape(q, d, 1)).ravel()
            found: Vector = np.concatenate([moved, own[:, 0], shares])
            found[self.held] = 0.0
            return found

        return solve


def _invert(blocks: Vector) -> Vector:
    """Invert the blocks (q, n, n); if one has no inverse, take all for their diagonals."""
    inverses: Vector
    try:
        inverses = np.linalg.inv(blocks).astype(np.float64, copy=False)
    except np.linalg.LinAlgError:
        diagonals = np.maximum(np.einsum("kii->ki", blocks), np.finfo(np.float64).tiny)
        inverses = np.eye(blocks.shape[1]) / diagonals[:, None, :]
    return inverses


def _conjugate(
    multiply: Callable[[Vector], Vector], precondition: Callable[[Vector], Vector], right: Vector
) -> Vector:
    """Solve for a step by preconditioned conjugate gradients, up to the tolerance."""
    x, r = np.zeros_like(right), right.copy()
    z = precondition(r)
    p, along = z, float(r @ z)
    enough = _TOLERANCE**2 * along
    for _ in range(_MOST_ITERATIONS):
        if not along > enough:
            break
        h = multiply(p)
        curvature = float(p @ h)
        if not curvature > 0.0:
            break
        x = x + (along / curvature) * p
        r = r - (along / curvature) * h
        z = precondition(r)
        along, before = float(r @ z), along
        p = z + (along / before) * p
    return x
