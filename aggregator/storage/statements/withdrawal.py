"""Withdrawal of a study: marked at once, removed in batches."""

from __future__ import annotations

from typing import Any

from sqlalchemy import delete, inspect, or_, select, tuple_, update

from aggregator.storage.models import (
    Base,
    CellRoot,
    CellSum,
    Decode,
    Device,
    LeavingDevice,
    PendingSketch,
    Refusal,
    Sketch,
    Snapshot,
    Study,
    Token,
)
from aggregator.storage.statements.cells import CellRows

# Referring tables before the tables they refer to.
_HELD: tuple[type[Base], ...] = (
    Decode, Snapshot, PendingSketch, LeavingDevice, Sketch, CellSum, CellRoot, Refusal, Token,
)  # fmt: skip


class WithdrawalRows(CellRows):
    """Statements on withdrawn studies."""

    async def withdraw_study(self, study_id: bytes) -> bool:
        """Withdraw a study for good; false if there is none or it is withdrawn already.

        Its pending sketches are never merged.
        """
        # The order in which exclusion locks too; merging stays out from here on.
        await self._lock_root(study_id)
        kept = update(Study).where(Study.study_id == study_id, Study.state != "withdrawn")
        gone = kept.values(state="withdrawn", accept_until=None, version=Study.version + 1)
        if not await self._change(gone):
            return False
        # Every upload updates the study's row, so none can add to these after this.
        await self._change(delete(PendingSketch).where(PendingSketch.study_id == study_id))
        await self._change(delete(LeavingDevice).where(LeavingDevice.study_id == study_id))
        return True

    async def purge_withdrawn(self, *, most: int) -> int:
        """Remove up to ``most`` rows of withdrawn studies; return the number.

        Devices stay, without labels and heartbeats, so that they learn of the withdrawal.
        """
        n_removed = 0
        for model in _HELD:
            if n_removed < most:
                n_removed += await self._purge(model, most - n_removed)
        return n_removed or await self._forget_devices()

    async def _purge(self, model: type[Base], most: int) -> int:
        of_study: Any = model.__table__.c.study_id
        key = inspect(model).primary_key
        gone = select(*key).where(of_study.in_(_withdrawn())).limit(most)
        which = key[0].in_(gone) if len(key) == 1 else tuple_(*key).in_(gone)
        return await self._change(delete(model).where(which))

    async def _forget_devices(self) -> int:
        says_more = or_(Device.labels != {}, Device.heartbeat.is_not(None), Device.n_sketches > 0)
        n_cleared = await self._change(
            update(Device)
            .where(Device.study_id.in_(_withdrawn()), says_more)
            .values(labels={}, heartbeat=None, heartbeat_at=None, n_plan_refusals=0, n_sketches=0)
        )
        full = update(Study).where(Study.state == "withdrawn", Study.n_sketches > 0)
        await self._change(full.values(n_sketches=0, n_records=0))
        return n_cleared


def _withdrawn() -> Any:
    return select(Study.study_id).where(Study.state == "withdrawn")
