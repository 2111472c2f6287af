"""The plan of a study, and the frequencies that follow from it."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from aggregator.api.dependencies import Identity, ServicesDep
from aggregator.api.responses import OF_STUDY, answer_conditionally, describe_problems
from aggregator.etags import NOT_MODIFIED, IfNoneMatch, answer_not_modified, is_known
from shared.plan import encode_plan, plan_to_json
from shared.wire.bodies.declaring import make_body
from shared.wire.bodies.devices import PlanBody
from shared.wire.bodies.results import FrequenciesBody

router = APIRouter(
    prefix="/v1/studies", tags=["studies"], responses=describe_problems(*OF_STUDY) | NOT_MODIFIED
)

CBOR = "application/cbor"
# Neither ever changes, but a study may be withdrawn.
_CACHING = "public, no-cache"


@router.get(
    "/{study}/plan",
    response_model=PlanBody,
    responses={200: {"content": {CBOR: {"schema": {"type": "string", "format": "binary"}}}}},
)
async def get_plan(
    study: Identity,
    services: ServicesDep,
    request: Request,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Show a study's plan, as JSON or, with `Accept: application/cbor`, as the hashed bytes.

    The study's identity is the hash of its name and the plan's digest, so that anyone who knows the
    identity can verify the plan.
    """
    record, plan = await services.studies.get_plan(bytes.fromhex(study))
    is_cbor = CBOR in request.headers.get("accept", "")
    headers = {
        "Vary": "Accept",
        "Cache-Control": _CACHING,
        "ETag": f'"{record.plan_digest.hex()}.{"cbor" if is_cbor else "json"}"',
    }
    if is_cbor and not is_known(headers["ETag"], if_none_match):
        return Response(encode_plan(plan), media_type=CBOR, headers=headers)
    body = PlanBody(name=record.name, plan=plan_to_json(plan), plan_digest=record.plan_digest.hex())
    return answer_conditionally(body, headers, if_none_match)


@router.get("/{study}/frequencies", response_model=FrequenciesBody)
async def get_frequencies(
    study: Identity, services: ServicesDep, if_none_match: IfNoneMatch = None
) -> Response:
    """Show the frequencies, which anyone can draw again from the seed in the plan."""
    _, plan = await services.studies.get_plan(bytes.fromhex(study))
    frequencies = plan.frequencies
    headers = {"Cache-Control": _CACHING, "ETag": f'"{frequencies.digest.hex()}"'}
    if is_known(headers["ETag"], if_none_match):
        return answer_not_modified(headers)
    body = make_body(
        FrequenciesBody,
        frequencies,
        dimensions=[dimension.name for dimension in plan.dimensions],
        angular=frequencies.to_angular(plan.quantiser).tolist(),
    )
    return answer_conditionally(body, headers, if_none_match)
