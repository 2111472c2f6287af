"""Analyses: comparisons, timelines, groups and the health of devices, as resources."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Body, Path, Response

from sfumato.aggregator.api.dependencies import (
    ANALYST,
    AnalysisId,
    Analyst,
    Page,
    ServicesDep,
    StudyId,
)
from sfumato.aggregator.api.jobs import advise, count_workers, headers_of
from sfumato.aggregator.api.responses import (
    CONDITIONAL,
    NOT_MODIFIED,
    OF_STUDY,
    TO_ANALYSIS,
    WITH_BODY,
    WITH_KEY,
    answer,
    describe_links,
    describe_problems,
)
from sfumato.aggregator.job_records import AnalysisRecord
from sfumato.aggregator.records import KeyRecord
from sfumato.aggregator.services.analyses.acceptance import AcceptedChange
from sfumato.aggregator.services.analyses.registry import KINDS
from sfumato.aggregator.services.keys import is_granted, require_scope
from sfumato.shared.plan import SketchPlan
from sfumato.shared.structure import structure
from sfumato.shared.wire import Problem
from sfumato.shared.wire.bodies.analyses import (
    AcceptedChangeBody,
    AcceptRequest,
    AnalysisBody,
    AnalysisEntryBody,
    AnalysisRequest,
    AnswerBody,
)
from sfumato.shared.wire.bodies.declaring import make_body, to_rfc3339
from sfumato.shared.wire.bodies.studies import Paged

router = APIRouter(
    prefix="/v1",
    tags=["analyses"],
    dependencies=ANALYST,
    responses=describe_problems(*WITH_KEY, *OF_STUDY),
)

_LINKS = describe_links(TO_ANALYSIS)


@router.post(
    "/studies/{study}/analyses",
    status_code=202,
    responses=describe_problems(*OF_STUDY, *WITH_BODY, "decoding-invalid", "wrong-statistic")
    | {202: _LINKS, 200: {"model": AnalysisBody, **_LINKS}},
)
async def create_analysis(
    study: StudyId,
    body: Annotated[AnalysisRequest, Body(discriminator="kind")],
    services: ServicesDep,
    key: Analyst,
    response: Response,
) -> AnalysisBody:
    """Freeze the selections of an analysis and queue it; 200 if the same analysis exists.

    A failed or cancelled analysis runs again. The kinds: `comparison` of two selections,
    `timeline` of windows, `groups` by the values of a label, and `devices`, each with the rest,
    which needs an operator's key. Answers rest on released sketches alone: they cost no privacy.
    """
    require_allowed(body.kind, key)
    record, queued = await services.analyses.create(bytes.fromhex(study), body)
    response.status_code = 202 if queued else 200
    response.headers["Location"] = f"/v1/analyses/{record.analysis_id.hex()}"
    advise(response, record)
    return to_body(record, n_workers=await count_workers(services, record))


@router.get(
    "/studies/{study}/analyses", responses={200: describe_links(TO_ANALYSIS, item="/items/0")}
)
async def list_analyses(
    study: StudyId, services: ServicesDep, page: Page, key: Analyst
) -> Paged[AnalysisEntryBody]:
    """List the analyses of a study, the newest first, without their results.

    An analyst's key does not show the words of the health of devices.
    """
    found = await services.analyses.list_page(
        bytes.fromhex(study), after=page.after, limit=page.n_wanted
    )

    def show(analysis: AnalysisRecord) -> AnalysisEntryBody:
        entry = _to_entry(analysis)
        is_shown = is_granted(key, KINDS[analysis.kind].scope)
        return entry if is_shown else replace(entry, words=None)

    return page.make(found, show=show, key=lambda each: (each.created, each.analysis_id))


@router.post(
    "/studies/{study}/accepted-changes",
    status_code=201,
    responses=describe_problems(*WITH_BODY) | {200: {"model": AcceptedChangeBody}},
)
async def accept_change(
    study: StudyId, body: AcceptRequest, services: ServicesDep, key: Analyst, response: Response
) -> AcceptedChangeBody:
    """Accept a change: timelines compare later windows with what came with it.

    It is no alarm any more. 200 if it was accepted before.
    """
    change, plan, is_new = await services.accepting.accept(
        bytes.fromhex(study), body.first_slot, note=body.note, actor=key.key_id
    )
    response.status_code = 201 if is_new else 200
    return _describe_accepted(change, plan)


@router.get("/studies/{study}/accepted-changes")
async def list_accepted_changes(study: StudyId, services: ServicesDep) -> Paged[AcceptedChangeBody]:
    """List the accepted changes of a study, in order; there is one page."""
    found, plan = await services.accepting.list_all(bytes.fromhex(study))
    return Paged(items=[_describe_accepted(each, plan) for each in found], next_page=None)


@router.delete("/studies/{study}/accepted-changes/{first_slot}")
async def reopen_change(
    study: StudyId,
    first_slot: Annotated[int, Path(ge=-(1 << 53), lt=1 << 53)],
    services: ServicesDep,
    key: Analyst,
) -> AcceptedChangeBody:
    """Accept a change no longer."""
    found, plan = await services.accepting.reopen(
        bytes.fromhex(study), first_slot, actor=key.key_id
    )
    return _describe_accepted(found, plan)


@router.get(
    "/analyses/{analysis}",
    dependencies=CONDITIONAL,
    response_model=AnalysisBody,
    responses=NOT_MODIFIED,
)
async def get_analysis(analysis: AnalysisId, services: ServicesDep, key: Analyst) -> Response:
    """Show an analysis: its state and progress, and its result or problem.

    A result never changes, and neither does its ETag. A failed or cancelled analysis may be queued
    again.
    """
    record = await services.analyses.get(bytes.fromhex(analysis))
    require_allowed(record.kind, key)
    n_workers = await count_workers(services, record)
    response = answer(to_body(record, n_workers=n_workers), **headers_of(record, n_workers))
    advise(response, record)
    return response


@router.delete("/analyses/{analysis}")
async def cancel_analysis(
    analysis: AnalysisId, services: ServicesDep, key: Analyst
) -> AnalysisBody:
    """Cancel an analysis; one that has ended stays as it is."""
    record = await services.analyses.get(bytes.fromhex(analysis))
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
