"""Sketches: the upload, and the list."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from sfumato.aggregator.api.dependencies import Identity, Page, ServicesDep, StudyId
from sfumato.aggregator.api.serving import serves
from sfumato.aggregator.resources.sketches.record import SketchRecord
from sfumato.shared.wire import SKETCH_MEDIA_TYPE
from sfumato.shared.wire.calls.sketches import Sketches
from sfumato.shared.wire.objects.declaration import make_body
from sfumato.shared.wire.objects.devices import StoredBody
from sfumato.shared.wire.objects.studies import Paged, SketchBody

router = APIRouter(tags=["sketches"])

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


@serves(router, Sketches.put_sketch, openapi_extra=_UPLOAD)
async def put_sketch(
    study: Identity, sketch: Identity, request: Request, services: ServicesDep
) -> tuple[StoredBody, bool]:
    is_new = await services.sketches.receive(
        bytes.fromhex(study), bytes.fromhex(sketch), await request.body()
    )
    return StoredBody(sketch_id=sketch), is_new


@serves(router, Sketches.list_sketches)
async def list_sketches(study: StudyId, services: ServicesDep, page: Page) -> Paged[SketchBody]:
    found = await services.sketches.list_page(study, after=page.after, limit=page.n_wanted)
    return page.make(found, show=_to_body, key=lambda record: (record.received, record.sketch_id))


def _to_body(record: SketchRecord) -> SketchBody:
    slots = None
    if record.first_slot is not None and record.last_slot is not None:
        slots = (record.first_slot, record.last_slot)
    return make_body(SketchBody, record, slots=slots)
