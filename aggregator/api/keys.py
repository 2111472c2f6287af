"""API keys and the audit log, for operators."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter

from sfumato.aggregator.api.dependencies import Caller, KeyIdentity, Page, ServicesDep
from sfumato.aggregator.api.serving import serves
from sfumato.shared.wire.calls.keys import Keys
from sfumato.shared.wire.objects.declaration import make_body, maybe_timestamp
from sfumato.shared.wire.objects.studies import (
    AuditBody,
    Items,
    KeyBody,
    KeyRequest,
    NewKeyBody,
    Paged,
    SignInBody,
    SignInRequest,
)

router = APIRouter(tags=["operators"])


@serves(router, Keys.create_key)
async def create_key(body: KeyRequest, services: ServicesDep, operator: Caller) -> NewKeyBody:
    secret, record = await services.keys.create(
        name=body.name,
        scope=body.scope,
        study_id=bytes.fromhex(body.study_id) if body.study_id else None,
        expires=maybe_timestamp(body.expires),
        actor=operator.key_id,
    )
    return make_body(NewKeyBody, record, key=secret)


@serves(router, Keys.get_own_key)
async def get_own_key(key: Caller) -> KeyBody:
    return make_body(KeyBody, key)


@serves(router, Keys.get_sign_in)
async def get_sign_in(services: ServicesDep) -> SignInBody:
    return SignInBody(address=await services.sign_in.make_address())


@serves(router, Keys.sign_in)
async def sign_in(body: SignInRequest, services: ServicesDep) -> NewKeyBody:
    secret, record = await services.sign_in.redeem(body.code, body.verifier, body.nonce)
    return make_body(NewKeyBody, record, key=secret)


@serves(router, Keys.sign_out)
async def sign_out(key: Caller, services: ServicesDep) -> KeyBody:
    return make_body(KeyBody, await services.sign_in.end(key))


@serves(router, Keys.list_keys)
async def list_keys(services: ServicesDep) -> Items[KeyBody]:
    return Items(items=[make_body(KeyBody, key) for key in await services.keys.list_all()])


@serves(router, Keys.revoke_key)
async def revoke_key(key: KeyIdentity, services: ServicesDep, operator: Caller) -> KeyBody:
    return make_body(KeyBody, await services.keys.revoke(key, actor=operator.key_id))


@serves(router, Keys.list_audit)
async def list_audit(services: ServicesDep, page: Page) -> Paged[AuditBody]:
    found = await services.audit.list_page(after=page.after, limit=page.n_wanted)
    return page.make(
        found, show=partial(make_body, AuditBody), key=lambda record: (record.time, record.entry_id)
    )
