"""Analyses: comparisons, timelines, groups and the health of devices, as resources."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Body, Path, Response

from sfumato.aggregator.answers.registry import KINDS
from sfumato.aggregator.api.dependencies import AnalysisId, Caller, Page, ServicesDep, StudyId
from sfumato.aggregator.api.jobs import advise, count_workers, headers_of
from sfumato.aggregator.api.responses import answer
from sfumato.aggregator.api.serving import serves
from sfumato.aggregator.resources.jobs.record import AnalysisRecord
from sfumato.aggregator.resources.jobs.service.acceptance import AcceptedChange
from sfumato.aggregator.resources.keys.record import KeyRecord
from sfumato.aggregator.resources.keys.service.keys import is_granted, require_scope
from sfumato.shared.plan import SketchPlan
from sfumato.shared.structure import structure
from sfumato.shared.wire import Problem
from sfumato.shared.wire.calls.analyses import Analyses
from sfumato.shared.wire.objects.analyses import (
    AcceptedChangeBody,
    AcceptRequest,
    AnalysisBody,
    AnalysisEntryBody,
    AnalysisRequest,
    AnswerBody,
)
from sfumato.shared.wire.objects.declaration import make_body, to_rfc3339
from sfumato.shared.wire.objects.studies import Paged

router = APIRouter(tags=["analyses"])


@serves(router, Analyses.create_analysis)
async def create_analysis(
    study: StudyId,
    body: Annotated[AnalysisRequest, Body(discriminator="kind")],
    services: ServicesDep,
    key: Caller,
    response: Response,
) -> tuple[AnalysisBody, bool]:
    require_allowed(body.kind, key)
    record, queued = await services.analyses.create(study, body)
    advise(response, record)
    return to_body(record, n_workers=await count_workers(services, record)), queued


@serves(router, Analyses.list_analyses)
async def list_analyses(
    study: StudyId, services: ServicesDep, page: Page, key: Caller
) -> Paged[AnalysisEntryBody]:
    found = await services.analyses.list_page(study, after=page.after, limit=page.n_wanted)

    def show(analysis: AnalysisRecord) -> AnalysisEntryBody:
        entry = _to_entry(analysis)
        is_shown = is_granted(key, KINDS[analysis.kind].scope)
        return entry if is_shown else replace(entry, words=None)

    return page.make(found, show=show, key=lambda each: (each.created, each.analysis_id))


@serves(router, Analyses.accept_change)
async def accept_change(
    study: StudyId, body: AcceptRequest, services: ServicesDep, key: Caller
) -> tuple[AcceptedChangeBody, bool]:
    change, plan, is_new = await services.accepting.accept(
        study, body.first_slot, note=body.note, actor=key.key_id
    )
    return _describe_accepted(change, plan), is_new


@serves(router, Analyses.list_accepted_changes)
async def list_accepted_changes(study: StudyId, services: ServicesDep) -> Paged[AcceptedChangeBody]:
    found, plan = await services.accepting.list_all(study)
    return Paged(items=[_describe_accepted(each, plan) for each in found], next_page=None)


@serves(router, Analyses.reopen_change)
async def reopen_change(
    study: StudyId,
    first_slot: Annotated[int, Path(ge=-(1 << 53), lt=1 << 53)],
    services: ServicesDep,
    key: Caller,
) -> AcceptedChangeBody:
    found, plan = await services.accepting.reopen(study, first_slot, actor=key.key_id)
    return _describe_accepted(found, plan)


@serves(router, Analyses.get_analysis)
async def get_analysis(analysis: AnalysisId, services: ServicesDep, key: Caller) -> Response:
    record = await services.analyses.get(analysis)
    require_allowed(record.kind, key)
    n_workers = await count_workers(services, record)
    response = answer(to_body(record, n_workers=n_workers), **headers_of(record, n_workers))
    advise(response, record)
    return response


@serves(router, Analyses.cancel_analysis)
async def cancel_analysis(analysis: AnalysisId, services: ServicesDep, key: Caller) -> AnalysisBody:
    record = await services.analyses.get(analysis)
    require_allowed(record.kind, key)
    return to_body(await services.analyses.cancel(record.analysis_id))


def require_allowed(kind: str, key: KeyRecord) -> None:
    """Refuse a kind of analysis that the scope of a key does not suffice for.

    Raises
    ------
    ForbiddenError
        It is for operators, and the key is an analyst's.
    """
    require_scope(key, KINDS[kind].scope)


def to_body(analysis: AnalysisRecord, *, n_workers: int | None = None) -> AnalysisBody:
    """Return an analysis as it is shown."""
    snapshots = [each["snapshot_id"] for each in analysis.inputs if each["snapshot_id"]]
    return make_body(
        AnalysisBody,
        _to_entry(analysis),
        n_workers=n_workers,
        snapshots=snapshots,
        result=analysis.result and _read_result(analysis),
    )


def _to_entry(analysis: AnalysisRecord) -> AnalysisEntryBody:
    kind = KINDS[analysis.kind]
    return make_body(
        AnalysisEntryBody,
        analysis,
        request=structure(kind.request, dict(analysis.request), strict=False),
        words=analysis.result and analysis.result["words"],
        problem=analysis.problem and structure(Problem, analysis.problem, strict=False),
    )


def _describe_accepted(change: AcceptedChange, plan: SketchPlan) -> AcceptedChangeBody:
    start, _ = plan.window.slot_bounds(change.first_slot)
    return make_body(AcceptedChangeBody, change, start=to_rfc3339(start))


def _read_result(analysis: AnalysisRecord) -> AnswerBody:
    result: AnswerBody = structure(KINDS[analysis.kind].result, analysis.result, strict=False)
    return result
