"""Enrolment tokens."""

from __future__ import annotations

from fastapi import APIRouter

from aggregator.api.dependencies import (
    OPERATOR,
    Enroller,
    Identity,
    Limit,
    Operator,
    Page,
    ServicesDep,
    decode_page,
    encode_page,
)
from aggregator.api.schemas import (
    NewTokenBody,
    Paged,
    TokenBody,
    TokenRequest,
    maybe_rfc3339,
    to_rfc3339,
)
from aggregator.services.enrolment import TokenSummary

router = APIRouter(prefix="/v1", tags=["studies"])


@router.post("/studies/{study}/tokens", status_code=201)
async def create_token(
    study: Identity, body: TokenRequest, services: ServicesDep, key: Enroller
) -> NewTokenBody:
    """Create an enrolment token, which is shown this once."""
    secret, made = await services.enrolment.create_token(
        bytes.fromhex(study), max_uses=body.max_uses, labels=body.labels, actor=key.key_id
    )
    return NewTokenBody(token=secret, **_to_body(made).model_dump())


@router.get("/studies/{study}/tokens", dependencies=OPERATOR)
async def list_tokens(
    study: Identity, services: ServicesDep, page: Page = None, limit: Limit = 100
) -> Paged[TokenBody]:
    """List the enrolment tokens of a study in the order of creation, revoked ones too."""
    found = await services.enrolment.list_tokens(
        bytes.fromhex(study), after=decode_page(page), limit=limit + 1
    )
    shown = found[:limit]
    last = shown[-1].token if len(found) > limit else None
    return Paged[TokenBody](
        items=[_to_body(summary) for summary in shown],
        next_page=encode_page((last.created, last.token_hash)) if last else None,
    )


@router.delete("/tokens/{token}", tags=["operators"])
async def revoke_token(token: Identity, services: ServicesDep, operator: Operator) -> TokenBody:
    """Revoke an enrolment token, at once and for good; asked again, it answers the same.

    The devices that it has enrolled stay: revoke or exclude them one by one.
    """
    revoked = await services.enrolment.revoke_token(bytes.fromhex(token), actor=operator.key_id)
    return _to_body(revoked)


def _to_body(summary: TokenSummary) -> TokenBody:
    token = summary.token
    return TokenBody(
        token_id=token.token_hash.hex(),
        study_id=token.study_id.hex(),
        state=summary.state,
        created=to_rfc3339(token.created),
        expires=to_rfc3339(token.expires),
        max_uses=token.max_uses,
        uses_left=token.max_uses - token.uses,
        labels=None if token.labels is None else dict(token.labels),
        revoked=maybe_rfc3339(token.revoked),
    )
