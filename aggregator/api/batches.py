"""Batches of masked sums: list, show, open early, admit, set aside, give up, and suspects."""

from __future__ import annotations

import hashlib

from fastapi import APIRouter

from sfumato.aggregator.api.dependencies import (
    ANALYST,
    BatchId,
    Operator,
    Page,
    ServicesDep,
    StudyId,
)
from sfumato.aggregator.api.responses import OF_STUDY, WITH_BODY, WITH_KEY, describe_problems
from sfumato.aggregator.batch_records import BatchRecord
from sfumato.aggregator.services.batches.service import BatchDetails
from sfumato.shared.structure import structure
from sfumato.shared.wire.objects.batches import (
    BatchBody,
    BatchDetailsBody,
    BatchRequest,
    SuspectBody,
    SuspectsBody,
)
from sfumato.shared.wire.objects.declaring import make_body
from sfumato.shared.wire.objects.studies import Paged
from sfumato.shared.wire.problems import Problem

router = APIRouter(
    prefix="/v1/studies/{study}/batches",
    tags=["batches"],
    responses=describe_problems(*WITH_KEY, *OF_STUDY),
)

_CHANGING = describe_problems("store-conflict")


@router.get("", dependencies=ANALYST)
async def list_batches(study: StudyId, services: ServicesDep, page: Page) -> Paged[BatchBody]:
    """List the batches of a study with a secure sum, the newest first."""
    found = await services.batches.list_page(
        bytes.fromhex(study), after=page.after, limit=page.n_wanted
    )
    return page.make(found, show=_to_body, key=lambda each: (each.created, each.batch_id))


@router.get("/suspects", dependencies=ANALYST)
async def find_suspects(study: StudyId, services: ServicesDep) -> SuspectsBody:
    """List the devices that were in a flagged part each time that parts were compared.

    Parts are drawn anew for every slot, so an innocent device leaves the list after a few.
    """
    found = await services.batches.find_suspects(bytes.fromhex(study))
    return make_body(
        SuspectsBody,
        found,
        suspects=[make_body(SuspectBody, each) for each in found.suspects],
    )


@router.get("/{batch}", dependencies=ANALYST)
async def get_batch(study: StudyId, batch: BatchId, services: ServicesDep) -> BatchDetailsBody:
    """Show a batch, with the numbers of its reports by state."""
    found = await services.batches.get(bytes.fromhex(study), bytes.fromhex(batch))
    return _to_details(found)


@router.post("/{batch}/open", responses=_CHANGING | describe_problems("batch-too-small"))
async def open_batch(
    study: StudyId, batch: BatchId, services: ServicesDep, operator: Operator
) -> BatchDetailsBody:
    """Close a batch before its time, so that a worker opens its total with the helper.

    Later reports of its slot form the next batch, with a noise of its own.
    """
    found = await services.batches.open(
        bytes.fromhex(study), bytes.fromhex(batch), actor=operator.key_id
    )
    return _to_details(found)


@router.post("/{batch}/admit", responses=_CHANGING | describe_problems(*WITH_BODY))
async def admit_batch(
    study: StudyId,
    batch: BatchId,
    body: BatchRequest,
    services: ServicesDep,
    operator: Operator,
) -> BatchDetailsBody:
    """Count the total of a batch that was flagged or set aside."""
    found = await services.batches.admit(
        bytes.fromhex(study), bytes.fromhex(batch), reason=body.reason, actor=operator.key_id
    )
    return _to_details(found)


@router.post("/{batch}/set-aside", responses=_CHANGING | describe_problems(*WITH_BODY))
async def set_batch_aside(
    study: StudyId,
    batch: BatchId,
    body: BatchRequest,
    services: ServicesDep,
    operator: Operator,
) -> BatchDetailsBody:
    """Take the total of a batch out of every sum, exactly; snapshots with it say so."""
    found = await services.batches.set_aside(
        bytes.fromhex(study), bytes.fromhex(batch), reason=body.reason, actor=operator.key_id
    )
    return _to_details(found)


@router.post("/{batch}/give-up", responses=_CHANGING | describe_problems(*WITH_BODY))
async def give_batch_up(
    study: StudyId,
    batch: BatchId,
    body: BatchRequest,
    services: ServicesDep,
    operator: Operator,
) -> BatchDetailsBody:
    """Drop the reports of a batch that will not be opened, for a helper that is gone for good.

    Later reports of its slot form the next batch. A total that the helper has cannot be given up.
    """
    found = await services.batches.give_up(
        bytes.fromhex(study), bytes.fromhex(batch), reason=body.reason, actor=operator.key_id
    )
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
