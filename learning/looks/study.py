"""Measurements of a study from the exact sums over its sketches."""

from __future__ import annotations

import numpy as np

from sfumato.learning.estimate.counts import count_records
from sfumato.learning.estimate.totals import Totals
from sfumato.learning.looks.measurement import Measurement, measure
from sfumato.learning.looks.noise import LookNoise
from sfumato.shared.errors import DecodingError, WrongStatisticError
from sfumato.shared.plan import ClustersPart, SketchPlan

_GAUSSIAN = "discrete-gaussian"


def require_look(plan: SketchPlan) -> ClustersPart:
    """Return the clusters that a plan asks for.

    Raises
    ------
    WrongStatisticError
        It has another statistic.
    """
    if not isinstance(plan.statistic, ClustersPart):
        raise WrongStatisticError(
            f"must be clusters for this and is {plan.kind}",
            field="statistic.kind",
            fix="use a study whose plan is of `sfumato plan look`",
        )
    return plan.statistic


def measure_study(plan: SketchPlan, totals: Totals, *, is_exact: bool = False) -> Measurement:
    """Measure the clusters of a study.

    Where a sketch carries only some clusters, the sums of each block stand for all records: they
    are scaled by the records of all sketches over those of the block's.

    Parameters
    ----------
    is_exact
        Whether the sums have no noise.

    Raises
    ------
    WrongStatisticError
        The plan has another statistic.
    DecodingError
        No sketch carries some of the clusters.
    """
    part = require_look(plan)
    whole = part.build_whole(plan.space)
    sketches = totals.moments.floats[0]
    count = count_records(plan, totals)
    numbers = np.array(count.by_block, dtype=np.float64)
    if not (numbers > 0).all():
        raise DecodingError(
            f"has sketches of {int((numbers > 0).sum())} of {len(numbers)} parts of the clusters",
            field="selection",
            fix="widen the slots or labels, or wait for more sketches",
        )
    factors = count.n_records / numbers if len(numbers) > 1 else np.ones(1)
    deviations = np.sqrt(sketches * plan.released_variance)
    scale, deviation = np.ones(whole.n_coordinates), np.ones(whole.n_coordinates)
    for places, factor, each in zip(plan.places, factors, deviations, strict=True):
        scale[places], deviation[places] = factor, factor * each
    noise = LookNoise(
        deviation=np.full(whole.n_coordinates, np.finfo(float).tiny) if is_exact else deviation,
        n_draws=max(1, int(sketches.min())) * plan.n_noises,
        is_gaussian=plan.release.mechanism == _GAUSSIAN,
    )
    return measure(totals.sums[: whole.n_coordinates] * scale, whole, noise)
