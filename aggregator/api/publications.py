"""Published results, and the key that signs them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from fastapi import APIRouter, Response

from sfumato.aggregator.api.dependencies import Caller, Page, Reader, ServicesDep, StudyId
from sfumato.aggregator.api.serving import serves
from sfumato.aggregator.api.studies import require_enrolled
from sfumato.aggregator.resources.keys.record import ResultKeyRecord
from sfumato.shared.wire import RESULT_MEDIA_TYPE, compute_key_id
from sfumato.shared.wire.calls.publications import Publications
from sfumato.shared.wire.objects.declaration import make_body
from sfumato.shared.wire.objects.publications import (
    IdentityBody,
    PublicationBody,
    PublicationRequest,
    ResultKeyBody,
    RotationOrder,
)
from sfumato.shared.wire.objects.studies import Paged

router = APIRouter(tags=["publications"])


@serves(router, Publications.publish_result)
async def publish_result(
    study: StudyId, body: PublicationRequest, services: ServicesDep, key: Caller
) -> PublicationBody:
    record = await services.publishing.publish(
        study,
        bytes.fromhex(body.decode_id),
        name=body.name,
        allow_unusable=body.allow_unusable,
        actor=key.key_id,
    )
    return make_body(PublicationBody, record)


@serves(
    router,
    Publications.get_published,
    response_class=Response,
    responses={
        200: {
            "content": {
                RESULT_MEDIA_TYPE: {
                    "schema": {"type": "string", "format": "binary"},
                    "example": "(bytes, see shared/wire/result.cddl)",
                }
            }
        }
    },
)
async def get_published(study: StudyId, services: ServicesDep, reader: Reader) -> Response:
    if reader is not None:
        require_enrolled(reader, study)
    record = await services.publishing.get_latest(study)
    return Response(
        record.document, media_type=RESULT_MEDIA_TYPE, headers={"Cache-Control": "no-cache"}
    )


@serves(router, Publications.list_publications)
async def list_publications(
    study: StudyId, services: ServicesDep, page: Page
) -> Paged[PublicationBody]:
    found = await services.publishing.list_page(study, after=page.after, limit=page.n_wanted)
    return page.make(
        found,
        show=partial(make_body, PublicationBody),
        key=lambda record: (float(record.sequence), record.decode_id),
    )


@serves(router, Publications.get_identity)
async def get_identity(services: ServicesDep) -> IdentityBody:
    return _show(await services.publishing.list_keys())


@serves(router, Publications.rotate_identity)
async def rotate_identity(
    body: RotationOrder, services: ServicesDep, operator: Caller
) -> IdentityBody:
    return _show(await services.publishing.rotate_key(endorse=body.endorse, actor=operator.key_id))


def _show(keys: Sequence[ResultKeyRecord]) -> IdentityBody:
    return IdentityBody(
        keys=[
            make_body(ResultKeyBody, key, key_id=compute_key_id(key.public_key).hex())
            for key in keys
        ]
    )
