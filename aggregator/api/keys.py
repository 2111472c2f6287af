"""API keys and the audit log, for operators."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response

from aggregator.api.dependencies import (
    OPERATOR,
    Limit,
    Operator,
    Page,
    ServicesDep,
    decode_page,
    encode_page,
)
from aggregator.api.schemas import (
    HEX_16,
    AuditBody,
    Items,
    KeyBody,
    KeyRequest,
    NewKeyBody,
    Paged,
    maybe_rfc3339,
    to_rfc3339,
)
from aggregator.records import AuditRecord, KeyRecord

router = APIRouter(prefix="/v1", tags=["operators"], dependencies=OPERATOR)

KeyIdentity = Annotated[str, Path(pattern=HEX_16, description="16 lower-case hexadecimal digits")]


@router.post("/keys", status_code=201)
async def create_key(
    body: KeyRequest, services: ServicesDep, operator: Operator, response: Response
) -> NewKeyBody:
    """Create an API key, which is shown this once."""
    secret, record = await services.keys.create(
        name=body.name, scope=body.scope, actor=operator.key_id
    )
    response.headers["Location"] = f"/v1/keys/{record.key_id}"
    return NewKeyBody(key=secret, **_to_body(record).model_dump())


@router.get("/keys")
async def list_keys(services: ServicesDep) -> Items[KeyBody]:
    """List API keys in the order of creation, revoked ones too."""
    return Items[KeyBody](items=[_to_body(key) for key in await services.keys.list_all()])


@router.delete("/keys/{key}")
async def revoke_key(key: KeyIdentity, services: ServicesDep, operator: Operator) -> KeyBody:
    """Revoke an API key, at once and for good; your own, too."""
    return _to_body(await services.keys.revoke(key, actor=operator.key_id))


@router.get("/audit")
async def list_audit(
    services: ServicesDep, page: Page = None, limit: Limit = 100
) -> Paged[AuditBody]:
    """List what operators did, the oldest first; nothing can be changed or removed here."""
    found = await services.audit.list_page(after=decode_page(page), limit=limit + 1)
    shown = found[:limit]
    last = shown[-1] if len(found) > limit else None
    return Paged[AuditBody](
        items=[_to_audit_body(record) for record in shown],
        next_page=encode_page((last.time, last.entry_id)) if last else None,
    )


def _to_body(record: KeyRecord) -> KeyBody:
    return KeyBody(
        key_id=record.key_id,
        name=record.name,
        scope=record.scope,
        created=to_rfc3339(record.created),
        last_used=maybe_rfc3339(record.last_used),
        revoked=maybe_rfc3339(record.revoked),
    )


def _to_audit_body(record: AuditRecord) -> AuditBody:
    return AuditBody(
        time=to_rfc3339(record.time),
        actor=record.actor,
        action=record.action,
        target=record.target,
        details=dict(record.details),
    )
