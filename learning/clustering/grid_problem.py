"""k-means from the grid of a study, posed from its exact sums."""

from __future__ import annotations

import numpy as np

from sfumato.learning.clustering.cells import CellNoise
from sfumato.learning.clustering.grid import GridProblem
from sfumato.learning.estimate.counts import count_records
from sfumato.learning.estimate.totals import Totals
from sfumato.shared.errors import WrongStatisticError
from sfumato.shared.plan import GridPart, SketchPlan


def pose_grid(plan: SketchPlan, totals: Totals, *, n_clusters: int) -> GridProblem:
    """Pose k-means from the counts of a study's grid.

    Raises
    ------
    WrongStatisticError
        The plan has no grid.
    DecodingError
        The number of clusters does not suit the grid.
    """
    if not isinstance(plan.statistic, GridPart):
        raise WrongStatisticError(
            f"must be grid for this and is {plan.kind}",
            field="statistic.kind",
            fix="use a study whose plan has the statistic grid",
        )
    lower = np.array([axis.lower for axis in plan.axes])
    upper = np.array([axis.upper for axis in plan.axes])
    return GridProblem(
        counts=totals.sums[: plan.n_features],
        cells=plan.statistic.cells,
        lower=lower,
        upper=upper,
        unit=(upper - lower) / 2.0,
        noise=CellNoise.of(plan.mechanism, n_sums=totals.n_sketches * plan.n_noises),
        n_records=float(max(1, count_records(plan, totals).n_records)),
        n_clusters=n_clusters,
    )
