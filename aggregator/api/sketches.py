"""Sketches: the upload, and the list."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from aggregator.api.dependencies import (
    ANALYST,
    Identity,
    Limit,
    Page,
    ServicesDep,
    decode_page,
    encode_page,
)
from aggregator.api.schemas import Paged, SketchBody, StoredBody, to_rfc3339
from aggregator.records import SketchRecord
from shared.wire import SKETCH_MEDIA_TYPE

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
    responses={200: {"model": StoredBody}},
    openapi_extra=_UPLOAD,
)
async def put_sketch(
    study: Identity, sketch: Identity, request: Request, services: ServicesDep, response: Response
) -> StoredBody:
    """Store a sketch; 200 if this very sketch is stored already.

    The message carries its own signature, so no key is needed.
    """
    is_new = await services.sketches.receive(
        bytes.fromhex(study), bytes.fromhex(sketch), await request.body()
    )
    response.status_code = 201 if is_new else 200
    return StoredBody(sketch_id=sketch)


@router.get("", dependencies=ANALYST)
async def list_sketches(
    study: Identity, services: ServicesDep, page: Page = None, limit: Limit = 100
) -> Paged[SketchBody]:
    """List the sketches of a study in the order of arrival."""
    found = await services.sketches.list_page(
        bytes.fromhex(study), after=decode_page(page), limit=limit + 1
    )
    shown = found[:limit]
    last = shown[-1] if len(found) > limit else None
    return Paged[SketchBody](
        items=[_to_body(record) for record in shown],
        next_page=encode_page((last.received, last.sketch_id)) if last else None,
    )


def _to_body(record: SketchRecord) -> SketchBody:
    slots = None
    if record.first_slot is not None and record.last_slot is not None:
        slots = (record.first_slot, record.last_slot)
    return SketchBody(
        sketch_id=record.sketch_id.hex(),
        device_id=record.device_id.hex(),
        stream=record.stream,
        sequence=record.sequence,
        slots=slots,
        n_records=record.n_records,
        payload_digest=record.payload_digest.hex(),
        received=to_rfc3339(record.received),
    )
