"""Exclusion of devices."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from sqlalchemy import Select, and_, delete, func, insert, or_, select, update

from sfumato.aggregator.base.sums.layout import Layout
from sfumato.aggregator.base.sums.removal import Removal, sum_removal
from sfumato.aggregator.base.transaction import Transaction
from sfumato.aggregator.resources.batches.record import BatchRecord
from sfumato.aggregator.resources.batches.store.batches import BATCHES, LIVE
from sfumato.aggregator.resources.devices.store import DEVICES
from sfumato.aggregator.resources.sketches.record import ExcludedSketches
from sfumato.aggregator.resources.sketches.store.cells import (
    load_cells,
    lock_root,
    read_root,
    save_cells,
    to_root,
)
from sfumato.aggregator.resources.sketches.store.entries import (
    in_turns,
    leaves,
    list_kept,
    select_leaving,
    stays,
    to_entry,
)
from sfumato.aggregator.resources.sketches.store.tables import LEAVING_DEVICES, SKETCHES
from sfumato.aggregator.resources.studies.store import STUDIES


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
    # In an order: Postgres would otherwise look through the batches of all studies for one.
    batches = select(BATCHES.c.batch_id).where(BATCHES.c.study_id == study_id)
    if await transaction.exists(batches.order_by(BATCHES.c.created)):
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
