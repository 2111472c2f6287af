"""Enrolment tokens."""

from __future__ import annotations

import re
from typing import Any

import segno
from fastapi import APIRouter

from sfumato.aggregator.api.dependencies import Caller, Identity, Page, ServicesDep, StudyId
from sfumato.aggregator.api.serving import serves
from sfumato.aggregator.resources.devices.record import TokenRecord
from sfumato.aggregator.services import Services
from sfumato.shared.wire import EnrolmentCode, encode_enrolment_code, make_page_address
from sfumato.shared.wire.calls.tokens import Tokens
from sfumato.shared.wire.objects.declaration import make_body
from sfumato.shared.wire.objects.studies import NewTokenBody, Paged, QrBody, TokenBody, TokenRequest

router = APIRouter(tags=["studies"])


@serves(router, Tokens.create_token)
async def create_token(
    study: StudyId, body: TokenRequest, services: ServicesDep, key: Caller
) -> NewTokenBody:
    secret, made = await services.enrolment.create_token(
        study, max_uses=body.max_uses, labels=body.labels, actor=key.key_id
    )
    shown = {} if body.server is None else _to_code(body.server, made.study_id, secret)
    return make_body(NewTokenBody, _to_body(made, services), token=secret, **shown)


@serves(router, Tokens.list_tokens)
async def list_tokens(study: StudyId, services: ServicesDep, page: Page) -> Paged[TokenBody]:
    found = await services.enrolment.list_tokens(study, after=page.after, limit=page.n_wanted)
    return page.make(
        found,
        show=lambda token: _to_body(token, services),
        key=lambda token: (token.created, token.token_hash),
    )


@serves(router, Tokens.revoke_token, tags=["operators"])
async def revoke_token(token: Identity, services: ServicesDep, operator: Caller) -> TokenBody:
    revoked = await services.enrolment.revoke_token(bytes.fromhex(token), actor=operator.key_id)
    return _to_body(revoked, services)


def _to_code(server: str, study: bytes, token: str) -> dict[str, Any]:
    meant = EnrolmentCode(server=server.rstrip("/"), study=study, token=token)
    code = encode_enrolment_code(meant)
    drawn = segno.make_qr(code, error="m")
    found = re.search(r' d="([^"]+)"', drawn.svg_inline(border=0))
    if found is None:
        raise AssertionError("segno draws a QR code as one path")
    qr = QrBody(size=int(drawn.symbol_size(border=0)[0]), path=found[1])
    return {"code": code, "qr": qr, "page": make_page_address(meant)}


def _to_body(token: TokenRecord, services: Services) -> TokenBody:
    return make_body(
        TokenBody,
        token,
        token_id=token.token_hash.hex(),
        state=token.state_at(services.clock.now()),
        uses_left=token.max_uses - token.uses,
    )
