"""Two selections of one study, from their sums to a comparison."""

from __future__ import annotations

from typing import Final

import numpy as np

from learning.estimate.counts import count_records, put_count
from learning.estimate.posing import pose_problem
from learning.estimate.totals import Totals
from learning.estimate.utility import estimate_utility
from learning.estimate.weighting import SIZE_WEIGHTS
from learning.insight.comparing import (
    LEVEL,
    SMALLEST_SHIFT,
    Comparison,
    compare,
    require_disjoint,
)
from learning.insight.model import StudyModel, explain
from learning.insight.selection import Selection, require_supported
from shared.errors import DecodingError
from shared.plan import SketchPlan

__all__ = ["compare_selections", "fit_model"]

_LEAST_SNR: Final = 1.0


def fit_model(
    plan: SketchPlan, totals: Totals, *, n_clusters: int, rng: np.random.Generator
) -> StudyModel:
    """Fit k clusters, and a density, to the sums of all sketches that are to be compared.

    Raises
    ------
    WrongStatisticError, DecodingError
        The plan is not supported; the sums hold nothing but noise; or k does not suit them.
    """
    require_supported(plan)
    count = count_records(plan, totals)
    utility = estimate_utility(plan, totals, count, SIZE_WEIGHTS)
    if not utility.n_covered or not utility.snr >= _LEAST_SNR:
        raise DecodingError(
            f"have a signal-to-noise ratio of {utility.snr:.2g} together, below {_LEAST_SNR:g}: "
            "no change could be told from noise",
            field="selection",
            fix="compare more sketches",
        )
    problem = pose_problem(
        plan,
        put_count(totals, count),
        SIZE_WEIGHTS,
        signal_energy=utility.signal_energy,
        n_clusters=n_clusters,
    )
    found = explain(problem, rng=rng)
    return StudyModel(plan=plan, fit=found.fit, density=found.density, draws=found.draws)


def compare_selections(
    plan: SketchPlan,
    first: Selection,
    second: Selection,
    *,
    n_clusters: int,
    seed: int = 0,
    level: float = LEVEL,
    smallest_shift: float = SMALLEST_SHIFT,
) -> tuple[Comparison, StudyModel]:
    """Compare two disjoint selections under the clusters of both together.

    Parameters
    ----------
    plan, first, second
        The plan of the sketches, and the selections.
    n_clusters
        Clusters of the fit whose changes are estimated.
    seed
        Of the fit and the draws; the same sums and seed give the same answer.
    level, smallest_shift
        An alarm needs a p-value below the one and a size above the other.

    Raises
    ------
    WrongStatisticError, DecodingError
        As :func:`fit_model`; or the selections overlap, or one is empty.
    """
    require_disjoint(first, second)
    for_fit, for_draws = np.random.default_rng(seed).spawn(2)
    model = fit_model(plan, first.totals + second.totals, n_clusters=n_clusters, rng=for_fit)
    found = compare(model, first, second, rng=for_draws, level=level, smallest_shift=smallest_shift)
    return found, model
