"""API keys, the audit log, and totals."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, func, or_, select, update

from aggregator.records import AuditRecord, KeyRecord, PageKey, StoreTotals
from aggregator.storage.models import AuditEntry, Base, Decode, Device, Key, Study
from aggregator.storage.statements.rows import Rows, columns_of, follows, to_record


class KeyRows(Rows):
    """Statements on keys, audit entries and totals."""

    async def add_key(self, record: KeyRecord) -> bool:
        """Store an API key."""
        return await self._add(Key, record)

    async def get_key(self, key_id: str) -> KeyRecord | None:
        """Return an API key, revoked or not."""
        statement = select(*columns_of(Key, KeyRecord)).where(Key.key_id == key_id)
        return to_record(KeyRecord, (await self._connection.execute(statement)).first())

    async def find_key(self, key_hash: bytes) -> KeyRecord | None:
        """Return the API key with a hash, revoked or not."""
        statement = select(*columns_of(Key, KeyRecord)).where(Key.key_hash == key_hash)
        return to_record(KeyRecord, (await self._connection.execute(statement)).first())

    async def touch_key(self, key_id: str, *, now: float) -> None:
        """Note when a key was last used; a time before the noted one changes nothing."""
        is_later = or_(Key.last_used.is_(None), Key.last_used < now)
        await self._connection.execute(
            update(Key).where(Key.key_id == key_id, is_later).values(last_used=now)
        )

    async def list_keys(self) -> Sequence[KeyRecord]:
        """Return all keys in the order of creation."""
        statement = select(*columns_of(Key, KeyRecord)).order_by(Key.created, Key.key_id)
        found = await self._connection.execute(statement)
        return [KeyRecord(**row._mapping) for row in found]

    async def revoke_key(self, key_id: str, *, now: float) -> bool:
        """Revoke a key; false if there is none or it is revoked already."""
        statement = (
            update(Key)
            .where(Key.key_id == key_id, Key.revoked.is_(None))
            .values(revoked=now)
            .returning(Key.key_id)
        )
        return (await self._connection.execute(statement)).first() is not None

    async def add_audit_entry(self, record: AuditRecord) -> bool:
        """Append to the audit log; there is no way to change or remove an entry."""
        return await self._add(AuditEntry, record)

    async def list_audit_entries(
        self, *, after: PageKey | None, limit: int
    ) -> Sequence[AuditRecord]:
        """Return entries, the oldest first."""
        statement = (
            select(*columns_of(AuditEntry, AuditRecord))
            .where(*follows(AuditEntry.time, AuditEntry.entry_id, after))
            .order_by(AuditEntry.time, AuditEntry.entry_id)
            .limit(limit)
        )
        found = await self._connection.execute(statement)
        return [AuditRecord(**row._mapping) for row in found]

    async def count_totals(self) -> StoreTotals:
        """Count what metrics show."""
        states = select(Decode.state, func.count()).group_by(Decode.state)
        found = await self._connection.execute(states)
        withdrawn = select(Study.study_id).where(Study.state == "withdrawn")
        return StoreTotals(
            n_studies=await self._count(Study, Study.state != "withdrawn"),
            n_devices=await self._count(Device, Device.study_id.not_in(withdrawn)),
            decodes={str(state): int(count) for state, count in found},
        )

    async def _count(self, model: type[Base], which: ColumnElement[bool]) -> int:
        statement = select(func.count()).select_from(model).where(which)
        found = await self._connection.execute(statement)
        return found.scalar_one()
