"""Calls about keys."""

from __future__ import annotations

from sfumato.shared.wire.calls.call import Bare, Call, Pages
from sfumato.shared.wire.objects.studies import AuditBody, KeyBody, KeyRequest, NewKeyBody


class Keys:
    """API keys and the audit log, for operators."""

    create_key = Call(
        "operator",
        "POST /v1/keys",
        KeyRequest,
        NewKeyBody,
        "Create an API key; its secret is shown this once.",
        status=201,
        location="/v1/keys/{key_id}",
        leads_to=("key",),
    )

    list_keys = Pages(
        "operator",
        "GET /v1/keys",
        KeyBody,
        "List API keys in the order of creation, revoked ones too.",
        is_whole=True,
    )

    revoke_key = Bare(
        "operator",
        "DELETE /v1/keys/{key}",
        KeyBody,
        "Revoke an API key, at once and for good; your own, too.",
    )

    list_audit = Pages(
        "operator",
        "GET /v1/audit",
        AuditBody,
        "List the actions of operators, the oldest first; no entry can be changed or removed.",
    )
