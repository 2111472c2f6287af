"""Retention of payloads, and withdrawal of studies."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from sqlalchemy import Table, delete, or_, select, tuple_, update

from sfumato.aggregator.base.tables import METADATA
from sfumato.aggregator.base.transaction import Transaction
from sfumato.aggregator.resources.devices.store import DEVICES
from sfumato.aggregator.resources.keys.store import API_KEYS
from sfumato.aggregator.resources.sketches.store.cells import lock_root
from sfumato.aggregator.resources.sketches.store.tables import (
    LEAVING_DEVICES,
    PENDING_SKETCHES,
    SKETCHES,
)
from sfumato.aggregator.resources.studies.store import STUDIES


async def drop_payloads(transaction: Transaction, *, received_before: float, most: int) -> int:
    """Drop up to ``most`` payloads of old sketches; return the number.

    Pending and leaving sketches keep theirs. The rest of the row stays, so that a replay is
    still recognised.
    """
    waits = select(PENDING_SKETCHES.c.sketch_id)
    old = (
        select(SKETCHES.c.sketch_id)
        .join(DEVICES, DEVICES.c.device_id == SKETCHES.c.device_id)
        .where(SKETCHES.c.received < received_before, SKETCHES.c.payload.is_not(None))
        .where(SKETCHES.c.sketch_id.not_in(waits))
        # A batch drops its payloads itself, when it is opened or void.
        .where(SKETCHES.c.batch_id.is_(None))
        .where(or_(DEVICES.c.excluded.is_(None), SKETCHES.c.state != "stored"))
        .limit(most)
        # The device too: one excluded between finding its payloads and dropping them would
        # leave in the sums what its exclusion says is taken out.
        .with_for_update(of=(SKETCHES, DEVICES), key_share=True, skip_locked=True)
    )
    held = update(SKETCHES).where(SKETCHES.c.sketch_id.in_(old), SKETCHES.c.payload.is_not(None))
    return await transaction.erase(held.values(payload=None))


async def withdraw_study(transaction: Transaction, study_id: bytes) -> bool:
    """Withdraw a study for good; false if there is none or it is withdrawn already.

    Its pending sketches are never merged.
    """
    # The order in which exclusion locks too; merging stays out from here on.
    await lock_root(transaction.connection, study_id)
    kept = update(STUDIES).where(STUDIES.c.study_id == study_id, STUDIES.c.state != "withdrawn")
    gone = kept.values(
        state="withdrawn", accept_until=None, accepted=[], version=STUDIES.c.version + 1
    )
    if not await transaction.run(gone):
        return False
    # Every upload updates the study's row, so none can add to these after this.
    await transaction.run(delete(PENDING_SKETCHES).where(PENDING_SKETCHES.c.study_id == study_id))
    await transaction.run(delete(LEAVING_DEVICES).where(LEAVING_DEVICES.c.study_id == study_id))
    return True


async def purge_withdrawn(transaction: Transaction, *, most: int) -> int:
    """Remove up to ``most`` rows of withdrawn studies; return the number.

    Devices stay, without labels, names and heartbeats, so that they learn of the withdrawal.
    """
    withdrawn = (await transaction.connection.execute(_withdrawn())).scalars().all()
    n_removed = 0
    for table in _list_held():
        if n_removed < most:
            n_removed += await _purge(transaction, table, withdrawn, most - n_removed)
    return n_removed or await _forget_devices(transaction)


@cache
def _list_held() -> list[Table]:
    """Return every table of what studies hold; the stores of later resources have added theirs."""
    # Referring tables before the tables they refer to. Devices and holders of a key of the study
    # learn of the withdrawal from theirs.
    return [
        table
        for table in reversed(METADATA.sorted_tables)
        if "study_id" in table.c and table not in (STUDIES, DEVICES, API_KEYS)
    ]


async def _purge(
    transaction: Transaction, table: Table, study_ids: Sequence[bytes], most: int
) -> int:
    key = list(table.primary_key)
    # By value: Postgres knows then how few rows these studies have left.
    gone = select(*key).where(table.c.study_id.in_(study_ids)).limit(most)
    which = key[0].in_(gone) if len(key) == 1 else tuple_(*key).in_(gone)
    return await transaction.erase(delete(table).where(which))


async def _forget_devices(transaction: Transaction) -> int:
    says_more = or_(
        DEVICES.c.labels != {}, DEVICES.c.heartbeat.is_not(None), DEVICES.c.n_sketches > 0
    )
    n_cleared = await transaction.run(
        update(DEVICES)
        .where(DEVICES.c.study_id.in_(_withdrawn()), says_more)
        .values(labels={}, name=None, heartbeat=None, heartbeat_at=None)
        .values(n_plan_refusals=0, n_sketches=0)
    )
    full = update(STUDIES).where(STUDIES.c.state == "withdrawn", STUDIES.c.n_sketches > 0)
    await transaction.run(full.values(n_sketches=0, n_records=0))
    return n_cleared


def _withdrawn() -> Any:
    return select(STUDIES.c.study_id).where(STUDIES.c.state == "withdrawn")
