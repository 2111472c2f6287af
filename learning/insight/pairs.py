"""Two selections of one study, from their sums to a comparison."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from sfumato.learning.decoding.problem import DecodingProblem
from sfumato.learning.estimate.counts import count_records, put_count
from sfumato.learning.estimate.problem import pose_problem
from sfumato.learning.estimate.totals import Totals
from sfumato.learning.estimate.utility import estimate_utility
from sfumato.learning.estimate.weights import SIZE_WEIGHTS
from sfumato.learning.insight.comparison import (
    LEVEL,
    SMALLEST_SHIFT,
    Comparison,
    compare,
    require_disjoint,
)
from sfumato.learning.insight.covariance import MOST_FREQUENCIES, too_many_frequencies
from sfumato.learning.insight.model import StudyModel, explain
from sfumato.learning.insight.selection import Selection, require_supported
from sfumato.shared.errors import DecodingError
from sfumato.shared.plan import SketchPlan

__all__ = ["compare_selections", "fit_model", "pose_pooled"]

_LEAST_SNR: Final = 1.0


def pose_pooled(plan: SketchPlan, totals: Totals, *, n_clusters: int) -> DecodingProblem:
    """Pose the inverse problem of all sketches that are to be compared.

    Raises
    ------
    WrongStatisticError, DecodingError
        The plan is not supported; the sums hold nothing but noise; or k does not suit them.
    """
    require_supported(plan)
    if plan.n_frequencies > MOST_FREQUENCIES:
        raise too_many_frequencies(plan.n_frequencies)
    count = count_records(plan, totals)
    utility = estimate_utility(plan, totals, count, SIZE_WEIGHTS)
    if not utility.n_covered or not utility.snr >= _LEAST_SNR:
        raise DecodingError(
            f"have a signal-to-noise ratio of {utility.snr:.2g} together, below {_LEAST_SNR:g}: "
            "no change could be told from noise",
            field="selection",
            fix="compare more sketches",
        )
    return pose_problem(
        plan,
        put_count(totals, count),
        SIZE_WEIGHTS,
        signal_energy=utility.signal_energy,
        n_clusters=n_clusters,
    )


def fit_model(
    plan: SketchPlan,
    totals: Totals,
    *,
    n_clusters: int,
    rng: np.random.Generator,
    cancelled: Callable[[], bool] | None = None,
) -> StudyModel:
    """Fit k clusters, and a density, to the sums of all sketches that are to be compared.

    Raises
    ------
    WrongStatisticError, DecodingError
        As :func:`pose_pooled`.
    DecodingCancelledError
        ``cancelled`` returned true.
    """
    problem = pose_pooled(plan, totals, n_clusters=n_clusters)
    found = explain(problem, rng=rng, cancelled=cancelled)
    return StudyModel.of(plan, found)


def compare_selections(
    plan: SketchPlan,
    first: Selection,
    second: Selection,
    *,
    n_clusters: int,
    seed: int = 0,
    level: float = LEVEL,
    smallest_shift: float = SMALLEST_SHIFT,
    cancelled: Callable[[], bool] | None = None,
) -> tuple[Comparison, StudyModel]:
    """Compare two disjoint selections under the clusters of both together.

    Parameters
    ----------
    plan, first, second
        The plan of the sketches, and the selections.
    n_clusters
        Clusters of the fit whose changes are estimated.
    seed
        Seed of the fit and the draws; the same sums and seed give the same answer.
    level, smallest_shift
        An alarm needs a p-value below the one and a size above the other.
    cancelled
        Polled between steps.

    Raises
    ------
    WrongStatisticError, DecodingError
        As :func:`pose_pooled`; or the selections overlap, or one is empty.
    DecodingCancelledError
        ``cancelled`` returned true.
    """
    require_disjoint(first, second)
    for_fit, for_draws = np.random.default_rng(seed).spawn(2)
    whole = first.totals + second.totals
    model = fit_model(plan, whole, n_clusters=n_clusters, rng=for_fit, cancelled=cancelled)
    found = compare(model, first, second, rng=for_draws, level=level, smallest_shift=smallest_shift)
    return found, model
