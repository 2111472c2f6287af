"""The inverse problem of a global sketch: find the density behind it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.decoding.problem import DecodingProblem
from sfumato.learning.estimate.counts import count_records
from sfumato.learning.estimate.devices import find_difference
from sfumato.learning.estimate.search_box import Stated, make_search_box
from sfumato.learning.estimate.totals import Totals
from sfumato.learning.estimate.utility import form_sketch, measure_noise
from sfumato.learning.estimate.weights import Weights
from sfumato.shared.plan import SketchPlan


def pose_problem(
    plan: SketchPlan,
    totals: Totals,
    weights: Weights,
    *,
    signal_energy: float,
    n_clusters: int,
    search_box: Stated | None = None,
    is_exact: bool = False,
) -> DecodingProblem:
    """Pose the inverse problem of a global sketch; features that no sketch carries are left out.

    Parameters
    ----------
    plan
        The plan of the sketches.
    totals, weights
        The sums, with the estimated number of records where it is secret; and their weights.
    signal_energy
        ``|z|^2`` under these weights, see
        :func:`sfumato.learning.estimate.utility.estimate_utility`.
    n_clusters
        k.
    search_box
        See :func:`sfumato.learning.estimate.search_box.check_search_box`; None stands for the
        plan's box.
    is_exact
        Whether no noise was added to the sums.

    Raises
    ------
    ConfigError
        The search box does not suit the plan.
    DecodingError
        The number of clusters does not suit the sketch, or the sketch is implausible.
    """
    count = count_records(plan, totals)
    noise = measure_noise(plan, totals.moments, count, weights, is_exact=is_exact)
    n_effective = weights.compute_effective_records(totals.moments)
    is_known = noise.is_known[plan.blocks.block_of]
    of_feature = plan.blocks.block_of[is_known]
    sampling = max(0.0, 1.0 / plan.alpha - signal_energy) / n_effective[of_feature]
    counting = count.relative_variance[of_feature] * signal_energy
    difference = find_difference(plan, totals.moments, noise.is_known, signal_energy=signal_energy)
    variances = (noise.energy + difference)[of_feature] + counting + sampling
    sketch = form_sketch(
        plan, weights, totals.moments, sums=totals.sums, size_sums=totals.size_sums
    )
    return DecodingProblem(
        sketch=sketch[is_known],
        frequencies=plan.frequencies.to_angular(plan.quantiser)[:, is_known],
        lower=np.array([axis.lower for axis in plan.axes]),
        upper=np.array([axis.upper for axis in plan.axes]),
        centre=plan.quantiser.centre,
        unit=plan.scale,
        noise_variance=float(np.mean(variances)),
        feature_noise=variances if plan.is_split else None,
        n_clusters=n_clusters,
        sampling_variance=_find_common(plan, signal_energy, n_effective),
        search_box=make_search_box(plan, search_box or {}),
        is_level=np.array([plan.dimensions[axis.dimension].is_categorical for axis in plan.axes]),
    )


def _find_common(plan: SketchPlan, signal_energy: float, n_effective: NDArray[np.float64]) -> float:
    """Return the part of the sampling variance that all features have in common.

    Masks vary each coordinate independently; the sample of records is common to all. Blocks have
    records of their own, so that nothing is common to all features.
    """
    return 0.0 if plan.is_split else max(0.0, 1.0 - signal_energy) / float(n_effective[0])
