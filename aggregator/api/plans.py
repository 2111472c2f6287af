"""The plan of a study, and the frequencies that follow from it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Response

from sfumato.aggregator.api.dependencies import Identity, ServicesDep
from sfumato.aggregator.api.responses import answer
from sfumato.aggregator.api.serving import serves
from sfumato.shared.plan import encode_plan, plan_to_json
from sfumato.shared.wire.calls.studies import Studies
from sfumato.shared.wire.objects.declaration import make_body
from sfumato.shared.wire.objects.devices import PlanBody
from sfumato.shared.wire.objects.results import FrequenciesBody

router = APIRouter(tags=["studies"])

CBOR = "application/cbor"
# Neither ever changes, but a study may be closed or withdrawn, or get another search box.
_CACHING = "public, no-cache"


@serves(
    router,
    Studies.get_plan,
    responses={200: {"content": {CBOR: {"schema": {"type": "string", "format": "binary"}}}}},
)
async def get_plan(
    study: Identity,
    services: ServicesDep,
    accept: Annotated[str, Header(include_in_schema=False)] = "",
) -> Response:
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


@serves(router, Studies.get_frequencies)
async def get_frequencies(study: Identity, services: ServicesDep) -> Response:
    _, plan = await services.studies.get_plan(bytes.fromhex(study))
    frequencies = plan.frequencies
    body = make_body(
        FrequenciesBody,
        frequencies,
        dimensions=[axis.name for axis in plan.axes],
        angular=frequencies.to_angular(plan.quantiser).tolist(),
    )
    return answer(body, ETag=f'"{frequencies.digest.hex()}"', Cache_Control=_CACHING)
