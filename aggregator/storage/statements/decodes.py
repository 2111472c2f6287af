"""Snapshots, their decodes, and the leases of workers on decodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, and_, delete, func, or_, select, update
from sqlalchemy.sql.dml import Update

from aggregator.records import DecodeRecord, DecodeState, SnapshotRecord
from aggregator.storage.models import Decode, Snapshot, WorkerPresence
from aggregator.storage.statements.rows import Rows, select_records, to_record

_NO_LEASE: dict[str, Any] = {"lease_token": None, "lease_expires": None}
_AFRESH: dict[str, Any] = {
    "state": "queued",
    "progress": 0.0,
    "started": None,
    "finished": None,
    "result": None,
    "problem": None,
    "attempts": 0,
    **_NO_LEASE,
}


class DecodeRows(Rows):
    """Statements on snapshots and decodes."""

    async def add_snapshot(self, record: SnapshotRecord) -> bool:
        """Store a snapshot."""
        return await self._add(Snapshot, record)

    async def get_snapshot(self, snapshot_id: bytes) -> SnapshotRecord | None:
        """Return a snapshot."""
        return await self._find(Snapshot, SnapshotRecord, Snapshot.snapshot_id == snapshot_id)

    async def add_decode(self, record: DecodeRecord) -> bool:
        """Queue a decode."""
        return await self._add(Decode, record)

    async def get_decode(self, decode_id: bytes) -> DecodeRecord | None:
        """Return a decode."""
        return await self._find(Decode, DecodeRecord, Decode.decode_id == decode_id)

    async def requeue_decode(self, decode_id: bytes) -> bool:
        """Queue a failed or cancelled decode again; false if it is in another state."""
        ended = Decode.state.in_(["failed", "cancelled"])
        return await self._change(_of(decode_id).where(ended).values(_AFRESH)) > 0

    async def cancel_decode(self, decode_id: bytes, *, now: float) -> bool:
        """Cancel a decode; false if it has ended."""
        under_way = Decode.state.in_(["queued", "running"])
        cancelled = {"state": "cancelled", "finished": now, **_NO_LEASE}
        return await self._change(_of(decode_id).where(under_way).values(cancelled)) > 0

    async def note_worker(self, worker_id: bytes, *, now: float, oldest: float) -> None:
        """Note that a worker is there; forget those that were last seen before ``oldest``."""
        await self._change(delete(WorkerPresence).where(WorkerPresence.seen < oldest))
        note = self._insert(WorkerPresence).values(worker_id=worker_id, seen=now)
        key = [WorkerPresence.worker_id]
        await self._connection.execute(
            note.on_conflict_do_update(index_elements=key, set_={"seen": now})
        )

    async def drop_worker(self, worker_id: bytes) -> None:
        """Forget a worker that ends."""
        await self._change(delete(WorkerPresence).where(WorkerPresence.worker_id == worker_id))

    async def count_workers(self, *, since: float) -> int:
        """Count the workers that were seen since a time."""
        seen = WorkerPresence.seen >= since
        return int(await self._scalar(select(func.count()).select_from(WorkerPresence).where(seen)))

    async def has_leasable_decode(self, *, now: float) -> bool:
        """Return whether a decode waits for a worker."""
        return await self._exists(select(Decode.decode_id).where(_leasable(now)))

    async def lease_decode(
        self, *, token: bytes, now: float, expires: float, max_attempts: int
    ) -> DecodeRecord | None:
        """Lease the oldest decode that is queued or whose lease has expired.

        One statement. On Postgres, workers skip locked rows; SQLite has one writer.
        """
        oldest = (
            select(Decode.decode_id)
            .where(_leasable(now), Decode.attempts < max_attempts)
            .order_by(Decode.created)
            .limit(1)
            .with_for_update(skip_locked=True)
            .scalar_subquery()
        )
        taken = {
            "state": "running",
            "started": now,
            "progress": 0.0,
            "lease_token": token,
            "lease_expires": expires,
            "attempts": Decode.attempts + 1,
        }
        statement = update(Decode).where(Decode.decode_id == oldest).values(taken)
        columns = select_records(Decode, DecodeRecord).selected_columns
        found = await self._connection.execute(statement.returning(*columns))
        return to_record(DecodeRecord, found.first())

    async def renew_lease(
        self, decode_id: bytes, token: bytes, *, expires: float, progress: float
    ) -> bool:
        """Prolong a lease; false if it is lost or the decode was cancelled."""
        statement = _held(decode_id, token).values(lease_expires=expires, progress=progress)
        return await self._change(statement) > 0

    async def release_lease(self, decode_id: bytes, token: bytes) -> bool:
        """Return a decode to the queue; the attempt does not count."""
        waiting = {
            "state": "queued",
            "started": None,
            "progress": 0.0,
            "attempts": Decode.attempts - 1,
            **_NO_LEASE,
        }
        return await self._change(_held(decode_id, token).values(waiting)) > 0

    async def finish_decode(
        self,
        decode_id: bytes,
        token: bytes,
        *,
        state: DecodeState,
        now: float,
        result: Mapping[str, Any] | None = None,
        problem: Mapping[str, Any] | None = None,
    ) -> bool:
        """Store the end of a decode; false if the lease is lost or it was cancelled."""
        ended = {"state": state, "finished": now, "result": result, "problem": problem, **_NO_LEASE}
        if state == "succeeded":
            ended["progress"] = 1.0
        return await self._change(_held(decode_id, token).values(ended)) > 0

    async def fail_exhausted(
        self, *, now: float, max_attempts: int, problem: Mapping[str, Any]
    ) -> int:
        """Fail decodes whose last allowed attempt has expired; return the number."""
        failed = {"state": "failed", "finished": now, "problem": problem, **_NO_LEASE}
        exhausted = update(Decode).where(_leasable(now), Decode.attempts >= max_attempts)
        return await self._change(exhausted.values(failed))


def _of(decode_id: bytes) -> Update:
    return update(Decode).where(Decode.decode_id == decode_id)


def _held(decode_id: bytes, token: bytes) -> Update:
    """Update as the holder of the lease: a worker that is too late finds no row."""
    return _of(decode_id).where(Decode.state == "running", Decode.lease_token == token)


def _leasable(now: float) -> ColumnElement[bool]:
    expired = and_(Decode.state == "running", Decode.lease_expires < now)
    return or_(Decode.state == "queued", expired)
