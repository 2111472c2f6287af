"""API keys, the audit log, and totals."""

from __future__ import annotations

from sqlalchemy import or_, update

from sfumato.aggregator.storage.statements.rows import Rows
from sfumato.aggregator.storage.tables import API_KEYS


class KeyRows(Rows):
    """Statements on keys, audit entries and totals."""

    async def touch_key(self, key_id: str, *, now: float) -> None:
        """Set when a key was last used; an earlier time changes nothing."""
        is_later = or_(API_KEYS.c.last_used.is_(None), API_KEYS.c.last_used < now)
        await self._change(
            update(API_KEYS).where(API_KEYS.c.key_id == key_id, is_later).values(last_used=now)
        )
