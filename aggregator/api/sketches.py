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

_EXAMPLE = (
    "82d2845853a3012703782a6170706c69636174696f6e2f766e642e7366756d61746f2e736b657463682d686561"
    "6465722b63626f720458205237586d4b06d73d565db34435865ea946a150275b042783ab61298c6287f1e7a058"
    "c3ae010102686c6f63616c2e7631035820d47fc893f61187278d207d79d9d8859563792597f202cb99449bb6df"
    "946b660b0458202ee10d4a3110a4d391aec77c117ac83ef4e7451877f049840e63799dea5c7495055820523758"
    "6d4b06d73d565db34435865ea946a150275b042783ab61298c6287f1e706677765617468657207000882010109"
    "050af50b50d52375c08b8950561b57a780bb266a640c800d18480e5820a6f91af3a1681e8c3034566298c3255b"
    "32511b460521e3032c0aed0676db178258401796858496ad3b2f0abfebb25127475798883431f8ad9c658368b0"
    "62ff7476366177cdaead9589d0383ac6aed5a0a5d9107f55ec819c4038c5c29c21ae75aa065848f6ae00f04303"
    "82deff66ce015a06fdd40dffd27f001dc8014e58fe51f902e682fdccdcfcd3fbfe17ab008adafc8eccfce38efd"
    "aef1ffc5befd1d8c001558fc90fc00210cffbb7a02"
)
_UPLOAD: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "Deterministic CBOR, `[18([protected, {}, header, signature]), payload]`: a "
        "COSE_Sign1 (RFC 9052) of the header, and the sums that it names by length and SHA-256. "
        "`shared/wire/sketch.cddl` in the source specifies every byte, and `sketch` of the path as "
        "the SHA-256 of `sketch-id-input`. Send the bytes as they are, without Content-Encoding. "
        "No key is needed: the signature is the device's.",
        "content": {
            SKETCH_MEDIA_TYPE: {
                "schema": {"type": "string", "format": "binary"},
                "examples": {
                    "sketch": {
                        "summary": "A sketch of 12 frequencies, in hexadecimal",
                        "value": _EXAMPLE,
                    }
                },
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
