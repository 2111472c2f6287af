"""API keys, the audit log, and totals."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Table, func, or_, select, update

from sfumato.aggregator.job_records import AnalysisRecord, DecodeRecord
from sfumato.aggregator.records import AuditRecord, KeyRecord, PageKey, StoreTotals
from sfumato.aggregator.storage.statements.jobs import JobRows
from sfumato.aggregator.storage.statements.rows import select_records
from sfumato.aggregator.storage.tables import API_KEYS, AUDIT_ENTRIES, DEVICES, STUDIES


class KeyRows(JobRows):
    """Statements on keys, audit entries and totals."""

    async def add_key(self, record: KeyRecord) -> bool:
        """Store an API key."""
        return await self._add(record)

    async def get_key(self, key_id: str) -> KeyRecord | None:
        """Return an API key, revoked or not."""
        return await self._find(KeyRecord, API_KEYS.c.key_id == key_id)

    async def find_key(self, key_hash: bytes) -> KeyRecord | None:
        """Return the API key with a hash, revoked or not."""
        return await self._find(KeyRecord, API_KEYS.c.key_hash == key_hash)

    async def touch_key(self, key_id: str, *, now: float) -> None:
        """Set when a key was last used; an earlier time changes nothing."""
        is_later = or_(API_KEYS.c.last_used.is_(None), API_KEYS.c.last_used < now)
        await self._change(
            update(API_KEYS).where(API_KEYS.c.key_id == key_id, is_later).values(last_used=now)
        )

    async def list_keys(self) -> Sequence[KeyRecord]:
        """Return all keys in the order of creation."""
        statement = select_records(KeyRecord).order_by(API_KEYS.c.created, API_KEYS.c.key_id)
        return await self._list(statement, KeyRecord)

    async def revoke_key(self, key_id: str, *, now: float) -> bool:
        """Revoke a key; false if there is none or it is revoked already."""
        is_in_use = update(API_KEYS).where(
            API_KEYS.c.key_id == key_id, API_KEYS.c.revoked.is_(None)
        )
        return await self._change(is_in_use.values(revoked=now)) > 0

    async def add_audit_entry(self, record: AuditRecord) -> bool:
        """Append to the audit log."""
        return await self._add(record)

    async def list_audit_entries(
        self, *, after: PageKey | None, limit: int
    ) -> Sequence[AuditRecord]:
        """Return entries, the oldest first."""
        order = (AUDIT_ENTRIES.c.time, AUDIT_ENTRIES.c.entry_id)
        return await self._list_page(AuditRecord, order, after=after, limit=limit)

    async def count_totals(self) -> StoreTotals:
        """Count studies, devices, decodes and analyses, for the metrics."""
        withdrawn = select(STUDIES.c.study_id).where(STUDIES.c.state == "withdrawn")
        return StoreTotals(
            n_studies=await self._count(STUDIES, STUDIES.c.state != "withdrawn"),
            n_devices=await self._count(DEVICES, DEVICES.c.study_id.not_in(withdrawn)),
            decodes=await self.count_jobs(DecodeRecord),
            analyses=await self.count_jobs(AnalysisRecord),
        )

    async def _count(self, model: Table, which: ColumnElement[bool]) -> int:
        return int(await self._scalar(select(func.count()).select_from(model).where(which)))
