"""The inverse problem of a global sketch: find the density behind it."""

from __future__ import annotations

import numpy as np

from learning.decoding.problem import DecodingProblem
from learning.estimate.totals import Totals
from learning.estimate.utility import form_sketch
from learning.estimate.weighting import Weights
from shared.plan import SketchPlan


def pose_problem(
    plan: SketchPlan,
    totals: Totals,
    weights: Weights,
    *,
    noise_energy: float,
    signal_energy: float,
    n_clusters: int,
) -> DecodingProblem:
    """Pose the inverse problem of a global sketch.

    Parameters
    ----------
    plan
        The plan of the sketches.
    totals, weights
        The sums, with the estimated number of records where it is secret; and their weights.
    noise_energy, signal_energy
        V and ``|z|^2`` under these weights, see :func:`learning.estimate.utility.estimate_utility`.
    n_clusters
        k.

    Raises
    ------
    DecodingError
        The number of clusters does not suit the sketch, or the sketch is implausible.
    """
    n_effective = weights.compute_effective_records(totals.moments)
    sampling = max(0.0, 1.0 / plan.alpha - signal_energy) / n_effective
    return DecodingProblem(
        sketch=form_sketch(
            plan, weights, totals.moments, sums=totals.sums, size_sums=totals.size_sums
        ),
        frequencies=plan.frequencies.to_angular(plan.quantiser),
        lower=np.array([dimension.lower for dimension in plan.dimensions]),
        upper=np.array([dimension.upper for dimension in plan.dimensions]),
        centre=plan.quantiser.centre,
        unit=plan.scale,
        noise_variance=noise_energy + sampling,
        n_clusters=n_clusters,
        # Masks vary each coordinate independently; the sample of records is common to all.
        sampling_variance=max(0.0, 1.0 - signal_energy) / n_effective,
    )
