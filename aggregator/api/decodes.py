"""Decodes: long jobs as resources."""

from __future__ import annotations

from dataclasses import replace

from fastapi import APIRouter, Response

from sfumato.aggregator.answers.clusters import read_version
from sfumato.aggregator.api.dependencies import DecodeId, Page, ServicesDep, StudyId
from sfumato.aggregator.api.jobs import advise, count_workers, headers_of
from sfumato.aggregator.api.responses import answer
from sfumato.aggregator.api.serving import serves
from sfumato.aggregator.base.sums.selection import Selection
from sfumato.aggregator.resources.jobs.record import DecodeRecord
from sfumato.aggregator.resources.jobs.service.decodes import read_look
from sfumato.shared.structure import structure
from sfumato.shared.wire import Problem
from sfumato.shared.wire.calls.decodes import Decodes
from sfumato.shared.wire.objects.declaration import make_body
from sfumato.shared.wire.objects.looks import PlanLookRequest, PlannedLookBody
from sfumato.shared.wire.objects.questions import AnswersBody, QuestionsRequest
from sfumato.shared.wire.objects.results import (
    DecodeBody,
    DecodeRequest,
    ResultBody,
    SnapshotRequest,
)
from sfumato.shared.wire.objects.studies import Paged
from sfumato.shared.wire.objects.synthesis import SynthesisRequest, SyntheticBody

router = APIRouter(tags=["decodes"])


@serves(router, Decodes.create_decode)
async def create_decode(
    study: StudyId, body: DecodeRequest, services: ServicesDep, response: Response
) -> tuple[DecodeBody, bool]:
    decode, queued = await services.decodes.create(
        study,
        snapshot_id=bytes.fromhex(body.snapshot_id) if body.snapshot_id else None,
        selection=None if body.selection is None else to_selection(body.selection),
        weighting=None if body.selection is None else body.selection.weighting,
        n_clusters=body.n_clusters,
        decoder=body.decoder,
        settings=body.settings,
        seed=body.seed,
        search_box=body.search_box,
        looks=[bytes.fromhex(each) for each in body.looks],
    )
    advise(response, decode)
    return to_body(decode, n_workers=await count_workers(services, decode)), queued


@serves(router, Decodes.list_decodes)
async def list_decodes(study: StudyId, services: ServicesDep, page: Page) -> Paged[DecodeBody]:
    found = await services.decodes.list_page(study, after=page.after, limit=page.n_wanted)
    return page.make(found, show=_to_entry, key=lambda each: (each.created, each.decode_id))


@serves(router, Decodes.get_decode)
async def get_decode(decode: DecodeId, services: ServicesDep) -> Response:
    record = await services.decodes.get(decode)
    n_workers = await count_workers(services, record)
    response = answer(to_body(record, n_workers=n_workers), **headers_of(record, n_workers))
    advise(response, record)
    return response


@serves(router, Decodes.cancel_decode)
async def cancel_decode(decode: DecodeId, services: ServicesDep) -> DecodeBody:
    return to_body(await services.decodes.cancel(decode))


@serves(router, Decodes.ask_questions)
async def ask_questions(
    decode: DecodeId, body: QuestionsRequest, services: ServicesDep
) -> AnswersBody:
    return await services.decodes.ask(decode, body)


@serves(router, Decodes.plan_look)
async def plan_look(
    decode: DecodeId, body: PlanLookRequest, services: ServicesDep
) -> PlannedLookBody:
    return (await services.decodes.plan_look(decode, read_look(body))).to_body()


@serves(router, Decodes.draw_synthetic_records)
async def draw_synthetic_records(
    decode: DecodeId, body: SynthesisRequest, services: ServicesDep
) -> SyntheticBody:
    return await services.decodes.synthesise(decode, body)


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
    short = replace(found.result, mixture=None, evidence=None, choice=None, looks=None)
    return replace(found, result=short)
