"""Snapshots."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sfumato.aggregator.job_records import PosteriorRecord
from sfumato.aggregator.records import SnapshotRecord
from sfumato.aggregator.storage.statements.rows import Rows, select_records
from sfumato.aggregator.storage.tables import POSTERIORS, SNAPSHOTS


class SnapshotRows(Rows):
    """Statements on snapshots, and on the densities decoded from them."""

    async def add_posterior(self, record: PosteriorRecord) -> bool:
        """Store the densities behind a decode."""
        return await self._add(record)

    async def get_posterior(self, decode_id: bytes) -> PosteriorRecord | None:
        """Return the densities behind a decode."""
        return await self._find(PosteriorRecord, POSTERIORS.c.decode_id == decode_id)

    async def add_snapshot(self, record: SnapshotRecord) -> bool:
        """Store a snapshot."""
        return await self._add(record)

    async def get_snapshot(self, snapshot_id: bytes) -> SnapshotRecord | None:
        """Return a snapshot."""
        return await self._find(SnapshotRecord, SNAPSHOTS.c.snapshot_id == snapshot_id)

    async def get_snapshots(
        self, snapshot_ids: Collection[bytes]
    ) -> Mapping[bytes, SnapshotRecord]:
        """Return the snapshots that exist, by id."""
        statement = select_records(SnapshotRecord)
        found = await self._list(
            statement.where(SNAPSHOTS.c.snapshot_id.in_(list(snapshot_ids))), SnapshotRecord
        )
        return {record.snapshot_id: record for record in found}
