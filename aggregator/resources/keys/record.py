"""Records of API keys, of the audit log, and of the keys that sign results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from sfumato.aggregator.base.columns import KEY, Length, Name, StudyId

KeyScope = Literal["operator", "analyst", "viewer", "enrol"]
AuditAction = Literal[
    "key.create",
    "key.revoke",
    "study.create",
    "study.open",
    "study.close",
    "study.search",
    "study.withdraw",
    "token.create",
    "token.revoke",
    "generation.renew",
    "identity.rotate",
    "result.publish",
    "change.accept",
    "change.reopen",
    "campaign.begin",
    "schedule.create",
    "schedule.change",
    "schedule.remove",
    "alarm.create",
    "alarm.disable",
    "alarm.enable",
    "alarm.remove",
    "device.exclude",
    "device.revoke",
    "batch.open",
    "batch.admit",
    "batch.set-aside",
    "batch.give-up",
]
LOCAL_ACTOR = "local"
"""The actor of a command on the database itself, without a key."""
SIGN_IN_ACTOR = "sign-in"
"""The actor that creates the key of a person who signs in, whom the details name."""


@dataclass(frozen=True, kw_only=True)
class KeyRecord:
    """An API key, stored as a SHA-256; ``last_used`` is exact to the minute.

    Parameters
    ----------
    study_id
        The only study that it gives access to; None for all.
    expires
        From when it is refused; None for never.
    subject
        Who signed in, as the OpenID provider identifies people; None for a key that was created.
    """

    key_id: Annotated[str, KEY, Length(32)]
    key_hash: bytes
    name: str
    scope: KeyScope
    created: float
    study_id: StudyId | None = None
    expires: float | None = None
    last_used: float | None = None
    revoked: float | None = None
    subject: str | None = None


@dataclass(frozen=True, kw_only=True)
class AuditRecord:
    """An action of an operator.

    Parameters
    ----------
    entry_id
        16 random bytes.
    actor
        The identity of a key, ``LOCAL_ACTOR`` or ``SIGN_IN_ACTOR``.
    actor_name
        The name of that key, which may be removed later; None for the other two.
    target
        The identity of the object.
    details
        The request; never a secret.
    """

    entry_id: Annotated[bytes, KEY]
    time: float
    actor: Annotated[str, Length(32)]
    action: Annotated[AuditAction, Length(32)]
    target: Name
    details: Mapping[str, Any]
    actor_name: str | None = None


@dataclass(frozen=True, kw_only=True)
class IdempotencyRecord:
    """The answer to a request that came with an ``Idempotency-Key``.

    Parameters
    ----------
    request_id
        Follows from the caller's secret and the key, as does the key that seals the answer.
    fingerprint
        The SHA-256 of the request.
    sealed
        The answer, which may hold a new secret: only its caller can open it.
    """

    request_id: Annotated[bytes, KEY]
    fingerprint: bytes
    sealed: bytes
    created: float


@dataclass(frozen=True, kw_only=True)
class ResultKeyRecord:
    """A key that signs published results.

    Parameters
    ----------
    number
        0, 1, 2, ...; the last one signs.
    private_key
        Its 32 bytes of RFC 8032. Every server of the database signs with it.
    endorsement
        The signature by which the key before it names it; None for the first, and where that key
        may be in other hands.
    """

    number: Annotated[int, KEY]
    public_key: bytes
    private_key: bytes
    created: float
    endorsement: bytes | None = None
