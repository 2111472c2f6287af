"""Enrolment tokens."""

from __future__ import annotations

import re
from typing import Any

import segno
from fastapi import APIRouter

from sfumato.aggregator.api.dependencies import (
    OPERATOR,
    Enroller,
    Identity,
    Operator,
    Page,
    ServicesDep,
    StudyId,
)
from sfumato.aggregator.api.responses import (
    OF_STUDY,
    TO_TOKEN,
    WITH_BODY,
    WITH_KEY,
    WITH_PATH,
    describe_links,
    describe_problems,
)
from sfumato.aggregator.records import TokenRecord
from sfumato.aggregator.services import Services
from sfumato.shared.wire import EnrolmentCode, encode_enrolment_code, make_page_address
from sfumato.shared.wire.objects.declaring import make_body
from sfumato.shared.wire.objects.studies import NewTokenBody, Paged, QrBody, TokenBody, TokenRequest

router = APIRouter(prefix="/v1", tags=["studies"], responses=describe_problems(*WITH_KEY))


@router.post(
    "/studies/{study}/tokens",
    status_code=201,
    responses=describe_problems(*OF_STUDY, *WITH_BODY) | {201: describe_links(TO_TOKEN)},
)
async def create_token(
    study: StudyId, body: TokenRequest, services: ServicesDep, key: Enroller
) -> NewTokenBody:
    """Create an enrolment token; its secret is shown this once.

    With the address at which devices reach this server, the answer holds an enrolment code: one
    line and a QR code, which a device or a phone beside it reads.
    """
    secret, made = await services.enrolment.create_token(
        bytes.fromhex(study), max_uses=body.max_uses, labels=body.labels, actor=key.key_id
    )
    shown = {} if body.server is None else _to_code(body.server, made.study_id, secret)
    return make_body(NewTokenBody, _to_body(made, services), token=secret, **shown)


@router.get(
    "/studies/{study}/tokens",
    dependencies=OPERATOR,
    responses=describe_problems(*OF_STUDY) | {200: describe_links(TO_TOKEN, item="/items/0")},
)
async def list_tokens(study: StudyId, services: ServicesDep, page: Page) -> Paged[TokenBody]:
    """List the enrolment tokens of a study in the order of creation, revoked ones too."""
    found = await services.enrolment.list_tokens(
        bytes.fromhex(study), after=page.after, limit=page.n_wanted
    )
    return page.make(
        found,
        show=lambda token: _to_body(token, services),
        key=lambda token: (token.created, token.token_hash),
    )


@router.delete("/tokens/{token}", tags=["operators"], responses=describe_problems(*WITH_PATH))
async def revoke_token(token: Identity, services: ServicesDep, operator: Operator) -> TokenBody:
    """Revoke an enrolment token, at once and for good; the same request again answers the same.

    The devices that it has enrolled stay: revoke or exclude them one by one.
    """
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
