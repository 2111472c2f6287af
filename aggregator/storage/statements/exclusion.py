"""Exclusion of devices, retention of payloads, withdrawal of studies."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from sqlalchemy import Select, Table, and_, delete, func, insert, or_, select, tuple_, update

from sfumato.aggregator.batch_records import BatchRecord
from sfumato.aggregator.records import ExcludedSketches
from sfumato.aggregator.storage.statements.batches import LIVE
from sfumato.aggregator.storage.statements.cells import (
    load_cells,
    lock_root,
    read_root,
    save_cells,
    to_root,
)
from sfumato.aggregator.storage.statements.entries import (
    in_turns,
    leaves,
    list_kept,
    select_leaving,
    stays,
    to_entry,
)
from sfumato.aggregator.storage.sums.cells import has_device
from sfumato.aggregator.storage.sums.layout import Layout
from sfumato.aggregator.storage.sums.removal import Removal, sum_removal
from sfumato.aggregator.storage.tables import (
    BATCHES,
    DEVICES,
    LEAVING_DEVICES,
    METADATA,
    PENDING_SKETCHES,
    SKETCHES,
    STUDIES,
)
from sfumato.aggregator.storage.transaction import Transaction

# Referring tables before the tables they refer to; devices learn of the withdrawal from theirs.
_HELD = [
    table
    for table in reversed(METADATA.sorted_tables)
    if "study_id" in table.c and table.name not in (STUDIES.name, DEVICES.name)
]


async def exclude_device(
    transaction: Transaction, device_id: bytes, *, now: float, reason: str
) -> ExcludedSketches | None:
    """Exclude a device; None if it is excluded already.

    From then on its sketches are in no total and no count of the study, except those whose
    payloads were dropped. :meth:`apply_removal` takes them out of the running sums later. The
    device's row must be locked.
    """
    marked = await transaction.connection.execute(
        update(DEVICES)
        .where(DEVICES.c.device_id == device_id, DEVICES.c.excluded.is_(None))
        .values(excluded=now, reason=reason)
        .returning(DEVICES.c.study_id)
    )
    study_id = marked.scalar_one_or_none()
    if study_id is None:
        return None
    if await transaction.exists(select(BATCHES.c.batch_id).where(BATCHES.c.study_id == study_id)):
        # The study has a secure sum: no sketch of a device is in a cell by itself.
        await leave_batches(transaction, device_id, study_id=study_id)
        return await count_excluded(transaction, device_id)
    # A writing transaction that sums sees all of this, or nothing.
    await lock_root(transaction.connection, study_id)
    # An index alone answers both: uploads may wait meanwhile.
    counted = select(func.count(), func.sum(SKETCHES.c.n_records))
    held = counted.where(SKETCHES.c.device_id == device_id, *leaves())
    n_leaving, n_records = (await transaction.connection.execute(held)).one()
    n_all = await _count_rows(
        transaction, select(SKETCHES).where(SKETCHES.c.device_id == device_id)
    )
    if n_leaving:
        await transaction.connection.execute(
            insert(LEAVING_DEVICES).values(device_id=device_id, study_id=study_id)
        )
        await transaction.connection.execute(
            update(STUDIES)
            .where(STUDIES.c.study_id == study_id)
            .values(
                n_sketches=STUDIES.c.n_sketches - n_leaving,
                n_records=STUDIES.c.n_records - int(n_records or 0),
            )
        )
    return ExcludedSketches(n_subtracted=n_leaving, n_kept=n_all - n_leaving)


async def count_excluded(transaction: Transaction, device_id: bytes) -> ExcludedSketches:
    """Count the sketches of an excluded device that were taken out, and that stay."""
    of_device = select(SKETCHES).where(SKETCHES.c.device_id == device_id)
    opened = SKETCHES.c.state.in_(("opened", "accepted"))
    n_kept = await _count_rows(transaction, of_device.where(or_(and_(*stays()), opened)))
    # Void and refused reports were in no sum.
    counted = of_device.where(SKETCHES.c.state.in_(("stored", "excluded", "opened", "accepted")))
    return ExcludedSketches(
        n_subtracted=await _count_rows(transaction, counted) - n_kept, n_kept=n_kept
    )


async def leave_batches(transaction: Transaction, device_id: bytes, *, study_id: bytes) -> None:
    """Take the reports of a device out of batches whose members are not fixed."""
    of_device = SKETCHES.c.device_id == device_id, SKETCHES.c.state.in_(LIVE)
    batch_ids = select(SKETCHES.c.batch_id).where(*of_device).distinct()
    unfixed = (
        select(BATCHES.c.batch_id)
        .where(BATCHES.c.batch_id.in_(batch_ids), BATCHES.c.members.is_(None))
        .order_by(BATCHES.c.batch_id)
        .with_for_update()
    )
    n_reports = n_records = 0
    for batch_id in (await transaction.connection.execute(unfixed)).scalars().all():
        its = (*of_device, SKETCHES.c.batch_id == batch_id)
        counted = select(func.count(), func.sum(SKETCHES.c.n_records)).where(*its)
        n, records = (await transaction.connection.execute(counted)).one()
        await transaction.erase(update(SKETCHES).where(*its).values(state="excluded", payload=None))
        await transaction.change(BatchRecord, batch_id, n_reports=BATCHES.c.n_reports - n)
        n_reports, n_records = n_reports + n, n_records + int(records or 0)
    if n_reports:
        fewer = update(STUDIES).where(STUDIES.c.study_id == study_id)
        await transaction.run(
            fewer.values(
                n_sketches=STUDIES.c.n_sketches - n_reports,
                n_records=STUDIES.c.n_records - n_records,
            )
        )


async def repeat_check(transaction: Transaction, batch: BatchRecord) -> None:
    """Let the helper judge all reports of a batch again, but for devices excluded since."""
    batch_id = batch.batch_id
    accepted = update(SKETCHES).where(
        SKETCHES.c.batch_id == batch_id, SKETCHES.c.state == "accepted"
    )
    await transaction.run(accepted.values(state="waiting"))
    await transaction.change(BatchRecord, batch_id, members=None)
    excluded = (
        select(SKETCHES.c.device_id)
        .join(DEVICES, DEVICES.c.device_id == SKETCHES.c.device_id)
        .where(SKETCHES.c.batch_id == batch_id, SKETCHES.c.state == "waiting")
        .where(DEVICES.c.excluded.is_not(None))
        .distinct()
    )
    for device_id in (await transaction.connection.execute(excluded)).scalars().all():
        await leave_batches(transaction, device_id, study_id=batch.study_id)


async def _count_rows(transaction: Transaction, rows: Select[Any]) -> int:
    return int(await transaction.scalar(rows.with_only_columns(func.count())))


async def list_leaving(transaction: Transaction) -> Sequence[bytes]:
    """Return the studies with leaving devices."""
    statement = select(LEAVING_DEVICES.c.study_id).distinct()
    return list((await transaction.connection.execute(statement)).scalars())


async def prepare_removal(
    transaction: Transaction, study_id: bytes, *, layout: Layout, most: int
) -> Removal | None:
    """Sum up to ``most`` leaving sketches, and change nothing; None if there is none.

    Pending sketches are merged first. This is the long transaction, which reads.

    Raises
    ------
    StoreError
        A sum could leave 64 bits.
    """
    root = await read_root(transaction.connection, study_id)
    found = await transaction.connection.execute(select_leaving(study_id).limit(most))
    entries = [to_entry(row) for row in found]
    if not entries:
        return None
    kept = await list_kept(transaction.connection, study_id)
    return await in_turns(partial(sum_removal, study_id, entries, kept, root, layout))


async def apply_removal(transaction: Transaction, prepared: Removal) -> int:
    """Subtract prepared sums from the running sums; return the number of sketches.

    It is 0 if something changed since, or while another transaction merges. No total changes.

    Raises
    ------
    StoreError
        A running sum is missing.
    """
    study_id, n_leaving = prepared.study_id, len(prepared.sketch_ids)
    # Only who holds the root takes sketches out of cells.
    found = await lock_root(transaction.connection, study_id, skip_locked=True)
    if found is None or to_root(found) != prepared.root:
        return 0
    which = SKETCHES.c.sketch_id.in_(prepared.sketch_ids)
    still = (
        select(SKETCHES)
        .join(LEAVING_DEVICES, LEAVING_DEVICES.c.device_id == SKETCHES.c.device_id)
        .where(which, *leaves())
    )
    if await _count_rows(transaction, still) != n_leaving:
        return 0
    present = await load_cells(
        transaction.connection, study_id, {node for node, _ in prepared.cells}
    )
    await save_cells(transaction.connection, study_id, prepared.take_out(present))
    await transaction.connection.execute(update(SKETCHES).where(which).values(state="excluded"))
    more = select(SKETCHES.c.sketch_id).where(
        SKETCHES.c.device_id == LEAVING_DEVICES.c.device_id, *leaves()
    )
    await transaction.connection.execute(
        delete(LEAVING_DEVICES).where(LEAVING_DEVICES.c.study_id == study_id, ~more.exists())
    )
    return n_leaving


async def find_excluded(
    transaction: Transaction, study_id: bytes, devices: bytes
) -> Sequence[bytes]:
    """Return the excluded devices of a snapshot, by identity."""
    statement = (
        select(DEVICES.c.device_id, DEVICES.c.ordinal)
        .where(DEVICES.c.study_id == study_id, DEVICES.c.excluded.is_not(None))
        .order_by(DEVICES.c.device_id)
    )
    found = await transaction.connection.execute(statement)
    return [row.device_id for row in found if has_device(devices, row.ordinal)]


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

    Devices stay, without labels and heartbeats, so that they learn of the withdrawal.
    """
    n_removed = 0
    for table in _HELD:
        if n_removed < most:
            n_removed += await _purge(transaction, table, most - n_removed)
    return n_removed or await _forget_devices(transaction)


async def _purge(transaction: Transaction, table: Table, most: int) -> int:
    key = list(table.primary_key)
    gone = select(*key).where(table.c.study_id.in_(_withdrawn())).limit(most)
    which = key[0].in_(gone) if len(key) == 1 else tuple_(*key).in_(gone)
    return await transaction.erase(delete(table).where(which))


async def _forget_devices(transaction: Transaction) -> int:
    says_more = or_(
        DEVICES.c.labels != {}, DEVICES.c.heartbeat.is_not(None), DEVICES.c.n_sketches > 0
    )
    n_cleared = await transaction.run(
        update(DEVICES)
        .where(DEVICES.c.study_id.in_(_withdrawn()), says_more)
        .values(labels={}, heartbeat=None, heartbeat_at=None, n_plan_refusals=0, n_sketches=0)
    )
    full = update(STUDIES).where(STUDIES.c.state == "withdrawn", STUDIES.c.n_sketches > 0)
    await transaction.run(full.values(n_sketches=0, n_records=0))
    return n_cleared


def _withdrawn() -> Any:
    return select(STUDIES.c.study_id).where(STUDIES.c.state == "withdrawn")
