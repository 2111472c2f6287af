"""The scale of a private fit from a pilot: a histogram of each column, for a tenth of epsilon."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from analyst.estimators.planning import Choices, Floats, list_common, list_dimensions
from analyst.sketching.solving import sum_parts
from learning.calibration.calibration import calibrate
from learning.calibration.strength import choose_bins_log2, judge_strength
from learning.estimate.studies import read_study_marginals
from shared.errors import ConfigError
from shared.plan import PlanSpec, SketchPlan, create_plan

SHARE: Final = Fraction(1, 10)
"""Share of epsilon that the pilot spends; the sketch has the rest."""


def plan_pilot(choices: Choices, epsilon: Fraction) -> SketchPlan:
    """Plan the pilot of a fit.

    Parameters
    ----------
    choices
        Of the fit; their scale and epsilon have no effect.
    epsilon
        Of the pilot alone.

    Raises
    ------
    ConfigError
        Its noise would hide the records; nothing was spent.
    """
    spec = PlanSpec(
        dimensions=list_dimensions(choices, with_scale=False),
        statistic="histogram",
        epsilon=epsilon,
        **list_common(choices),
    )
    strength = choices.n_records * math.sqrt(8.0 / create_plan(spec).mechanism.variance)
    refusal = judge_strength(strength)
    if refusal is not None:
        raise ConfigError(
            f"cannot be found by a pilot: its noise would hide the records; {refusal.factor:.2g} "
            "times as many would do, or as much more epsilon",
            field="scale",
            fix="state it, from public knowledge",
        )
    return create_plan(replace(spec, bins_log2=choose_bins_log2(strength)))


def read_pilot(
    plan: SketchPlan, sums: NDArray[np.int64], n_records: int | None, *, n_clusters: int
) -> Floats:
    """Return the scale that a pilot suggests, pooled over columns: shape ``(d,)``.

    ``0.7 k^(-1/d)`` of the pooled spread; a function of the release.

    Parameters
    ----------
    sums, n_records
        The release of the pilot.
    """
    marginals = read_study_marginals(plan, sum_parts([(sums, n_records or 0)]))
    found = calibrate(marginals, n_clusters=n_clusters)
    spreads = np.array([column.spread for column in found.columns])
    pooled = found.scale_share * math.sqrt(float(np.mean(spreads**2)))
    # Noise may leave nothing; the sketch then has a scale all the same.
    widest = float(np.max(plan.space.upper - plan.space.lower))
    pooled = min(max(pooled, widest / 5000.0), widest)
    return np.full(plan.n_dimensions, pooled)
