"""Batches of masked sums: list, show, open early, admit, set aside, give up, and suspects."""

from __future__ import annotations

import hashlib

from fastapi import APIRouter

from sfumato.aggregator.api.dependencies import BatchId, Caller, Page, ServicesDep, StudyId
from sfumato.aggregator.api.serving import serves
from sfumato.aggregator.resources.batches.record import BatchRecord
from sfumato.aggregator.resources.batches.service.batches import BatchDetails
from sfumato.shared.structure import structure
from sfumato.shared.wire.calls.batches import Batches
from sfumato.shared.wire.objects.batches import (
    BatchBody,
    BatchDetailsBody,
    BatchRequest,
    SuspectBody,
    SuspectsBody,
)
from sfumato.shared.wire.objects.declaration import make_body
from sfumato.shared.wire.objects.studies import Paged
from sfumato.shared.wire.problems import Problem

router = APIRouter(tags=["batches"])


@serves(router, Batches.list_batches)
async def list_batches(study: StudyId, services: ServicesDep, page: Page) -> Paged[BatchBody]:
    found = await services.batches.list_page(study, after=page.after, limit=page.n_wanted)
    return page.make(found, show=_to_body, key=lambda each: (each.created, each.batch_id))


@serves(router, Batches.find_suspects)
async def find_suspects(study: StudyId, services: ServicesDep) -> SuspectsBody:
    found = await services.batches.find_suspects(study)
    return make_body(
        SuspectsBody, found, suspects=[make_body(SuspectBody, each) for each in found.suspects]
    )


@serves(router, Batches.get_batch)
async def get_batch(study: StudyId, batch: BatchId, services: ServicesDep) -> BatchDetailsBody:
    found = await services.batches.get(study, batch)
    return _to_details(found)


@serves(router, Batches.open_batch)
async def open_batch(
    study: StudyId, batch: BatchId, services: ServicesDep, operator: Caller
) -> BatchDetailsBody:
    found = await services.batches.open(study, batch, actor=operator.key_id)
    return _to_details(found)


@serves(router, Batches.admit_batch)
async def admit_batch(
    study: StudyId, batch: BatchId, body: BatchRequest, services: ServicesDep, operator: Caller
) -> BatchDetailsBody:
    found = await services.batches.admit(study, batch, reason=body.reason, actor=operator.key_id)
    return _to_details(found)


@serves(router, Batches.set_batch_aside)
async def set_batch_aside(
    study: StudyId, batch: BatchId, body: BatchRequest, services: ServicesDep, operator: Caller
) -> BatchDetailsBody:
    found = await services.batches.set_aside(
        study, batch, reason=body.reason, actor=operator.key_id
    )
    return _to_details(found)


@serves(router, Batches.give_batch_up)
async def give_batch_up(
    study: StudyId, batch: BatchId, body: BatchRequest, services: ServicesDep, operator: Caller
) -> BatchDetailsBody:
    found = await services.batches.give_up(study, batch, reason=body.reason, actor=operator.key_id)
    return _to_details(found)


def _to_body(batch: BatchRecord) -> BatchBody:
    return make_body(BatchBody, batch, **_describe(batch))


def _to_details(found: BatchDetails) -> BatchDetailsBody:
    described = _describe(found.batch)
    return make_body(BatchDetailsBody, found.batch, **described, reports=dict(found.reports))


def _describe(batch: BatchRecord) -> dict[str, object]:
    # A total that the helper does not have yet is shown to nobody, not even by its digest.
    is_shown = batch.state == "acknowledged"
    problem = None if batch.problem is None else structure(Problem, batch.problem)
    return {
        "answer": _digest(batch.answer),
        "total": _digest(batch.sums) if is_shown else None,
        "problem": problem,
    }


def _digest(data: bytes | None) -> str | None:
    return None if data is None else hashlib.sha256(data).hexdigest()
