"""Studies, their plans, tokens, devices, refusals, privacy and utility."""

from __future__ import annotations

import re
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request, Response
from fastapi.responses import JSONResponse

from aggregator.api.dependencies import (
    ANALYST,
    Enroller,
    Identity,
    Limit,
    Operator,
    Page,
    ServicesDep,
    decode_page,
    encode_page,
)
from aggregator.api.result_schemas import PrivacyBody, UtilityBody
from aggregator.api.schemas import (
    DeviceBody,
    Items,
    Paged,
    RefusalBody,
    StateRequest,
    StudyBody,
    StudyRequest,
    TokenBody,
    TokenRequest,
    maybe_rfc3339,
    to_rfc3339,
)
from aggregator.services.privacy import describe_privacy
from aggregator.services.studies import StudySummary
from shared.plan import encode_plan, plan_to_json

router = APIRouter(prefix="/v1/studies", tags=["studies"])

CBOR = "application/cbor"
_ETAG = re.compile(r'^"(\d{1,18})\.\d{1,18}\.\d{1,18}"$')


@router.post("", status_code=201, responses={200: {"model": StudyBody}})
async def create_study(
    body: StudyRequest, services: ServicesDep, key: Operator, response: Response
) -> StudyBody:
    """Create a study from a name and a plan; 200 if it is there already."""
    summary, is_new = await services.studies.create(body.name, body.plan, actor=key.key_id)
    response.status_code = 201 if is_new else 200
    response.headers["Location"] = f"/v1/studies/{summary.study.study_id.hex()}"
    response.headers["ETag"] = _etag(summary)
    return _to_body(summary)


@router.get("", dependencies=ANALYST)
async def list_studies(
    services: ServicesDep, page: Page = None, limit: Limit = 100
) -> Paged[StudyBody]:
    """List studies in the order of creation."""
    found = await services.studies.list_page(after=decode_page(page), limit=limit + 1)
    shown = found[:limit]
    last = shown[-1].study if len(found) > limit else None
    return Paged[StudyBody](
        items=[_to_body(summary) for summary in shown],
        next_page=encode_page((last.created, last.study_id)) if last else None,
    )


@router.get(
    "/{study}",
    dependencies=ANALYST,
    response_model=StudyBody,
    responses={304: {"description": "not modified since the ETag"}},
)
async def get_study(
    study: Identity,
    services: ServicesDep,
    if_none_match: Annotated[str | None, Header()] = None,
) -> Any:
    """Show a study."""
    summary = await services.studies.get(bytes.fromhex(study))
    return _answer(summary, unless=if_none_match)


@router.patch(
    "/{study}",
    response_model=StudyBody,
)
async def change_study(
    study: Identity,
    body: StateRequest,
    services: ServicesDep,
    key: Operator,
    if_match: Annotated[str | None, Header()] = None,
) -> Any:
    """Open or close a study.

    `If-Match` compares the life cycle alone: sketches that arrive meanwhile do not make it stale.
    """
    summary = await services.studies.set_state(
        bytes.fromhex(study),
        body.state,
        expected_version=_version_in(if_match),
        actor=key.key_id,
    )
    return _answer(summary)


@router.get(
    "/{study}/plan",
    responses={
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
async def get_plan(study: Identity, services: ServicesDep, request: Request) -> Response:
    """Show a study's plan, as JSON or, with `Accept: application/cbor`, as the hashed bytes.

    The study's identity is the hash of the name and the plan's digest, so that whoever knows it can
    check that this is the plan.
    """
    record, plan = await services.studies.get_plan(bytes.fromhex(study))
    headers = {"Vary": "Accept", "Cache-Control": "public, max-age=3600"}
    if CBOR in request.headers.get("accept", ""):
        return Response(encode_plan(plan), media_type=CBOR, headers=headers)
    document = {
        "name": record.name,
        "plan": plan_to_json(plan),
        "plan_digest": record.plan_digest.hex(),
    }
    return JSONResponse(document, headers=headers)


@router.post("/{study}/tokens", status_code=201)
async def create_token(
    study: Identity, body: TokenRequest, services: ServicesDep, key: Enroller
) -> TokenBody:
    """Create an enrolment token, which is shown this once."""
    secret, token = await services.enrolment.create_token(
        bytes.fromhex(study), max_uses=body.max_uses, labels=body.labels, actor=key.key_id
    )
    return TokenBody(token=secret, max_uses=token.max_uses, expires=to_rfc3339(token.expires))


@router.get("/{study}/devices", dependencies=ANALYST)
async def list_devices(study: Identity, services: ServicesDep) -> Items[DeviceBody]:
    """List the devices of a study in the order of enrolment."""
    found = await services.studies.list_devices(bytes.fromhex(study))
    return Items[DeviceBody](
        items=[
            DeviceBody(
                device_id=device.device_id.hex(),
                labels=dict(device.labels),
                last_seen=maybe_rfc3339(device.last_seen),
                n_sketches=device.n_sketches,
            )
            for device in found
        ]
    )


@router.get("/{study}/refusals", dependencies=ANALYST)
async def list_refusals(study: Identity, services: ServicesDep) -> Items[RefusalBody]:
    """Count refused sketches by problem."""
    found = await services.studies.list_refusals(bytes.fromhex(study))
    items = [RefusalBody(problem=record.problem, count=record.count) for record in found]
    return Items[RefusalBody](items=items)


@router.get("/{study}/privacy")
async def get_privacy(study: Identity, services: ServicesDep) -> PrivacyBody:
    """Say what the study promises."""
    _, plan = await services.studies.get_plan(bytes.fromhex(study))
    return PrivacyBody.model_validate(describe_privacy(plan))


@router.get("/{study}/utility", dependencies=ANALYST)
async def get_utility(study: Identity, services: ServicesDep) -> UtilityBody:
    """Estimate how useful everything is that the study holds now."""
    utility = await services.snapshots.compute_utility(bytes.fromhex(study))
    return UtilityBody.model_validate(utility, from_attributes=True)


def _answer(summary: StudySummary, *, unless: str | None = None) -> Response:
    etag = _etag(summary)
    headers = {"ETag": etag, "Cache-Control": "no-cache"}
    if unless is not None and etag in [tag.strip() for tag in unless.split(",")]:
        return Response(status_code=304, headers=headers)
    return JSONResponse(_to_body(summary).model_dump(), headers=headers)


def _to_body(summary: StudySummary) -> StudyBody:
    study = summary.study
    # Every sketch with a public number has at least one record.
    is_secret = study.n_sketches > 0 and study.n_records == 0
    return StudyBody(
        study_id=study.study_id.hex(),
        name=study.name,
        plan_digest=study.plan_digest.hex(),
        state=study.state,
        created=to_rfc3339(study.created),
        n_sketches=study.n_sketches,
        n_records=None if is_secret else study.n_records,
        n_devices=summary.n_devices,
    )


def _etag(summary: StudySummary) -> str:
    """Return what changes with the study: its life cycle first, then what it holds."""
    return f'"{summary.study.version}.{summary.study.n_sketches}.{summary.n_devices}"'


def _version_in(if_match: str | None) -> int | None:
    """Return the life cycle's version in an ETag; one that was never given is stale."""
    if if_match is None or if_match.strip() == "*":
        return None
    found = _ETAG.match(if_match.strip())
    return int(found.group(1)) if found else 0
