"""Descent from a known mixture: the best answer that the sketch allows.

If an answer is worse than descent from the truth, the search limited it; otherwise the information
in the sketch did.
"""

import math

import numpy as np

from sfumato.learning.decoding.density import GaussianMixture
from sfumato.learning.decoding.gaussians import Atoms, measure_in_wavelengths, prepare_target
from sfumato.learning.decoding.levenberg import Fitted, evaluate, refine
from sfumato.learning.decoding.problem import DecodingProblem, Vector
from sfumato.learning.decoding.solver import Monitor

__all__ = ["descend_from", "descend_round"]

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
