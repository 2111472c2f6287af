"""The server itself: API keys, audit log, totals, pages of lists, and the clock."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

KeyScope = Literal["operator", "analyst", "enrol"]
AuditAction = Literal[
    "key.create",
    "key.revoke",
    "study.create",
    "study.open",
    "study.close",
    "study.withdraw",
    "token.create",
    "token.revoke",
    "generation.renew",
    "device.exclude",
    "device.revoke",
]
LOCAL_ACTOR = "local"
"""The actor of a command on the database itself, without a key."""
PageKey = tuple[float, bytes]
"""The end of a page: the time and identity of its last item."""


@dataclass(frozen=True, kw_only=True)
class KeyRecord:
    """An API key, stored as a SHA-256; ``last_used`` is exact to the minute."""

    key_id: str
    key_hash: bytes
    name: str
    scope: KeyScope
    created: float
    last_used: float | None = None
    revoked: float | None = None


@dataclass(frozen=True, kw_only=True)
class AuditRecord:
    """An action of an operator.

    Parameters
    ----------
    entry_id
        16 random bytes.
    actor
        The identity of a key, or ``LOCAL_ACTOR``.
    target
        The identity of the object.
    details
        The request; never a secret.
    """

    entry_id: bytes
    time: float
    actor: str
    action: AuditAction
    target: str
    details: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class StoreTotals:
    """Numbers for the metrics; decodes by state, without states that do not occur."""

    n_studies: int
    n_devices: int
    decodes: Mapping[str, int]


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> float:
        """Return the seconds since 1970-01-01 UTC."""
        ...


class SystemClock:
    """The clock of this machine."""

    def now(self) -> float:
        """Return the seconds since 1970-01-01 UTC."""
        return time.time()
