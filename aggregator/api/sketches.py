"""Sketches: the upload, and the list."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from sfumato.aggregator.api.dependencies import ANALYST, Identity, Page, ServicesDep, StudyId
from sfumato.aggregator.api.responses import OF_STUDY, WITH_BODY, WITH_KEY, describe_problems
from sfumato.aggregator.records import SketchRecord
from sfumato.shared.wire import SKETCH_MEDIA_TYPE
from sfumato.shared.wire.objects.declaring import make_body
from sfumato.shared.wire.objects.devices import StoredBody
from sfumato.shared.wire.objects.studies import Paged, SketchBody

router = APIRouter(prefix="/v1/studies/{study}/sketches", tags=["sketches"])

_UPLOAD: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "A COSE_Sign1 header and its payload; `shared/wire/sketch.cddl`.",
        "content": {
            SKETCH_MEDIA_TYPE: {
                "schema": {"type": "string", "format": "binary"},
                "example": "82d28458...",
            }
        },
    }
}


@router.put(
    "/{sketch}",
    status_code=201,
    responses=describe_problems(
        *OF_STUDY,
        *WITH_BODY,
        "access-denied",
        "duplicate-upload",
        "implausible-sketch",
        "malformed-message",
        "plan-mismatch",
        "signature-invalid",
        "store-conflict",
        "study-closed",
        "too-early",
        "unsupported-version",
        "window-expired",
    )
    | {200: {"model": StoredBody}},
    openapi_extra=_UPLOAD,
)
async def put_sketch(
    study: Identity, sketch: Identity, request: Request, services: ServicesDep, response: Response
) -> StoredBody:
    """Store a sketch; 200 if the same sketch is stored already.

    The message carries its own signature, so no key is needed.
    """
    is_new = await services.sketches.receive(
        bytes.fromhex(study), bytes.fromhex(sketch), await request.body()
    )
    response.status_code = 201 if is_new else 200
    return StoredBody(sketch_id=sketch)


@router.get("", dependencies=ANALYST, responses=describe_problems(*WITH_KEY, *OF_STUDY))
async def list_sketches(study: StudyId, services: ServicesDep, page: Page) -> Paged[SketchBody]:
    """List the sketches of a study in the order of arrival."""
    found = await services.sketches.list_page(
        bytes.fromhex(study), after=page.after, limit=page.n_wanted
    )
    return page.make(found, show=_to_body, key=lambda record: (record.received, record.sketch_id))


def _to_body(record: SketchRecord) -> SketchBody:
    slots = None
    if record.first_slot is not None and record.last_slot is not None:
        slots = (record.first_slot, record.last_slot)
    return make_body(SketchBody, record, slots=slots)
