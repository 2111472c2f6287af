"""Decodes: long jobs as resources."""

from __future__ import annotations

from dataclasses import replace

from fastapi import APIRouter, Response

from sfumato.aggregator.api.dependencies import ANALYST, DecodeId, Page, ServicesDep, StudyId
from sfumato.aggregator.api.jobs import advise, count_workers, headers_of
from sfumato.aggregator.api.responses import (
    CONDITIONAL,
    NOT_MODIFIED,
    OF_STUDY,
    TO_DECODE,
    TO_SNAPSHOT,
    WITH_BODY,
    WITH_KEY,
    answer,
    describe_links,
    describe_problems,
)
from sfumato.aggregator.job_records import DecodeRecord
from sfumato.aggregator.records import Selection
from sfumato.aggregator.services.results.answers import read_version
from sfumato.shared.structure import structure
from sfumato.shared.wire import Problem
from sfumato.shared.wire.objects.declaring import make_body
from sfumato.shared.wire.objects.questions import AnswersBody, QuestionsRequest
from sfumato.shared.wire.objects.results import (
    DecodeBody,
    DecodeRequest,
    ResultBody,
    SnapshotRequest,
)
from sfumato.shared.wire.objects.studies import Paged
from sfumato.shared.wire.objects.synthesis import SynthesisRequest, SyntheticBody

router = APIRouter(
    prefix="/v1",
    tags=["decodes"],
    dependencies=ANALYST,
    responses=describe_problems(*WITH_KEY, *OF_STUDY),
)

_LINKS = describe_links(TO_DECODE, TO_SNAPSHOT)


@router.post(
    "/studies/{study}/decodes",
    status_code=202,
    responses=describe_problems(*OF_STUDY, *WITH_BODY, "decoding-invalid", "store-conflict")
    | {202: _LINKS, 200: {"model": DecodeBody, **_LINKS}},
)
async def create_decode(
    study: StudyId, body: DecodeRequest, services: ServicesDep, response: Response
) -> DecodeBody:
    """Queue a decode; 200 if the same decode exists. A failed or cancelled decode runs again."""
    decode, queued = await services.decodes.create(
        bytes.fromhex(study),
        snapshot_id=bytes.fromhex(body.snapshot_id) if body.snapshot_id else None,
        selection=None if body.selection is None else to_selection(body.selection),
        weighting=None if body.selection is None else body.selection.weighting,
        n_clusters=body.n_clusters,
        decoder=body.decoder,
        settings=body.settings,
        seed=body.seed,
        search_box=body.search_box,
    )
    response.status_code = 202 if queued else 200
    response.headers["Location"] = f"/v1/decodes/{decode.decode_id.hex()}"
    advise(response, decode)
    return to_body(decode, n_workers=await count_workers(services, decode))


@router.get("/studies/{study}/decodes", responses={200: describe_links(TO_DECODE, item="/items/0")})
async def list_decodes(study: StudyId, services: ServicesDep, page: Page) -> Paged[DecodeBody]:
    """List the decodes of a study, the newest first.

    Their results leave out the large parts: density, evidence and the choice of the number of
    clusters.
    """
    found = await services.decodes.list_page(
        bytes.fromhex(study), after=page.after, limit=page.n_wanted
    )
    return page.make(found, show=_to_entry, key=lambda each: (each.created, each.decode_id))


@router.get(
    "/decodes/{decode}",
    dependencies=CONDITIONAL,
    response_model=DecodeBody,
    responses=NOT_MODIFIED | {200: describe_links(TO_SNAPSHOT)},
)
async def get_decode(decode: DecodeId, services: ServicesDep) -> Response:
    """Show a decode: its state and progress, and its result or problem.

    A result never changes, and neither does its ETag. A failed or cancelled decode may be queued
    again.
    """
    record = await services.decodes.get(bytes.fromhex(decode))
    n_workers = await count_workers(services, record)
    response = answer(to_body(record, n_workers=n_workers), **headers_of(record, n_workers))
    advise(response, record)
    return response


@router.delete("/decodes/{decode}")
async def cancel_decode(decode: DecodeId, services: ServicesDep) -> DecodeBody:
    """Cancel a decode; one that has ended stays as it is."""
    return to_body(await services.decodes.cancel(bytes.fromhex(decode)))


@router.post(
    "/decodes/{decode}/questions",
    responses=describe_problems(*OF_STUDY, *WITH_BODY, "decoding-invalid"),
)
async def ask_questions(
    decode: DecodeId, body: QuestionsRequest, services: ServicesDep
) -> AnswersBody:
    """Answer questions on the records behind a decode, from its stored density.

    Shares of boxes, quantiles, densities and means, with error bars. It costs no privacy.
    """
    return await services.decodes.ask(bytes.fromhex(decode), body)


@router.post(
    "/decodes/{decode}/records",
    responses=describe_problems(*OF_STUDY, *WITH_BODY, "decoding-invalid", "wrong-statistic"),
)
async def draw_synthetic_records(
    decode: DecodeId, body: SynthesisRequest, services: ServicesDep
) -> SyntheticBody:
    """Draw synthetic records from the stored densities of a decode.

    Any number of them costs no privacy. With a histogram their columns follow it.
    """
    return await services.decodes.synthesise(bytes.fromhex(decode), body)


def to_selection(body: SnapshotRequest) -> Selection:
    """Return the selection that a request names."""
    return Selection(first_slot=body.first_slot, last_slot=body.last_slot, labels=body.labels)


def to_body(decode: DecodeRecord, *, n_workers: int | None = None) -> DecodeBody:
    """Return a decode as it is shown."""
    return make_body(
        DecodeBody,
        decode,
        n_workers=n_workers,
        decoder_version=read_version(decode.solver),
        result=decode.result and structure(ResultBody, decode.result, strict=False),
        problem=decode.problem and structure(Problem, decode.problem, strict=False),
    )


def _to_entry(decode: DecodeRecord) -> DecodeBody:
    found = to_body(decode)
    if found.result is None:
        return found
    return replace(found, result=replace(found.result, mixture=None, evidence=None, choice=None))
