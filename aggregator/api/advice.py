"""Advice before a study exists."""

from __future__ import annotations

from fastapi import APIRouter

from sfumato.aggregator.answers.clusters import describe_band
from sfumato.aggregator.api.dependencies import ServicesDep
from sfumato.aggregator.api.serving import serves
from sfumato.aggregator.resources.studies.service.advice import StudyAdvice
from sfumato.shared.plan import make_statement, plan_to_json
from sfumato.shared.wire.calls.studies import Studies
from sfumato.shared.wire.objects.advice import AdviceBody, AdviceRequest, RemediesBody
from sfumato.shared.wire.objects.declaration import make_body

router = APIRouter(tags=["studies"])


@serves(router, Studies.advise_study)
async def advise_study(body: AdviceRequest, services: ServicesDep) -> AdviceBody:
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
