"""Batches of masked sums: their totals, and the leases of workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sqlalchemy import Index, UniqueConstraint, and_, func, or_, select, update

from sfumato.aggregator.base.sums.addition import sum_up
from sfumato.aggregator.base.sums.layout import Layout
from sfumato.aggregator.base.sums.payloads import PayloadSum
from sfumato.aggregator.base.sums.selection import Selection, SketchTotals
from sfumato.aggregator.base.tables import derive_table
from sfumato.aggregator.base.transaction import Transaction, select_records, to_record
from sfumato.aggregator.resources.batches.record import BatchRecord, BatchTotals
from sfumato.aggregator.resources.batches.sums import encode_ordinals, take_out, to_batch_entry
from sfumato.aggregator.resources.devices.store import DEVICES
from sfumato.aggregator.resources.sketches.store.cells import (
    load_cells,
    lock_root,
    read_root,
    save_cells,
)
from sfumato.aggregator.resources.sketches.store.merge import add_to_cells, move_root
from sfumato.aggregator.resources.sketches.store.tables import SKETCHES
from sfumato.aggregator.resources.studies.store import STUDIES
from sfumato.shared.errors import HelperError, StoreError
from sfumato.shared.plan import SketchPlan
from sfumato.shared.sharing.batches import BatchKey
from sfumato.shared.wire import problem_type_of

BATCHES = derive_table(
    "batches",
    BatchRecord,
    UniqueConstraint("study_id", "slot", "labels", "part", "number"),
    Index(None, "study_id", "created", "batch_id"),
    # For the workers, who look for what is due.
    Index(None, "state", "next_at"),
    # For the metrics, which look for what is flagged.
    Index(None, "standing"),
    order=("created", "batch_id"),
    is_newest_first=True,
)

LIVE = ("waiting", "accepted")
"""States of reports whose payloads are kept."""
_WITHOUT_HELPER = problem_type_of(HelperError).uri
_AT_ONCE = 500


async def join_batches(
    transaction: Transaction,
    plan: SketchPlan,
    key: BatchKey,
    *,
    study_id: bytes,
    n_reports: int,
    now: float,
) -> list[bytes]:
    """Make room for reports; return the batch of each.

    The batch of the lowest number that is open and has room takes them; its row stays locked
    until this transaction ends, so that it cannot close meanwhile.

    Parameters
    ----------
    key
        Key of the batches; its number does not matter.
    """
    is_its = (
        BATCHES.c.study_id == study_id,
        BATCHES.c.slot == key.slot,
        BATCHES.c.labels == dict(key.labels),
        BATCHES.c.part == key.part,
    )
    has_room = (
        *is_its,
        BATCHES.c.state == "open",
        BATCHES.c.n_reports < BATCHES.c.most_reports,
    )
    first = select_records(BatchRecord).where(*has_room).order_by(BATCHES.c.number).limit(1)
    joined: list[bytes] = []
    while len(joined) < n_reports:
        found = await transaction.connection.execute(first.with_for_update())
        batch = to_record(BatchRecord, found.first())
        if batch is None:
            last = await transaction.scalar(select(func.max(BATCHES.c.number)).where(*is_its))
            number = 0 if last is None else int(last) + 1
            new = BatchKey(**{**vars(key), "number": number})
            await transaction.add(BatchRecord.of(plan, new, study_id=study_id, now=now))
            continue
        n_taken = min(n_reports - len(joined), batch.most_reports - batch.n_reports)
        await transaction.change(
            BatchRecord, batch.batch_id, n_reports=BATCHES.c.n_reports + n_taken
        )
        joined += [batch.batch_id] * n_taken
    return joined


async def list_parts(transaction: Transaction, batch: BatchRecord) -> Sequence[BatchRecord]:
    """Return the acknowledged batches of the same slot, labels and number, by part."""
    statement = (
        select_records(BatchRecord)
        .where(
            BATCHES.c.study_id == batch.study_id,
            BATCHES.c.slot == batch.slot,
            BATCHES.c.labels == dict(batch.labels),
            BATCHES.c.number == batch.number,
            BATCHES.c.state == "acknowledged",
        )
        .order_by(BATCHES.c.part)
    )
    return await transaction.list_records(statement, BatchRecord)


async def find_selected(
    transaction: Transaction, study_id: bytes, selection: Selection
) -> tuple[Sequence[bytes], int]:
    """Return the counted batches of a selection, and the number that may be counted later."""
    conditions = [BATCHES.c.study_id == study_id, BATCHES.c.state != "void"]
    if selection.first_slot is not None:
        conditions.append(BATCHES.c.slot >= selection.first_slot)
    if selection.last_slot is not None:
        conditions.append(BATCHES.c.slot <= selection.last_slot)
    statement = select(BATCHES.c.batch_id, BATCHES.c.labels, BATCHES.c.standing).where(*conditions)
    found = [
        row
        for row in await transaction.connection.execute(statement.order_by(BATCHES.c.batch_id))
        if selection.matches_labels(row.labels)
    ]
    counted = [row.batch_id for row in found if row.standing == "counted"]
    return counted, sum(row.standing in (None, "flagged") for row in found)


async def sum_batches(
    transaction: Transaction, batch_ids: Sequence[bytes], *, layout: Layout
) -> Sequence[tuple[BatchRecord, SketchTotals]]:
    """Return those of some batches that are counted, each with its total."""
    found: list[tuple[BatchRecord, SketchTotals]] = []
    for part in cut(batch_ids):
        statement = select_records(BatchRecord).where(
            BATCHES.c.batch_id.in_(part), BATCHES.c.standing == "counted"
        )
        for batch in await transaction.list_records(statement, BatchRecord):
            running = PayloadSum(layout)
            running.add([to_batch_entry(batch).row])
            found.append((batch, running.total().to_totals()))
    return found


async def find_uncounted(transaction: Transaction, batch_ids: Sequence[bytes]) -> Sequence[bytes]:
    """Return those of some batches whose totals are not in the sums now."""
    found: list[bytes] = []
    for some in cut(batch_ids):
        gone = select(BATCHES.c.batch_id).where(
            BATCHES.c.batch_id.in_(some), BATCHES.c.standing != "counted"
        )
        found += (await transaction.connection.execute(gone)).scalars()
    return sorted(found)


async def list_acknowledged(transaction: Transaction, study_id: bytes) -> Sequence[BatchRecord]:
    """Return all acknowledged batches of a study."""
    statement = select_records(BatchRecord).where(
        BATCHES.c.study_id == study_id, BATCHES.c.state == "acknowledged"
    )
    return await transaction.list_records(statement, BatchRecord)


async def count_batches(transaction: Transaction) -> BatchTotals:
    """Count batches and reports of all studies."""
    by_state = select(BATCHES.c.state, func.count()).group_by(BATCHES.c.state)
    batches = {str(row[0]): int(row[1]) for row in await transaction.connection.execute(by_state)}
    flagged: dict[str, int] = {}
    held = select(BATCHES.c.flags).where(BATCHES.c.standing == "flagged")
    for flags in (await transaction.connection.execute(held)).scalars():
        for flag in flags:
            flagged[flag] = flagged.get(flag, 0) + 1
    reports: dict[str, int] = {}
    if batches:
        counted = (
            select(SKETCHES.c.state, func.count())
            .where(SKETCHES.c.batch_id.is_not(None))
            .group_by(SKETCHES.c.state)
        )
        reports = {row[0]: int(row[1]) for row in await transaction.connection.execute(counted)}
    under_way = BATCHES.c.state.in_(("closing", "opened"))
    waiting = select(BATCHES.c.problem).where(under_way, BATCHES.c.problem.is_not(None))
    problems = (await transaction.connection.execute(waiting)).scalars().all()
    return BatchTotals(
        batches=batches,
        flagged=flagged,
        reports=reports,
        oldest=await transaction.scalar(select(func.min(BATCHES.c.closes)).where(under_way)),
        n_without_helper=sum(
            problem.get("type") == _WITHOUT_HELPER for problem in problems if problem
        ),
    )


async def has_due_batch(transaction: Transaction, *, now: float) -> bool:
    """Return whether a batch waits for a worker."""
    return await transaction.exists(_select_due(now))


async def lease_batch(
    transaction: Transaction, *, token: bytes, now: float, expires: float
) -> BatchRecord | None:
    """Lease the batch that has been due for longest."""
    due = _select_due(now).order_by(BATCHES.c.next_at, BATCHES.c.batch_id)
    return await transaction.lease(BatchRecord, due, lease_token=token, lease_expires=expires)


async def renew_batch(
    transaction: Transaction, batch_id: bytes, token: bytes, *, expires: float
) -> bool:
    """Prolong a lease; false if it is lost."""
    held = update(BATCHES).where(BATCHES.c.batch_id == batch_id, BATCHES.c.lease_token == token)
    return await transaction.run(held.values(lease_expires=expires)) > 0


async def open_batch(
    transaction: Transaction,
    batch_id: bytes,
    *,
    sums: bytes,
    n_records: int | None,
    answer: bytes,
    now: float,
) -> None:
    """Store the total of a batch, and drop the payloads that it came from."""
    ordinals = select(DEVICES.c.ordinal).where(
        DEVICES.c.device_id.in_(
            select(SKETCHES.c.device_id).where(
                SKETCHES.c.batch_id == batch_id, SKETCHES.c.state == "accepted"
            )
        )
    )
    found = list((await transaction.connection.execute(ordinals)).scalars())
    accepted = update(SKETCHES).where(
        SKETCHES.c.batch_id == batch_id, SKETCHES.c.state == "accepted"
    )
    await transaction.erase(accepted.values(state="opened", payload=None))
    await transaction.change(
        BatchRecord,
        batch_id,
        state="opened",
        sums=sums,
        n_records=n_records,
        answer=answer,
        devices=encode_ordinals(np.array(found, dtype=np.int64)),
        opened=now,
        attempts=0,
        problem=None,
    )


async def void_batch(transaction: Transaction, batch_id: bytes, *, reason: str) -> int:
    """Drop the payloads, or the total, of a batch that nobody uses; return how many reports."""
    live = update(SKETCHES).where(
        SKETCHES.c.batch_id == batch_id, SKETCHES.c.state.in_((*LIVE, "opened"))
    )
    n_dropped = await transaction.erase(live.values(state="void", payload=None))
    await transaction.change(
        BatchRecord,
        batch_id,
        state="void",
        members=None,
        n_records=None,
        answer=None,
        sums=None,
        devices=b"",
        opened=None,
        reason=reason,
        is_asked=False,
    )
    return n_dropped


async def lock_cells(transaction: Transaction, study_id: bytes) -> None:
    """Keep others from the cells of a study until this transaction ends.

    Before a batch is locked, because a batch that is counted may change others.
    """
    await lock_root(transaction.connection, study_id)


async def count_in(transaction: Transaction, batch: BatchRecord, *, layout: Layout) -> None:
    """Add the total of a batch to the cells of its slot and labels, as one sketch."""
    study_id = batch.study_id
    await lock_root(transaction.connection, study_id)
    root = await read_root(transaction.connection, study_id)
    addition = sum_up(study_id, [to_batch_entry(batch)], root, layout)
    await move_root(transaction.connection, study_id, addition.old, addition.new)
    await add_to_cells(transaction.connection, study_id, addition.cells, layout)


async def count_out(transaction: Transaction, batch: BatchRecord, *, layout: Layout) -> None:
    """Take the total of a batch out of the cells, exactly."""
    study_id = batch.study_id
    await lock_root(transaction.connection, study_id)
    root = await read_root(transaction.connection, study_id)
    counted = select_records(BatchRecord).where(
        BATCHES.c.study_id == study_id,
        BATCHES.c.standing == "counted",
        BATCHES.c.batch_id != batch.batch_id,
    )
    others = await transaction.list_records(counted, BatchRecord)
    entry = sum_up(study_id, [to_batch_entry(batch)], root, layout)
    present = await load_cells(transaction.connection, study_id, {node for node, _ in entry.cells})
    if entry.cells.keys() - present.keys():
        raise StoreError("lacks a running sum", field="cells", fix="run `sfumato check-store`")
    await save_cells(
        transaction.connection, study_id, take_out(batch, others, root, layout, present)
    )


def _select_due(now: float) -> Any:
    """Select the batches that a worker can take further."""
    over = and_(
        STUDIES.c.state == "closed",
        or_(STUDIES.c.accept_until.is_(None), STUDIES.c.accept_until <= now),
    )
    closes = or_(
        BATCHES.c.n_reports >= BATCHES.c.most_reports,
        and_(
            or_(BATCHES.c.closes <= now, BATCHES.c.is_asked, over),
            BATCHES.c.n_reports >= BATCHES.c.least_reports,
        ),
        BATCHES.c.expires <= now,
        over,
    )
    return (
        select(BATCHES.c.batch_id)
        .join(STUDIES, STUDIES.c.study_id == BATCHES.c.study_id)
        .where(
            STUDIES.c.state != "withdrawn",
            BATCHES.c.next_at <= now,
            or_(BATCHES.c.lease_expires.is_(None), BATCHES.c.lease_expires < now),
            or_(
                and_(BATCHES.c.state == "open", closes), BATCHES.c.state.in_(("closing", "opened"))
            ),
        )
    )


def cut(values: Sequence[bytes]) -> list[Sequence[bytes]]:
    """Cut a list into pieces that a statement can name."""
    return [values[i : i + _AT_ONCE] for i in range(0, len(values), _AT_ONCE)]
