"""Merging: pending sketches are added to the cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import Row, delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from sfumato.aggregator.base.sums.addition import Addition, CellKey, sum_up
from sfumato.aggregator.base.sums.cells import Cell, add_cells
from sfumato.aggregator.base.sums.dyadic import Node, between
from sfumato.aggregator.base.sums.layout import Layout
from sfumato.aggregator.base.sums.payloads import Rest
from sfumato.aggregator.base.transaction import Transaction
from sfumato.aggregator.resources.sketches.store.cells import (
    Mark,
    load_cell_rows,
    load_cells,
    lock_root,
    mark_of,
    read_marks,
    read_root,
    save_cell_rows,
    save_cells,
    to_cell,
    to_cell_row,
    to_root,
)
from sfumato.aggregator.resources.sketches.store.entries import in_turns, select_pending, to_entry
from sfumato.aggregator.resources.sketches.store.tables import PENDING_SKETCHES
from sfumato.aggregator.resources.studies.store import CELL_ROOTS


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedMerge:
    """An addition, and the cells with it if they have not changed since they were read.

    Parameters
    ----------
    marks
        The marks of the cells as they were read.
    rows
        All cells of the addition with it, valid while the root and the marks are the same.
    """

    addition: Addition
    marks: Mapping[CellKey, Mark]
    rows: Sequence[Mapping[str, Any]]


async def list_unmerged(transaction: Transaction) -> Sequence[bytes]:
    """Return the studies with pending sketches."""
    statement = select(PENDING_SKETCHES.c.study_id).distinct()
    return list((await transaction.connection.execute(statement)).scalars())


async def merge_sketches(
    transaction: Transaction, study_id: bytes, *, layout: Layout, most: int
) -> int:
    """Add up to ``most`` pending sketches to the running sums; return the number.

    It is 0 while another transaction merges. Merging changes no total.

    Raises
    ------
    StoreError
        A sum could leave 64 bits.
    """
    if await lock_root(transaction.connection, study_id, skip_locked=True) is None:
        return 0
    prepared = await prepare_merge(transaction, study_id, layout=layout, most=most)
    return 0 if prepared is None else await apply_merge(transaction, prepared)


async def prepare_merge(
    transaction: Transaction, study_id: bytes, *, layout: Layout, most: int
) -> PreparedMerge | None:
    """Sum up to ``most`` pending sketches, and change nothing; None if there is none.

    With :meth:`apply_merge` the same as :meth:`merge_sketches`, in two transactions: a long one
    that reads, and a short one that writes.
    """
    root = await read_root(transaction.connection, study_id)
    statement = select_pending(study_id).order_by(PENDING_SKETCHES.c.sketch_id).limit(most)
    waiting = (await transaction.connection.execute(statement)).all()
    if not waiting:
        return None
    addition = await in_turns(partial(_sum_up, study_id, waiting, root, layout))
    found = await load_cell_rows(
        transaction.connection, study_id, {node for node, _ in addition.cells}
    )
    return await in_turns(partial(_add_up, addition, found))


async def apply_merge(transaction: Transaction, prepared: PreparedMerge) -> int:
    """Add prepared sums to the running sums; return the number of sketches.

    It is 0 if something changed since, or while another transaction merges.
    """
    addition = prepared.addition
    study_id = addition.study_id
    found = await lock_root(transaction.connection, study_id, skip_locked=True)
    # Only who holds the root takes sketches from those that wait.
    which = PENDING_SKETCHES.c.sketch_id.in_(addition.sketch_ids)
    waiting = select(func.count()).select_from(PENDING_SKETCHES).where(which)
    n_waiting = (await transaction.connection.execute(waiting)).scalar_one()
    if found is None or to_root(found) != addition.old:
        return 0
    if n_waiting != len(addition.sketch_ids):
        return 0
    nodes = {node for node, _ in addition.cells}
    if (
        addition.new == addition.old
        and await read_marks(transaction.connection, study_id, nodes) == prepared.marks
    ):
        await save_cell_rows(transaction.connection, prepared.rows)
    else:
        await move_root(transaction.connection, study_id, addition.old, addition.new)
        await add_to_cells(transaction.connection, study_id, addition.cells, addition.layout)
    await transaction.connection.execute(delete(PENDING_SKETCHES).where(which))
    return n_waiting


async def move_root(
    connection: AsyncConnection, study_id: bytes, old: Node | None, new: Node | None
) -> None:
    """Raise the root; the new one begins as a copy of the old."""
    if new is None or new == old:
        return
    if old is not None:
        top = await load_cells(connection, study_id, [old])
        cells = {(node, key[1]): cell for key, cell in top.items() for node in between(old, new)}
        await save_cells(connection, study_id, cells)
    await connection.execute(
        update(CELL_ROOTS)
        .where(CELL_ROOTS.c.study_id == study_id)
        .values(level=new.level, first=new.first)
    )


async def add_to_cells(
    connection: AsyncConnection, study_id: bytes, more: Mapping[CellKey, Cell], layout: Layout
) -> None:
    """Add sums to the cells of a study."""
    present = await load_cells(connection, study_id, {node for node, _ in more})
    await save_cells(connection, study_id, _add(present, more, layout))


def _sum_up(
    study_id: bytes, waiting: Sequence[Row[Any]], root: Node | None, layout: Layout, rest: Rest
) -> Addition:
    entries = []
    for row in waiting:
        entries.append(to_entry(row))
        rest()
    return sum_up(study_id, entries, root, layout, rest)


def _add_up(addition: Addition, found: Mapping[CellKey, Row[Any]], rest: Rest) -> PreparedMerge:
    rows = []
    for key, cell in addition.cells.items():
        present = {key: to_cell(found[key])} if key in found else {}
        total = _add(present, {key: cell}, addition.layout)
        rows.append(to_cell_row(addition.study_id, key, total[key]))
        rest()
    return PreparedMerge(
        addition=addition, marks={key: mark_of(row) for key, row in found.items()}, rows=rows
    )


def _add(
    present: Mapping[CellKey, Cell], more: Mapping[CellKey, Cell], layout: Layout
) -> dict[CellKey, Cell]:
    return {
        key: add_cells([present[key], cell], layout) if key in present else cell
        for key, cell in more.items()
    }
