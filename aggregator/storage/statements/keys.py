"""API keys, the audit log, and totals."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, func, or_, select, update

from sfumato.aggregator.job_records import AnalysisRecord, DecodeRecord
from sfumato.aggregator.records import AuditRecord, KeyRecord, PageKey, StoreTotals
from sfumato.aggregator.storage.models import AuditEntry, Base, Device, Key, Study
from sfumato.aggregator.storage.statements.jobs import JobRows
from sfumato.aggregator.storage.statements.rows import select_records


class KeyRows(JobRows):
    """Statements on keys, audit entries and totals."""

    async def add_key(self, record: KeyRecord) -> bool:
        """Store an API key."""
        return await self._add(Key, record)

    async def get_key(self, key_id: str) -> KeyRecord | None:
        """Return an API key, revoked or not."""
        return await self._find(Key, KeyRecord, Key.key_id == key_id)

    async def find_key(self, key_hash: bytes) -> KeyRecord | None:
        """Return the API key with a hash, revoked or not."""
        return await self._find(Key, KeyRecord, Key.key_hash == key_hash)

    async def touch_key(self, key_id: str, *, now: float) -> None:
        """Set when a key was last used; an earlier time changes nothing."""
        is_later = or_(Key.last_used.is_(None), Key.last_used < now)
        await self._change(update(Key).where(Key.key_id == key_id, is_later).values(last_used=now))

    async def list_keys(self) -> Sequence[KeyRecord]:
        """Return all keys in the order of creation."""
        statement = select_records(Key, KeyRecord).order_by(Key.created, Key.key_id)
        return await self._list(statement, KeyRecord)

    async def revoke_key(self, key_id: str, *, now: float) -> bool:
        """Revoke a key; false if there is none or it is revoked already."""
        is_in_use = update(Key).where(Key.key_id == key_id, Key.revoked.is_(None))
        return await self._change(is_in_use.values(revoked=now)) > 0

    async def add_audit_entry(self, record: AuditRecord) -> bool:
        """Append to the audit log."""
        return await self._add(AuditEntry, record)

    async def list_audit_entries(
        self, *, after: PageKey | None, limit: int
    ) -> Sequence[AuditRecord]:
        """Return entries, the oldest first."""
        order = (AuditEntry.time, AuditEntry.entry_id)
        return await self._list_page(AuditEntry, AuditRecord, order, after=after, limit=limit)

    async def count_totals(self) -> StoreTotals:
        """Count studies, devices, decodes and analyses, for the metrics."""
        withdrawn = select(Study.study_id).where(Study.state == "withdrawn")
        return StoreTotals(
            n_studies=await self._count(Study, Study.state != "withdrawn"),
            n_devices=await self._count(Device, Device.study_id.not_in(withdrawn)),
            decodes=await self.count_jobs(DecodeRecord),
            analyses=await self.count_jobs(AnalysisRecord),
        )

    async def _count(self, model: type[Base], which: ColumnElement[bool]) -> int:
        return int(await self._scalar(select(func.count()).select_from(model).where(which)))
