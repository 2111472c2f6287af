"""The plan of a study, and the frequencies that follow from it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Response

from sfumato.aggregator.api.dependencies import Identity, ServicesDep
from sfumato.aggregator.api.responses import (
    CONDITIONAL,
    NOT_MODIFIED,
    OF_STUDY,
    answer,
    describe_problems,
)
from sfumato.shared.plan import encode_plan, plan_to_json
from sfumato.shared.wire.objects.declaring import make_body
from sfumato.shared.wire.objects.devices import PlanBody
from sfumato.shared.wire.objects.results import FrequenciesBody

router = APIRouter(
    prefix="/v1/studies",
    tags=["studies"],
    dependencies=CONDITIONAL,
    responses=describe_problems(*OF_STUDY) | NOT_MODIFIED,
)

CBOR = "application/cbor"
# Neither ever changes, but a study may be closed or withdrawn, or get another search box.
_CACHING = "public, no-cache"


@router.get(
    "/{study}/plan",
    response_model=PlanBody,
    responses={200: {"content": {CBOR: {"schema": {"type": "string", "format": "binary"}}}}},
)
async def get_plan(
    study: Identity,
    services: ServicesDep,
    accept: Annotated[str, Header(include_in_schema=False)] = "",
) -> Response:
    """Show a study's plan, as JSON or, with `Accept: application/cbor`, as the hashed bytes.

    The study's identity is the hash of its name and the plan's digest, so that anyone who knows the
    identity can verify the plan.
    """
    record, plan = await services.studies.get_plan(bytes.fromhex(study))
    digest = record.plan_digest.hex()
    if CBOR in accept:
        response = Response(encode_plan(plan), media_type=CBOR)
    else:
        body = PlanBody(
            name=record.name,
            plan=plan_to_json(plan),
            plan_digest=digest,
            state=record.state,
            search_box={name: [*bounds] for name, bounds in record.search_box.items()},
        )
        response = answer(body)
    etag = f'"{digest}.{"cbor" if CBOR in accept else record.version}"'
    response.headers.update({"Vary": "Accept", "Cache-Control": _CACHING, "ETag": etag})
    return response


@router.get("/{study}/frequencies", response_model=FrequenciesBody)
async def get_frequencies(study: Identity, services: ServicesDep) -> Response:
    """Show the frequencies, which anyone can draw again from the seed in the plan."""
    _, plan = await services.studies.get_plan(bytes.fromhex(study))
    frequencies = plan.frequencies
    body = make_body(
        FrequenciesBody,
        frequencies,
        dimensions=[axis.name for axis in plan.axes],
        angular=frequencies.to_angular(plan.quantiser).tolist(),
    )
    return answer(body, ETag=f'"{frequencies.digest.hex()}"', Cache_Control=_CACHING)
