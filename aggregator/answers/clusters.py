"""The inverse problem of a snapshot; solutions and privacy promises as JSON bodies."""

from __future__ import annotations

import math
from collections.abc import Iterator
from importlib import metadata
from typing import Any, TypeVar

from sfumato.aggregator.resources.snapshots.record import SnapshotRecord
from sfumato.learning.answers.errors import describe_errors
from sfumato.learning.answers.words import name_clusters
from sfumato.learning.clustering.grid_problem import pose_grid
from sfumato.learning.decoding.solution import Solution
from sfumato.learning.decoding.verdict import Verdict
from sfumato.learning.estimate.problem import pose_problem
from sfumato.learning.estimate.search_box import Stated
from sfumato.learning.planning.quality import QualityBand, predict_quality
from sfumato.shared.errors import ConfigError
from sfumato.shared.plan import SketchPlan, make_statement
from sfumato.shared.wire.objects.answers import (
    DimensionBody,
    PrivacyBody,
    PublicFactBody,
    VerdictBody,
    describe_promise,
)
from sfumato.shared.wire.objects.declaration import make_body
from sfumato.shared.wire.objects.results import (
    BandBody,
    ChoiceBody,
    EvidenceBody,
    InfluenceBody,
    MixtureBody,
    QualityBody,
    ResultBody,
)

B = TypeVar("B")


def build_problem(
    plan: SketchPlan,
    snapshot: SnapshotRecord,
    n_clusters: int,
    search_box: Stated | None = None,
) -> Any:
    """Pose the inverse problem of a snapshot, as its decoder takes it.

    Raises
    ------
    ConfigError
        The search box does not suit the plan; a grid has none.
    DecodingError
        The number of clusters does not suit the sketch, or the sketch is not a plausible one.
    """
    if plan.kind == "grid":
        if search_box:
            raise ConfigError(
                "must be left out with a grid: its cells are fixed",
                field="search_box",
                fix="leave it out",
            )
        return pose_grid(plan, snapshot.totals, n_clusters=n_clusters)
    return pose_problem(
        plan,
        snapshot.totals,
        snapshot.weights,
        signal_energy=snapshot.signal_energy,
        n_clusters=n_clusters,
        search_box=search_box,
    )


def describe_solution(
    plan: SketchPlan,
    snapshot: SnapshotRecord,
    solution: Solution,
    *,
    search_box: Stated,
    seconds: float,
) -> ResultBody:
    """Return a solution as a body, with its quality, verdict and privacy promise."""
    quality = None if plan.kind == "grid" else _describe_quality(plan, snapshot, solution)
    verdict, evidence = solution.verdict, solution.evidence
    decoder, _, _ = solution.solver.partition("/")
    centroids = plan.space.encoder.decode(solution.centroids)
    names = [axis.name for axis in plan.axes]
    return make_body(
        ResultBody,
        solution,
        dimensions=[DimensionBody(name=axis.name, unit=axis.unit) for axis in plan.axes],
        search_box=search_box,
        mixture=_to_body(MixtureBody, solution.mixture),
        choice=_to_body(ChoiceBody, solution.choice),
        residual=float(solution.residual),
        noise_floor=float(solution.noise_floor),
        decoder=decoder,
        decoder_version=read_version(solution.solver),
        warnings=[*_list_uncovered(plan, snapshot), *solution.warnings],
        snr=snapshot.snr,
        centroids=centroids.tolist(),
        words=name_clusters(centroids, solution.weights, names),
        **describe_errors(plan, solution),
        quality=quality,
        verdict=_to_body(VerdictBody, verdict),
        band=None if verdict is None else describe_band(verdict, verdict.describe_band()),
        evidence=_to_body(EvidenceBody, evidence),
        influence=_to_body(InfluenceBody, solution.influence),
        resolved=None if evidence is None else evidence.resolved.tolist(),
        privacy=describe_promise(plan),
        seconds=seconds,
    )


def _describe_quality(
    plan: SketchPlan, snapshot: SnapshotRecord, solution: Solution
) -> QualityBody:
    quality = predict_quality(
        snr=snapshot.snr,
        n_frequencies=snapshot.n_covered,
        n_clusters=len(solution.weights),
        n_dimensions=plan.n_axes,
    )
    return make_body(QualityBody, quality, statement=quality.describe())


def _list_uncovered(plan: SketchPlan, snapshot: SnapshotRecord) -> Iterator[str]:
    if plan.kind != "fourier":
        return
    if snapshot.n_covered < plan.n_frequencies:
        yield (
            f"the selected sketches carry only {snapshot.n_covered} of {plan.n_frequencies} "
            "frequencies; select more sketches for a better answer"
        )


def read_version(solver: str) -> int:
    """Return the version in the name of a solver, such as 2 in ``mixture/2``."""
    return int(solver.partition("/")[2])


def describe_band(predicted: Verdict | QualityBand, statement: str) -> BandBody:
    """Return a band of expected quality; an infinite end is null."""
    high = predicted.high if math.isfinite(predicted.high) else None
    return BandBody(low=predicted.low, high=high, statement=statement)


def _to_body(declared: type[B], value: Any) -> B | None:
    return None if value is None else make_body(declared, value)


def describe_privacy(plan: SketchPlan, *, payload_days: float | None) -> PrivacyBody:
    """Return the privacy statement of a study: its promise, and the limits of the promise."""
    statement = make_statement(plan)
    return PrivacyBody(
        **vars(describe_promise(plan)),
        public=[make_body(PublicFactBody, fact) for fact in statement.public],
        unprotected=list(statement.unprotected),
        warnings=list(statement.cautions),
        payload_days=payload_days,
        version=metadata.version("sfumato"),
    )
