"""Calls about tokens."""

from __future__ import annotations

from sfumato.shared.wire.calls.call import Bare, Call, Pages
from sfumato.shared.wire.objects.studies import NewTokenBody, TokenBody, TokenRequest


class Tokens:
    """Enrolment tokens.

    Attributes
    ----------
    create_token
        Create an enrolment token; its secret is shown this once.

        With the address at which devices reach this server, the answer holds an enrolment code: one
        line and a QR code, which a device or a phone beside it reads.
    list_tokens
        List the enrolment tokens of a study in the order of creation, revoked ones too.
    revoke_token
        Revoke an enrolment token, at once and for good; the same request again answers the same.

        The devices that it has enrolled stay: revoke or exclude them one by one.
    """

    create_token = Call(
        "enrol",
        "POST /v1/studies/{study}/tokens",
        TokenRequest,
        NewTokenBody,
        status=201,
        leads_to="token",
    )
    list_tokens = Pages("operator", "GET /v1/studies/{study}/tokens", TokenBody, leads_to="token")
    revoke_token = Bare("operator", "DELETE /v1/tokens/{token}", TokenBody)
