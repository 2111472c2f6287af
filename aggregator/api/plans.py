"""The plan of a study, and the frequencies that follow from it."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict

from aggregator.api.dependencies import Identity, ServicesDep
from aggregator.etags import NOT_MODIFIED, IfNoneMatch, answer_not_modified, is_known
from shared.plan import encode_plan, plan_to_json

router = APIRouter(prefix="/v1/studies", tags=["studies"])

CBOR = "application/cbor"
# Neither ever changes, but a study may be withdrawn.
_CACHING = "public, no-cache"


class FrequenciesBody(BaseModel):
    """The frequencies: d rows, one for each dimension, of m columns.

    ``turns`` are whole numbers in ``2^-bits`` turns a quantisation step, of which ``digest`` is the
    SHA-256 in the plan; ``angular`` are exactly these in radians per unit of the data.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "dimensions": ["pressure", "flow"],
                "bits": 24,
                "digest": "c3" * 32,
                "turns": [[112, -40, 7], [-3, 250, 61]],
                "angular": [[0.27, -0.096, 0.017], [-0.007, 0.6, 0.15]],
            }
        }
    )

    dimensions: list[str]
    bits: int
    digest: str
    turns: list[list[int]]
    angular: list[list[float]]


@router.get(
    "/{study}/plan",
    responses=NOT_MODIFIED
    | {
        200: {
            "content": {
                "application/json": {
                    "example": {
                        "name": "weather",
                        "plan": {"format_version": 1},
                        "plan_digest": "a0" * 32,
                    }
                },
                CBOR: {"schema": {"type": "string", "format": "binary"}},
            }
        }
    },
    response_class=JSONResponse,
)
async def get_plan(
    study: Identity,
    services: ServicesDep,
    request: Request,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Show a study's plan, as JSON or, with `Accept: application/cbor`, as the hashed bytes.

    The study's identity is the hash of the name and the plan's digest, so that whoever knows it can
    check that this is the plan.
    """
    record, plan = await services.studies.get_plan(bytes.fromhex(study))
    is_cbor = CBOR in request.headers.get("accept", "")
    headers = {
        "Vary": "Accept",
        "Cache-Control": _CACHING,
        "ETag": f'"{record.plan_digest.hex()}.{"cbor" if is_cbor else "json"}"',
    }
    if is_known(headers["ETag"], if_none_match):
        return answer_not_modified(headers)
    if is_cbor:
        return Response(encode_plan(plan), media_type=CBOR, headers=headers)
    document = {
        "name": record.name,
        "plan": plan_to_json(plan),
        "plan_digest": record.plan_digest.hex(),
    }
    return JSONResponse(document, headers=headers)


@router.get("/{study}/frequencies", response_model=FrequenciesBody, responses=NOT_MODIFIED)
async def get_frequencies(
    study: Identity, services: ServicesDep, if_none_match: IfNoneMatch = None
) -> Any:
    """Show the frequencies, which anyone can draw again from the seed in the plan."""
    _, plan = await services.studies.get_plan(bytes.fromhex(study))
    frequencies = plan.frequencies
    headers = {"Cache-Control": _CACHING, "ETag": f'"{frequencies.digest.hex()}"'}
    if is_known(headers["ETag"], if_none_match):
        return answer_not_modified(headers)
    body = FrequenciesBody(
        dimensions=[dimension.name for dimension in plan.dimensions],
        bits=frequencies.bits,
        digest=frequencies.digest.hex(),
        turns=frequencies.turns.tolist(),
        angular=frequencies.to_angular(plan.quantiser).tolist(),
    )
    return JSONResponse(body.model_dump(), headers=headers)
