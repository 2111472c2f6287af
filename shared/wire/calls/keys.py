"""Calls about keys."""

from __future__ import annotations

from sfumato.shared.wire.calls.call import Bare, Call, Pages
from sfumato.shared.wire.objects.studies import AuditBody, KeyBody, KeyRequest, NewKeyBody


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
    list_audit = Pages("operator", "GET /v1/audit", AuditBody)
