"""API keys, the audit log, and totals."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Table, func, or_, select, update

from sfumato.aggregator.job_records import AnalysisRecord, DecodeRecord
from sfumato.aggregator.records import StoreTotals
from sfumato.aggregator.storage.statements.jobs import JobRows
from sfumato.aggregator.storage.tables import API_KEYS, DEVICES, STUDIES


class KeyRows(JobRows):
    """Statements on keys, audit entries and totals."""

    async def touch_key(self, key_id: str, *, now: float) -> None:
        """Set when a key was last used; an earlier time changes nothing."""
        is_later = or_(API_KEYS.c.last_used.is_(None), API_KEYS.c.last_used < now)
        await self._change(
            update(API_KEYS).where(API_KEYS.c.key_id == key_id, is_later).values(last_used=now)
        )

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
