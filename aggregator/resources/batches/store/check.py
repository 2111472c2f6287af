"""Check of the running sums against the sketches and batches that they hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import func, select

from sfumato.aggregator.base.sums.addition import CellKey, Entry
from sfumato.aggregator.base.sums.cells import Cell
from sfumato.aggregator.base.sums.check import ExpectedCells, describe_differences, describe_key
from sfumato.aggregator.base.sums.layout import Layout
from sfumato.aggregator.base.transaction import Transaction, follows, select_records
from sfumato.aggregator.resources.batches.record import BatchRecord
from sfumato.aggregator.resources.batches.store.batches import BATCHES
from sfumato.aggregator.resources.batches.sums import to_batch_entry
from sfumato.aggregator.resources.sketches.store.cells import (
    key_columns,
    load_cells,
    lock_root,
    read_root,
    to_node,
)
from sfumato.aggregator.resources.sketches.store.entries import (
    order_of,
    read_leaving,
    select_entries,
    to_entry,
)
from sfumato.aggregator.resources.sketches.store.tables import CELLS, PENDING_SKETCHES, SKETCHES

_CHECKED_AT_ONCE = 4096


async def check_sums(transaction: Transaction, study_id: bytes, *, layout: Layout) -> Sequence[str]:
    """Recompute the cells of a study from its sketches; name the cells that differ.

    Where payloads were dropped, only sizes and digests of members are compared.
    """
    if transaction.is_writing:
        await lock_root(transaction.connection, study_id)
    expected = ExpectedCells(await read_root(transaction.connection, study_id), layout)
    dropped = select(SKETCHES.c.sketch_id).where(
        SKETCHES.c.study_id == study_id,
        SKETCHES.c.state == "stored",
        SKETCHES.c.payload.is_(None),
    )
    has_all = not await transaction.exists(dropped)
    unsure = await read_leaving(transaction.connection, study_id)
    wrong: list[str] = []
    seen: set[CellKey] = set()

    async def compare(closed: Iterable[tuple[CellKey, Cell]]) -> None:
        cells = dict(closed)
        found = (
            await load_cells(transaction.connection, study_id, {node for node, _ in cells})
            if cells
            else {}
        )
        seen.update(cells)
        wrong.extend(describe_differences(cells, found, sums_known=has_all, unsure=unsure))

    # Pages, not one stream: each needs the connection to look its cells up.
    after: tuple[int, bytes] | None = None
    while entries := await _list_merged(transaction, study_id, after, layout):
        await compare(expected.add(entries))
        after = (order_of(entries[-1].first_slot), entries[-1].row.sketch_id)
    await compare(expected.finish())
    held = select(*key_columns()).where(CELLS.c.study_id == study_id, CELLS.c.n_sketches != 0)
    for row in await transaction.connection.execute(held):
        if (to_node(row), row.labels) not in seen:
            wrong.append(describe_key((to_node(row), row.labels)))
    return wrong


async def _list_counted(
    transaction: Transaction, study_id: bytes, after: tuple[int, bytes] | None
) -> list[Entry]:
    statement = (
        select_records(BatchRecord)
        .where(BATCHES.c.study_id == study_id, BATCHES.c.standing == "counted")
        .where(*follows(BATCHES.c.slot, BATCHES.c.batch_id, after))
        .order_by(BATCHES.c.slot, BATCHES.c.batch_id)
        .limit(_CHECKED_AT_ONCE)
    )
    return [
        to_batch_entry(batch) for batch in await transaction.list_records(statement, BatchRecord)
    ]


async def _list_merged(
    transaction: Transaction, study_id: bytes, after: tuple[int, bytes] | None, layout: Layout
) -> list[Entry]:
    if layout.is_batched:
        return await _list_counted(transaction, study_id, after)
    order = func.coalesce(SKETCHES.c.first_slot, order_of(None))
    waits = select(PENDING_SKETCHES.c.sketch_id).where(PENDING_SKETCHES.c.study_id == study_id)
    # The page is found without payloads: the database sorts every remaining sketch.
    page = (
        select(SKETCHES.c.sketch_id)
        .where(SKETCHES.c.study_id == study_id, SKETCHES.c.state == "stored")
        .where(SKETCHES.c.sketch_id.not_in(waits), *follows(order, SKETCHES.c.sketch_id, after))
        .order_by(order, SKETCHES.c.sketch_id)
        .limit(_CHECKED_AT_ONCE)
    )
    statement = select_entries().where(SKETCHES.c.sketch_id.in_(page))
    found = await transaction.connection.execute(statement.order_by(order, SKETCHES.c.sketch_id))
    return [to_entry(row, dropped=layout.empty_payload) for row in found]
