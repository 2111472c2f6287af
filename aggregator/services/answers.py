"""The inverse problem of a snapshot; solutions and privacy promises as JSON values."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import numpy as np

from aggregator.records import SnapshotRecord
from aggregator.services.snapshots import decode_size_sums, decode_sums
from learning.decoding.problem import DecodingProblem
from learning.decoding.solution import Solution
from learning.decoding.verdict import Verdict
from learning.estimate.posing import pose_problem
from learning.estimate.totals import Totals
from learning.planning.quality import predict_quality
from shared.plan import SketchPlan, make_statement


def build_problem(plan: SketchPlan, snapshot: SnapshotRecord, n_clusters: int) -> DecodingProblem:
    """Pose the inverse problem of a snapshot.

    Raises
    ------
    DecodingError
        The number of clusters does not suit the sketch, or the sketch is implausible.
    """
    return pose_problem(
        plan,
        Totals(
            sums=decode_sums(snapshot),
            size_sums=decode_size_sums(snapshot),
            moments=snapshot.moments,
        ),
        snapshot.weights,
        noise_energy=snapshot.noise_energy,
        signal_energy=snapshot.signal_energy,
        n_clusters=n_clusters,
    )


def describe_solution(
    plan: SketchPlan, snapshot: SnapshotRecord, solution: Solution, *, seconds: float
) -> dict[str, Any]:
    """Return a solution as JSON values, with its quality, verdict and privacy promise."""
    quality = predict_quality(
        snr=snapshot.snr,
        n_frequencies=plan.n_frequencies,
        n_clusters=len(solution.weights),
        n_dimensions=plan.n_dimensions,
    )
    evidence = _to_json(solution.evidence)
    resolved = evidence.pop("resolved") if evidence else None
    return {
        "dimensions": [{"name": d.name, "unit": d.unit} for d in plan.dimensions],
        "centroids": solution.centroids.tolist(),
        "weights": solution.weights.tolist(),
        "spreads": None if solution.spreads is None else solution.spreads.tolist(),
        "mixture": _to_json(solution.mixture),
        "choice": _to_json(solution.choice),
        "residual": float(solution.residual),
        "noise_floor": float(solution.noise_floor),
        "at_noise_floor": solution.at_noise_floor,
        "decoder": solution.solver.partition("/")[0],
        "decoder_version": read_version(solution.solver),
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
        "verdict": _describe_verdict(solution.verdict),
        "band": _describe_band(solution.verdict),
        "evidence": evidence,
        "resolved": resolved,
        "privacy": describe_promise(plan),
        "seconds": seconds,
    }


def read_version(solver: str) -> int:
    """Return the version in the name of a solver, such as 2 in ``mixture/2``."""
    return int(solver.partition("/")[2])


def _describe_verdict(verdict: Verdict | None) -> dict[str, Any] | None:
    return None if verdict is None else {"word": verdict.word, "sentence": verdict.sentence}


def _describe_band(verdict: Verdict | None) -> dict[str, Any] | None:
    if verdict is None:
        return None
    is_known = math.isfinite(verdict.high)
    return {
        "low": verdict.low,
        "high": verdict.high if is_known else None,
        "statement": verdict.describe_band(),
    }


def _to_json(part: Any) -> dict[str, Any] | None:
    """Return a dataclass as JSON values, without fields that are None."""
    if part is None:
        return None
    values = {field.name: getattr(part, field.name) for field in fields(part)}
    return {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in values.items()
        if value is not None
    }


def describe_promise(plan: SketchPlan) -> dict[str, Any]:
    """Return the privacy promise of a plan, which accompanies every result."""
    statement = make_statement(plan)
    return {
        "epsilon": str(plan.release.epsilon),
        "delta": str(plan.release.delta),
        "neighbouring": plan.release.neighbouring,
        "mechanism": plan.release.mechanism,
        "scale": str(plan.release.scale),
        "statement": statement.describe(),
        "max_records_per_person": (
            "unknown" if plan.max_records_per_person is None else plan.max_records_per_person
        ),
        "people": statement.people_to_json(),
    }


def describe_privacy(plan: SketchPlan) -> dict[str, Any]:
    """Return the privacy promise of a study, with what is public and what is unprotected."""
    statement = make_statement(plan)
    return {
        **describe_promise(plan),
        "public": [
            {"what": fact.what, "detail": fact.detail, "seen_by": fact.seen_by}
            for fact in statement.public
        ],
        "unprotected": list(statement.unprotected),
        "warnings": list(statement.cautions),
    }
