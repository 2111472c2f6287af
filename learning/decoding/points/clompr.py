"""CL-OMPR, the paper's decoder: orthogonal matching pursuit with replacement over point masses.

Keriven, Tremblay, Traonmilin, Gribonval, "Compressive K-means", ICASSP 2017, algorithm 1; the
decoder of the seed paper (Schellekens et al., ICASSP 2019, reference 8). It is the reference
solver: plain and faithful rather than the best. The paper has no noise that differs between
features; here `sfumato.learning.decoding.equations` weighs the equations then.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from sfumato.learning.decoding.descent import descend, fit_nonnegative
from sfumato.learning.decoding.equations import StandardisedProblem, standardise, weigh_equations
from sfumato.learning.decoding.points.atoms import (
    compute_atoms,
    compute_correlation,
    compute_misfit,
)
from sfumato.learning.decoding.problem import DecodingProblem, Vector
from sfumato.learning.decoding.solution import Fit, Solution, assemble_solution
from sfumato.learning.decoding.solver import Monitor, check_count, check_fraction

__all__ = ["ClOmpr"]


@dataclass(frozen=True, kw_only=True)
class ClOmpr:
    """The CL-OMPR solver.

    Parameters
    ----------
    n_replicates : int
        Independent runs; the one with the lowest residual is kept.
    n_starts : int
        Random starts of the search for a new atom (step 1); the best wins. The paper has 1.
    max_iterations : int
        Limit of L-BFGS-B iterations in one search or one joint descent.
    tolerance : float
        Relative decrease of the (scaled) objective at which a descent stops.

    Raises
    ------
    DecodingError
        A setting is out of range.

    Guarantees
    ----------
    Replicate i draws from the i-th child of `rng` alone, so results do not depend on scheduling;
    they are the same bits for the same problem, settings, `rng` state and numerical libraries.
    Starts do not depend on the sketch.
    """

    name: ClassVar[str] = "cl-ompr/1"

    n_replicates: int = 5
    n_starts: int = 1
    max_iterations: int = 1000
    tolerance: float = 1e-9

    def __post_init__(self) -> None:
        """Refuse settings out of range."""
        for field, limit in _LIMITS.items():
            check_count(field, getattr(self, field), limit)
        check_fraction("tolerance", self.tolerance)

    def solve(
        self,
        problem: DecodingProblem,
        *,
        rng: np.random.Generator,
        progress: Callable[[float], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> Solution:
        """Recover centroids; see `Solver.solve`."""
        problem = weigh_equations(problem)
        standard = standardise(problem)
        monitor = Monitor(self.n_replicates * 2 * standard.n_clusters, progress, cancelled)
        children = rng.spawn(self.n_replicates)
        fits = [self._run_replicate(standard, child, monitor) for child in children]
        return assemble_solution(problem, fits, solver=self.name)

    def _run_replicate(
        self, problem: StandardisedProblem, rng: np.random.Generator, monitor: Monitor
    ) -> Fit:
        """Run the 2k rounds of algorithm 1 from an empty mixture."""
        fit = _start(problem)
        for _ in range(2 * problem.n_clusters):
            fit = self._run_round(problem, fit, rng, monitor)
            monitor.advance()
        return fit

    def _run_round(
        self, problem: StandardisedProblem, fit: Fit, rng: np.random.Generator, monitor: Monitor
    ) -> Fit:
        """Run steps 1 to 5: add an atom, replace if there are too many, and refit."""
        # Steps 1 and 2: the atom most correlated with the residual joins the support. Step 6's
        # residual is computed here, from the last round's mixture.
        monitor.check()
        fit = self._add_atom(problem, fit, rng)
        # Step 3: hard thresholding, only once there are more than k atoms.
        if len(fit.points) > problem.n_clusters:
            fit = _replace(problem, fit)
        # Step 4: weights of the support.
        fit = _project(problem, fit)
        # Step 5: all centroids and weights jointly.
        monitor.check()
        return self._refine(problem, fit)

    def _add_atom(self, problem: StandardisedProblem, fit: Fit, rng: np.random.Generator) -> Fit:
        """Append the best maximum of Re <A(v)/||A(v)||, r> from random starts, with weight zero."""
        residual = problem.target - fit.weights @ _compute_atoms(problem, fit.points)
        # Scaled to [-1, 1]: L-BFGS-B's tolerances are absolute below 1. A zero residual stays zero.
        direction = residual / max(float(np.linalg.norm(residual)), np.finfo(np.float64).tiny)
        if problem.factors is not None:
            # <omega A, r> = <A, omega r>
            direction = direction * np.tile(problem.factors, 2)
        box = problem.search_box
        starts = rng.uniform(box.lower, box.upper, size=(self.n_starts, len(box.lower)))
        objective = partial(_anticorrelation, frequencies=problem.frequencies, direction=direction)
        descents = [
            descend(
                objective,
                start,
                problem.lower,
                problem.upper,
                max_iterations=self.max_iterations,
                tolerance=self.tolerance,
            )
            for start in starts
        ]
        best = min(descents, key=lambda descent: descent.value)
        return Fit(
            points=np.vstack([fit.points, best.point]),
            weights=np.append(fit.weights, 0.0),
            misfit=fit.misfit,
            n_failures=fit.n_failures + sum(descent.failed for descent in descents),
        )

    def _refine(self, problem: StandardisedProblem, fit: Fit) -> Fit:
        """Descend jointly over centroids in the box and weights >= 0."""
        n_atoms = len(fit.points)
        objective = partial(_scaled_misfit, problem=problem, n_atoms=n_atoms)
        result = descend(
            objective,
            np.append(fit.points.ravel(), fit.weights),
            np.append(np.tile(problem.lower, n_atoms), np.zeros(n_atoms)),
            np.append(np.tile(problem.upper, n_atoms), np.full(n_atoms, np.inf)),
            max_iterations=self.max_iterations,
            tolerance=self.tolerance,
        )
        points, weights = _unpack(result.point, n_atoms)
        misfit, _, _ = compute_misfit(
            points, weights, problem.frequencies, problem.target, problem.factors
        )
        return Fit(
            points=points, weights=weights, misfit=misfit, n_failures=fit.n_failures + result.failed
        )


# A decode runs on a shared server.
_LIMITS = {"n_replicates": 1000, "n_starts": 1000, "max_iterations": 100_000}


def _compute_atoms(problem: StandardisedProblem, points: Vector) -> Vector:
    return compute_atoms(points, problem.frequencies, problem.factors)


def _start(problem: StandardisedProblem) -> Fit:
    """Build the empty mixture; its residual is the sketch."""
    energy = float(problem.target @ problem.target)
    return Fit(
        points=np.empty((0, len(problem.lower))), weights=np.empty(0), misfit=energy, n_failures=0
    )


def _replace(problem: StandardisedProblem, fit: Fit) -> Fit:
    """Keep the k atoms with the largest non-negative coefficients on normalised atoms."""
    atoms = _compute_atoms(problem, fit.points)
    norms = np.linalg.norm(atoms, axis=1, keepdims=True)
    result = fit_nonnegative(atoms / norms, problem.target)
    kept = np.sort(np.argsort(-result.weights, kind="stable")[: problem.n_clusters])
    return Fit(
        points=fit.points[kept],
        weights=fit.weights[kept],
        misfit=fit.misfit,
        n_failures=fit.n_failures + result.failed,
    )


def _project(problem: StandardisedProblem, fit: Fit) -> Fit:
    """Find the non-negative weights on the support that explain the sketch best."""
    result = fit_nonnegative(_compute_atoms(problem, fit.points), problem.target)
    return Fit(
        points=fit.points,
        weights=result.weights,
        misfit=fit.misfit,
        n_failures=fit.n_failures + result.failed,
    )


def _anticorrelation(
    point: Vector, *, frequencies: Vector, direction: Vector
) -> tuple[float, Vector]:
    """Negate the correlation, because SciPy minimises."""
    value, gradient = compute_correlation(point, frequencies, direction)
    return -value, -gradient


def _scaled_misfit(
    parameters: Vector, *, problem: StandardisedProblem, n_atoms: int
) -> tuple[float, Vector]:
    """Divide the misfit by the sketch's energy: it is 1 without atoms."""
    energy = max(float(problem.target @ problem.target), np.finfo(np.float64).tiny)
    points, weights = _unpack(parameters, n_atoms)
    value, towards_points, towards_weights = compute_misfit(
        points, weights, problem.frequencies, problem.target, problem.factors
    )
    return value / energy, np.append(towards_points.ravel(), towards_weights) / energy


def _unpack(parameters: Vector, n_atoms: int) -> tuple[Vector, Vector]:
    """Split [points, weights] of length K (d + 1) into (K, d) and (K,)."""
    return parameters[:-n_atoms].reshape(n_atoms, -1), parameters[-n_atoms:]
