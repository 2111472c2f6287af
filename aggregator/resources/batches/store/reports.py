"""Reports of batches: the sketches of a secure sum."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from sqlalchemy import func, select, update

from sfumato.aggregator.base.transaction import Transaction
from sfumato.aggregator.resources.batches.record import BatchRecord
from sfumato.aggregator.resources.batches.store.batches import BATCHES, cut, join_batches
from sfumato.aggregator.resources.sketches.store.sketches import SIGNED, to_header
from sfumato.aggregator.resources.sketches.store.tables import SKETCHES
from sfumato.aggregator.resources.studies.store import STUDIES
from sfumato.shared.plan import SketchPlan
from sfumato.shared.sharing.batches import BatchKey, compute_members, compute_report

_STREAMED = 64


async def count_reports(transaction: Transaction, batch_id: bytes) -> Mapping[str, int]:
    """Count the reports of a batch by state."""
    statement = (
        select(SKETCHES.c.state, func.count())
        .where(SKETCHES.c.batch_id == batch_id)
        .group_by(SKETCHES.c.state)
    )
    return {row[0]: int(row[1]) for row in await transaction.connection.execute(statement)}


async def list_waiting_reports(
    transaction: Transaction, batch_id: bytes, *, most: int
) -> Sequence[tuple[bytes, bytes]]:
    """Return identity and header of reports that the helper has not judged yet."""
    statement = (
        _select_reports(batch_id, "waiting", SKETCHES.c.sketch_id)
        .order_by(SKETCHES.c.sketch_id)
        .limit(most)
    )
    found = await transaction.connection.execute(statement)
    return [(row.sketch_id, to_header(row)) for row in found]


async def list_left_out(transaction: Transaction, batch_id: bytes) -> Sequence[bytes]:
    """Return the reports of a batch whose devices were excluded."""
    statement = select(SKETCHES.c.sketch_id).where(
        SKETCHES.c.batch_id == batch_id, SKETCHES.c.state == "excluded"
    )
    return list((await transaction.connection.execute(statement)).scalars())


async def mark_reports(
    transaction: Transaction, batch_id: bytes, sketch_ids: Sequence[bytes], *, state: str
) -> int:
    """Note the helper's verdict on waiting reports; return how many there were.

    A refused report loses its payload, and leaves the batch's number.
    """
    n_marked = 0
    values: dict[str, Any] = {"state": state}
    if state != "accepted":
        values["payload"] = None
    for some in cut(sketch_ids):
        waiting = update(SKETCHES).where(
            SKETCHES.c.batch_id == batch_id,
            SKETCHES.c.sketch_id.in_(some),
            SKETCHES.c.state == "waiting",
        )
        run = transaction.run if state == "accepted" else transaction.erase
        n_marked += await run(waiting.values(**values))
    if state != "accepted" and n_marked:
        await transaction.change(BatchRecord, batch_id, n_reports=BATCHES.c.n_reports - n_marked)
    return n_marked


async def move_reports(
    transaction: Transaction,
    plan: SketchPlan,
    batch: BatchRecord,
    key: BatchKey,
    sketch_ids: Sequence[bytes],
    *,
    now: float,
) -> None:
    """Put waiting reports into later batches: the helper has answered for this one.

    Parameters
    ----------
    key
        Key of this batch.
    """
    held = await _find_waiting(transaction, batch.batch_id, sketch_ids)
    if not held:
        return
    await transaction.change(BatchRecord, batch.batch_id, n_reports=BATCHES.c.n_reports - len(held))
    joined = await join_batches(
        transaction, plan, key, study_id=batch.study_id, n_reports=len(held), now=now
    )
    for sketch_id, batch_id in zip(held, joined, strict=True):
        moved = update(SKETCHES).where(SKETCHES.c.sketch_id == sketch_id)
        await transaction.run(moved.values(batch_id=batch_id))


async def move_reports_to(
    transaction: Transaction, batch: BatchRecord, target: BatchRecord, sketch_ids: Sequence[bytes]
) -> None:
    """Put waiting reports into one later batch, made if it is missing, while it is open."""
    await transaction.add(target)
    found = await transaction.get(BatchRecord, target.batch_id, lock=True)
    held = await _find_waiting(transaction, batch.batch_id, sketch_ids)
    if found is None or found.state != "open" or not held:
        return
    for some in cut(held):
        moved = update(SKETCHES).where(SKETCHES.c.sketch_id.in_(some))
        await transaction.run(moved.values(batch_id=target.batch_id))
    await transaction.change(BatchRecord, batch.batch_id, n_reports=BATCHES.c.n_reports - len(held))
    await transaction.change(
        BatchRecord, target.batch_id, n_reports=BATCHES.c.n_reports + len(held)
    )


async def fetch_reports(
    transaction: Transaction, batch_id: bytes, sketch_ids: Sequence[bytes]
) -> int:
    """Put reports that wait in other batches into this one; return how many there were."""
    places: dict[bytes, list[bytes]] = {}
    for some in cut(sketch_ids):
        waiting = select(SKETCHES.c.batch_id, SKETCHES.c.sketch_id).where(
            SKETCHES.c.sketch_id.in_(some),
            SKETCHES.c.state == "waiting",
            SKETCHES.c.batch_id != batch_id,
        )
        for row in await transaction.connection.execute(waiting):
            places.setdefault(row.batch_id, []).append(row.sketch_id)
    n_fetched = 0
    for other, its in sorted(places.items()):
        await transaction.get(BatchRecord, other, lock=True)
        held = await _find_waiting(transaction, other, its)
        for some in cut(held):
            moved = update(SKETCHES).where(SKETCHES.c.sketch_id.in_(some))
            await transaction.run(moved.values(batch_id=batch_id))
        await transaction.change(BatchRecord, other, n_reports=BATCHES.c.n_reports - len(held))
        await transaction.change(
            BatchRecord, batch_id, n_reports=BATCHES.c.n_reports + len(held), members=None
        )
        n_fetched += len(held)
    return n_fetched


async def list_reports(transaction: Transaction, batch_id: bytes) -> set[bytes]:
    """Return the reports of a batch, whatever became of them."""
    statement = select(SKETCHES.c.sketch_id).where(SKETCHES.c.batch_id == batch_id)
    return set((await transaction.connection.execute(statement)).scalars())


def _select_reports(batch_id: bytes, state: str, column: Any) -> Any:
    return (
        select(column, *SIGNED)
        .join(STUDIES, STUDIES.c.study_id == SKETCHES.c.study_id)
        .where(SKETCHES.c.batch_id == batch_id, SKETCHES.c.state == state)
    )


async def _find_waiting(
    transaction: Transaction, batch_id: bytes, sketch_ids: Sequence[bytes]
) -> list[bytes]:
    held: list[bytes] = []
    for some in cut(sketch_ids):
        waiting = select(SKETCHES.c.sketch_id).where(
            SKETCHES.c.batch_id == batch_id,
            SKETCHES.c.sketch_id.in_(some),
            SKETCHES.c.state == "waiting",
        )
        held += (await transaction.connection.execute(waiting)).scalars()
    return held


async def compute_batch_members(
    transaction: Transaction, batch_id: bytes
) -> tuple[bytes, int, int | None]:
    """Return digest, number and records of the accepted reports of a batch."""
    statement = _select_reports(batch_id, "accepted", SKETCHES.c.n_records)
    rows = (await transaction.connection.execute(statement)).all()
    members = compute_members(compute_report(to_header(row)) for row in rows)
    is_secret = any(row.n_records is None for row in rows)
    return members, len(rows), None if is_secret else sum(row.n_records for row in rows)


async def stream_payloads(
    transaction: Transaction, batch_id: bytes
) -> AsyncIterator[Sequence[tuple[bytes, bytes]]]:
    """Yield header and payload of the accepted reports of a batch, some at once."""
    statement = _select_reports(batch_id, "accepted", SKETCHES.c.payload)
    async with transaction.connection.stream(statement) as result:
        try:
            async for rows in result.partitions(_STREAMED):
                yield [(to_header(row), row.payload) for row in rows]
        finally:
            await result.close()
