"""API keys, the audit log, and totals."""

from __future__ import annotations

from sqlalchemy import or_, update

from sfumato.aggregator.storage.tables import API_KEYS
from sfumato.aggregator.storage.transaction import Transaction


async def touch_key(transaction: Transaction, key_id: str, *, now: float) -> None:
    """Set when a key was last used; an earlier time changes nothing."""
    is_later = or_(API_KEYS.c.last_used.is_(None), API_KEYS.c.last_used < now)
    await transaction.run(
        update(API_KEYS).where(API_KEYS.c.key_id == key_id, is_later).values(last_used=now)
    )
