"""Advice before a study exists."""

from __future__ import annotations

from fastapi import APIRouter

from sfumato.aggregator.api.dependencies import ANALYST, ServicesDep
from sfumato.aggregator.api.responses import WITH_BODY, WITH_KEY, describe_problems
from sfumato.aggregator.services.advice import StudyAdvice
from sfumato.aggregator.services.results.answers import describe_band
from sfumato.shared.plan import make_statement, plan_to_json
from sfumato.shared.wire.bodies.advice import AdviceBody, AdviceRequest, RemediesBody
from sfumato.shared.wire.bodies.declaring import make_body

router = APIRouter(
    prefix="/v1",
    tags=["studies"],
    dependencies=ANALYST,
    responses=describe_problems(*WITH_KEY),
)


@router.post("/advice", responses=describe_problems(*WITH_BODY))
async def advise_study(body: AdviceRequest, services: ServicesDep) -> AdviceBody:
    """Recommend a plan for a study that does not exist yet, and predict its quality.

    Nothing is stored: `POST /v1/studies` with the plan creates the study. Where the outlook is not
    good, the answer says which changes would do.
    """
    return _to_body(await services.advising.advise(body), body)


def _to_body(found: StudyAdvice, asked: AdviceRequest) -> AdviceBody:
    best, remedies = found.advice.recommended, found.remedies
    if best.band.is_hopeless:
        outlook = "hopeless"
    else:
        outlook = "good" if found.advice.meets_target else "weak"
    shown = None
    if remedies is not None:
        records = remedies.n_records
        n_sketches = asked.n_devices * asked.n_windows
        shown = RemediesBody(
            epsilon=None if remedies.epsilon is None else str(remedies.epsilon),
            records_per_window=None if records is None else -(-records // n_sketches),
            n_sketches=remedies.n_sketches,
            n_clusters=remedies.n_clusters,
        )
    return make_body(
        AdviceBody,
        best,
        outlook=outlook,
        target=found.advice.target_sse,
        band=describe_band(best.band, best.band.describe()),
        clusters=found.advice.cluster_range.describe(),
        remedies=shown,
        statement=make_statement(found.plan).describe(),
        plan=plan_to_json(found.plan),
    )
