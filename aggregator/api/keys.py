"""API keys and the audit log, for operators."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter, Response

from sfumato.aggregator.api.dependencies import OPERATOR, KeyIdentity, Operator, Page, ServicesDep
from sfumato.aggregator.api.responses import (
    TO_KEY,
    WITH_BODY,
    WITH_KEY,
    WITH_PATH,
    describe_links,
    describe_problems,
)
from sfumato.shared.wire.objects.declaring import make_body
from sfumato.shared.wire.objects.studies import (
    AuditBody,
    Items,
    KeyBody,
    KeyRequest,
    NewKeyBody,
    Paged,
)

router = APIRouter(
    prefix="/v1",
    tags=["operators"],
    dependencies=OPERATOR,
    responses=describe_problems(*WITH_KEY),
)


@router.post(
    "/keys",
    status_code=201,
    responses=describe_problems(*WITH_BODY) | {201: describe_links(TO_KEY)},
)
async def create_key(
    body: KeyRequest, services: ServicesDep, operator: Operator, response: Response
) -> NewKeyBody:
    """Create an API key; its secret is shown this once."""
    secret, record = await services.keys.create(
        name=body.name, scope=body.scope, actor=operator.key_id
    )
    response.headers["Location"] = f"/v1/keys/{record.key_id}"
    return make_body(NewKeyBody, record, key=secret)


@router.get("/keys")
async def list_keys(services: ServicesDep) -> Items[KeyBody]:
    """List API keys in the order of creation, revoked ones too."""
    return Items(items=[make_body(KeyBody, key) for key in await services.keys.list_all()])


@router.delete("/keys/{key}", responses=describe_problems(*WITH_PATH))
async def revoke_key(key: KeyIdentity, services: ServicesDep, operator: Operator) -> KeyBody:
    """Revoke an API key, at once and for good; your own, too."""
    return make_body(KeyBody, await services.keys.revoke(key, actor=operator.key_id))


@router.get("/audit", responses=describe_problems("request-invalid"))
async def list_audit(services: ServicesDep, page: Page) -> Paged[AuditBody]:
    """List the actions of operators, the oldest first; no entry can be changed or removed."""
    found = await services.audit.list_page(after=page.after, limit=page.n_wanted)
    return page.make(
        found, show=partial(make_body, AuditBody), key=lambda record: (record.time, record.entry_id)
    )
