"""Between snapshot and solver: the problem that a snapshot poses, and the answer as JSON."""

from __future__ import annotations

from typing import Any

import numpy as np

from aggregator.decoding.choice import ClusterChoice
from aggregator.decoding.density import GaussianMixture
from aggregator.decoding.problem import DecodingProblem
from aggregator.decoding.solution import Solution
from aggregator.ports import SnapshotRecord
from aggregator.services.privacy import describe_privacy
from aggregator.services.snapshots import decode_size_sums, decode_sums
from aggregator.services.utility import describe_band, form_sketch
from shared.plan import SketchPlan
from shared.privacy.utility import predict_quality


def build_problem(plan: SketchPlan, snapshot: SnapshotRecord, n_clusters: int) -> DecodingProblem:
    """Pose the inverse problem of a snapshot.

    Raises
    ------
    DecodingError
        The number of clusters does not suit the sketch, or the sketch is not a plausible one.
    """
    n_effective = snapshot.weights.compute_effective_records(snapshot.moments)
    sampling = max(0.0, 1.0 / plan.alpha - snapshot.signal_energy) / n_effective
    return DecodingProblem(
        sketch=form_sketch(
            plan,
            snapshot.weights,
            snapshot.moments,
            sums=decode_sums(snapshot),
            size_sums=decode_size_sums(snapshot),
        ),
        frequencies=plan.frequencies.to_angular(plan.quantiser),
        lower=np.array([dimension.lower for dimension in plan.dimensions]),
        upper=np.array([dimension.upper for dimension in plan.dimensions]),
        centre=plan.quantiser.centre,
        unit=plan.scale,
        noise_variance=snapshot.noise_energy + sampling,
        n_clusters=n_clusters,
    )


def describe_solution(
    plan: SketchPlan, snapshot: SnapshotRecord, solution: Solution, *, seconds: float
) -> dict[str, Any]:
    """Return an answer as JSON values, with what it can be trusted for."""
    quality = predict_quality(
        snr=snapshot.snr,
        n_frequencies=plan.n_frequencies,
        n_clusters=len(solution.weights),
        n_dimensions=plan.n_dimensions,
    )
    return {
        "dimensions": [{"name": d.name, "unit": d.unit} for d in plan.dimensions],
        "centroids": solution.centroids.tolist(),
        "weights": solution.weights.tolist(),
        "spreads": None if solution.spreads is None else solution.spreads.tolist(),
        "mixture": _describe_mixture(solution.mixture),
        "choice": _describe_choice(solution.choice),
        "residual": float(solution.residual),
        "noise_floor": float(solution.noise_floor),
        "at_noise_floor": solution.at_noise_floor,
        "solver": solution.solver,
        "n_replicates": solution.n_replicates,
        "agreement": solution.agreement,
        "warnings": list(solution.warnings),
        "snr": snapshot.snr,
        "quality": {
            "features_per_parameter": quality.features_per_parameter,
            "snr_per_parameter": quality.snr_per_parameter,
            "largest_relative_sse": quality.largest_relative_sse,
            "statement": quality.describe(),
        },
        # Measured with the mixture decoder, and told with its answers alone.
        "band": (
            None
            if solution.mixture is None
            else describe_band(plan, snr=snapshot.snr, n_clusters=len(solution.weights))
        ),
        "privacy": describe_privacy(plan),
        "seconds": seconds,
    }


def _describe_mixture(mixture: GaussianMixture | None) -> dict[str, Any] | None:
    if mixture is None:
        return None
    return {
        "weights": mixture.weights.tolist(),
        "means": mixture.means.tolist(),
        "variances": mixture.variances.tolist(),
    }


def _describe_choice(choice: ClusterChoice | None) -> dict[str, Any] | None:
    if choice is None:
        return None
    return {
        "residuals": choice.residuals.tolist(),
        "noise_floors": choice.noise_floors.tolist(),
        "recommended": choice.recommended,
        "reaches_floor": choice.reaches_floor,
        "statement": choice.statement,
    }
