"""Calls about keys."""

from __future__ import annotations

from sfumato.shared.wire.calls.call import Bare, Call, Pages
from sfumato.shared.wire.objects.studies import (
    AuditBody,
    KeyBody,
    KeyRequest,
    NewKeyBody,
    SignInBody,
    SignInRequest,
)


class Keys:
    """API keys and the audit log, for operators.

    Attributes
    ----------
    create_key
        Create an API key; its secret is shown this once.
    get_own_key
        Show the key of the request.
    list_keys
        List API keys in the order of creation, revoked ones too.
    revoke_key
        Revoke an API key, at once and for good; your own, too.
    get_sign_in
        Show where people sign in by OpenID Connect, if this server is set up for it.
    sign_in
        Exchange the provider's code for a key of the person's scope.

        It is named after the person and expires after `oidc_hours`; its secret is shown this once.
    sign_out
        Revoke the key of the request, which its person got by signing in.
    list_audit
        List the actions of operators, the oldest first; no entry can be changed or removed.
    """

    create_key = Call(
        "operator",
        "POST /v1/keys",
        KeyRequest,
        NewKeyBody,
        status=201,
        location="/v1/keys/{key_id}",
        leads_to="key",
        problems="not-found study-withdrawn",
    )
    get_own_key = Bare("viewer", "GET /v1/keys/own", KeyBody, keeps_to_study=True)
    list_keys = Pages("operator", "GET /v1/keys", KeyBody, is_whole=True)
    revoke_key = Bare("operator", "DELETE /v1/keys/{key}", KeyBody)
    get_sign_in = Bare(
        "public", "GET /v1/sign-in", SignInBody, problems="sign-in-unavailable too-many-requests"
    )
    sign_in = Call(
        "public",
        "POST /v1/sign-in",
        SignInRequest,
        NewKeyBody,
        status=201,
        problems="access-denied no-group sign-in-unavailable not-found",
    )
    sign_out = Bare("viewer", "DELETE /v1/sign-in", KeyBody, problems="not-found")
    list_audit = Pages("operator", "GET /v1/audit", AuditBody)
