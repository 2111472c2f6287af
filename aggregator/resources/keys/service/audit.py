"""The audit log: each entry is written in the transaction of its action."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

from sfumato.aggregator.base.transaction import PageKey, Transaction
from sfumato.aggregator.resources.keys.record import AuditAction, AuditRecord, KeyRecord
from sfumato.aggregator.resources.parts import Service

_ID_BYTES = 16


async def write_entry(
    transaction: Transaction,
    now: float,
    actor: str,
    action: AuditAction,
    target: str,
    **details: Any,
) -> None:
    """Write an entry; it stays if and only if the action does.

    Parameters
    ----------
    actor
        The identity of an API key, or ``local`` for a command on the database itself.
    target
        The identity of the object, hexadecimal.
    details
        The request; never a key or a token.
    """
    key = await transaction.get(KeyRecord, actor)
    record = AuditRecord(
        entry_id=secrets.token_bytes(_ID_BYTES),
        time=now,
        actor=actor,
        actor_name=key.name if key else None,
        action=action,
        target=target,
        details=details,
    )
    await transaction.add(record)


class AuditService(Service):
    """Lists the audit log, which nothing can change."""

    async def list_page(self, *, after: PageKey | None, limit: int) -> Sequence[AuditRecord]:
        """Return entries, the oldest first."""
        async with self._store.begin() as transaction:
            return await transaction.list_page(AuditRecord, after=after, limit=limit)
