"""API keys."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select, update

from aggregator.ports import KeyRecord
from aggregator.storage.models import Key
from aggregator.storage.sql.rows import Rows, columns_of, to_record


class KeyRows(Rows):
    """Statements on keys; see the port for their meaning."""

    async def add_key(self, record: KeyRecord) -> bool:
        """Store a key."""
        return await self._add(Key, record)

    async def find_key(self, key_hash: bytes) -> KeyRecord | None:
        """Return the key with this hash."""
        statement = select(*columns_of(Key, KeyRecord)).where(Key.key_hash == key_hash)
        return to_record(KeyRecord, (await self._connection.execute(statement)).first())

    async def list_keys(self) -> Sequence[KeyRecord]:
        """Return all keys."""
        statement = select(*columns_of(Key, KeyRecord)).order_by(Key.created, Key.key_id)
        found = await self._connection.execute(statement)
        return [KeyRecord(**row._mapping) for row in found]

    async def revoke_key(self, key_id: str, *, now: float) -> bool:
        """Revoke a key."""
        statement = (
            update(Key)
            .where(Key.key_id == key_id, Key.revoked.is_(None))
            .values(revoked=now)
            .returning(Key.key_id)
        )
        return (await self._connection.execute(statement)).first() is not None
