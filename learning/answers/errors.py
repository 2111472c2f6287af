"""Error bars of a solution in the units of the data."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from learning.decoding.solution import Solution
from shared.plan import SketchPlan

__all__ = ["show_centroid_errors"]


def show_centroid_errors(plan: SketchPlan, solution: Solution) -> NDArray[np.float64] | None:
    """Return standard errors of the centroids in data units; None where none are shown.

    On a logarithmic scale, half of the distance between one error either way.
    """
    errors = None if solution.bars is None else solution.bars.centroid_errors
    if errors is None:
        return None
    show = plan.space.encoder.decode
    return 0.5 * (show(solution.centroids + errors) - show(solution.centroids - errors))
