"""Snapshots."""

from __future__ import annotations

from sqlalchemy import select

from aggregator.ports import SnapshotRecord
from aggregator.storage.models import Snapshot
from aggregator.storage.sql.rows import Rows, columns_of, to_record


class SnapshotRows(Rows):
    """Statements on snapshots; see the port for their meaning."""

    async def add_snapshot(self, record: SnapshotRecord) -> bool:
        """Store a snapshot."""
        return await self._add(Snapshot, record)

    async def get_snapshot(self, snapshot_id: bytes) -> SnapshotRecord | None:
        """Return a snapshot."""
        columns = columns_of(Snapshot, SnapshotRecord)
        statement = select(*columns).where(Snapshot.snapshot_id == snapshot_id)
        return to_record(SnapshotRecord, (await self._connection.execute(statement)).first())
