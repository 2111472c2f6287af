"""Published results, and the key that signs them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from fastapi import APIRouter, Response

from sfumato.aggregator.api.dependencies import (
    ANALYST,
    Analyst,
    Operator,
    Page,
    Reader,
    ServicesDep,
    StudyId,
)
from sfumato.aggregator.api.responses import (
    BY_DEVICE,
    OF_STUDY,
    WITH_BODY,
    WITH_KEY,
    describe_problems,
)
from sfumato.aggregator.api.studies import require_enrolled
from sfumato.aggregator.job_records import ResultKeyRecord
from sfumato.shared.wire import RESULT_MEDIA_TYPE, compute_key_id
from sfumato.shared.wire.objects.declaring import make_body
from sfumato.shared.wire.objects.publications import (
    IdentityBody,
    PublicationBody,
    PublicationRequest,
    ResultKeyBody,
    RotationOrder,
)
from sfumato.shared.wire.objects.studies import Paged

router = APIRouter(prefix="/v1", tags=["publications"])


@router.post(
    "/studies/{study}/published",
    status_code=201,
    responses=describe_problems(
        *WITH_KEY, *OF_STUDY, *WITH_BODY, "decoding-invalid", "store-conflict"
    ),
)
async def publish_result(
    study: StudyId,
    body: PublicationRequest,
    services: ServicesDep,
    key: Analyst,
    response: Response,
) -> PublicationBody:
    """Sign the result of a decode for the study's devices, which may then label records locally."""
    record = await services.publishing.publish(
        bytes.fromhex(study),
        bytes.fromhex(body.decode_id),
        name=body.name,
        allow_unusable=body.allow_unusable,
        actor=key.key_id,
    )
    response.headers["Location"] = f"/v1/studies/{study}/published"
    return make_body(PublicationBody, record)


@router.get(
    "/studies/{study}/published",
    response_class=Response,
    responses=describe_problems(*BY_DEVICE, *OF_STUDY)
    | {
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
    """Return the latest published result as signed bytes; the same for every reader."""
    study_id = bytes.fromhex(study)
    if reader is not None:
        require_enrolled(reader, study_id)
    record = await services.publishing.get_latest(study_id)
    return Response(
        record.document, media_type=RESULT_MEDIA_TYPE, headers={"Cache-Control": "no-cache"}
    )


@router.get(
    "/studies/{study}/publications",
    dependencies=ANALYST,
    responses=describe_problems(*WITH_KEY, *OF_STUDY),
)
async def list_publications(
    study: StudyId, services: ServicesDep, page: Page
) -> Paged[PublicationBody]:
    """List the published results of a study, the oldest first."""
    found = await services.publishing.list_page(
        bytes.fromhex(study), after=page.after, limit=page.n_wanted
    )
    return page.make(
        found,
        show=partial(make_body, PublicationBody),
        key=lambda record: (float(record.sequence), record.decode_id),
    )


@router.get("/identity")
async def get_identity(services: ServicesDep) -> IdentityBody:
    """Show the keys that sign published results; a device pins the last one when it enrols."""
    return _show(await services.publishing.list_keys())


@router.post(
    "/identity/rotate",
    responses=describe_problems(*WITH_KEY, *WITH_BODY, "precondition-failed"),
)
async def rotate_identity(
    body: RotationOrder, services: ServicesDep, operator: Operator
) -> IdentityBody:
    """Replace the key that signs published results."""
    return _show(await services.publishing.rotate_key(endorse=body.endorse, actor=operator.key_id))


def _show(keys: Sequence[ResultKeyRecord]) -> IdentityBody:
    return IdentityBody(
        keys=[
            make_body(ResultKeyBody, key, key_id=compute_key_id(key.public_key).hex())
            for key in keys
        ]
    )
