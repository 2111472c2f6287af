"""Running sums over ranges of slots, and the pending sketches beside them.

An upload stores its sketch as pending, in one transaction; merging adds many pending sketches to
the cells at once. So uploads never wait for each other's sums. At every moment a total is the
cells, plus the pending sketches, minus those of excluded devices.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Row, and_, false, func, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from sfumato.aggregator.base.sums.addition import CellKey, is_shown
from sfumato.aggregator.base.sums.cells import (
    Cell,
    add_cells,
    decode_array,
    decode_limbs,
    decode_members,
    decode_moments,
    encode_array,
    encode_devices,
    encode_limbs,
    encode_members,
    encode_moments,
)
from sfumato.aggregator.base.sums.dyadic import (
    NO_LABELS,
    TIMELESS_NODE,
    Cover,
    Node,
    cover,
    unshift_slot,
)
from sfumato.aggregator.base.sums.layout import Layout
from sfumato.aggregator.base.sums.payloads import BATCH
from sfumato.aggregator.base.sums.selection import Selection, SketchTotals
from sfumato.aggregator.base.transaction import Transaction, insert_into
from sfumato.aggregator.resources.devices.store import DEVICES
from sfumato.aggregator.resources.sketches.store.entries import (
    select_pending,
    subtract_leaving,
    sum_entries,
)
from sfumato.aggregator.resources.sketches.store.tables import CELLS, PENDING_SKETCHES, SKETCHES
from sfumato.aggregator.resources.studies.store import CELL_ROOTS

Mark = tuple[bytes, bytes]
"""The digest of a cell's members, and its devices: they change whenever the cell does."""
_KEY = ("study_id", "level", "first", "length", "labels")


async def sum_sketches(
    transaction: Transaction, study_id: bytes, selection: Selection, *, layout: Layout
) -> SketchTotals:
    """Total of a selection: merged cells plus pending sketches minus excluded devices.

    Exact, at one moment. The work grows with the logarithm of the selection's length and with
    the number of pending sketches.

    Raises
    ------
    StoreError
        A sum could leave 64 bits.
    """
    if transaction.is_writing:
        # The statements of a writer see different moments; the lock keeps merging out.
        await lock_root(transaction.connection, study_id)
    root = await read_root(transaction.connection, study_id)
    chosen = cover(root, selection.first_slot, selection.last_slot)
    labels = await _find_label_sets(transaction, study_id, root, selection)
    total = await _sum_cells(transaction, study_id, chosen, labels, layout)
    total = await subtract_leaving(transaction.connection, study_id, selection, total, layout)
    counted = select_pending(study_id).where(DEVICES.c.excluded.is_(None))
    waiting = await sum_entries(transaction.connection, counted, selection, layout)
    return add_cells([total, waiting], layout).to_totals()


async def find_slots(transaction: Transaction, study_id: bytes) -> tuple[int, int] | None:
    """Return the first and the last slot that hold a sketch; None where none has a slot."""
    held = select(CELLS.c.first, CELLS.c.length).where(
        CELLS.c.study_id == study_id,
        CELLS.c.labels == NO_LABELS,
        CELLS.c.n_sketches > 0,
        or_(CELLS.c.level == 0, CELLS.c.length > 0),
    )
    nodes = [Node(0, *row) for row in await transaction.connection.execute(held)]
    ends = [(unshift_slot(node.first), unshift_slot(node.last)) for node in nodes]
    pending = (
        select(func.min(SKETCHES.c.first_slot), func.max(SKETCHES.c.last_slot))
        .join(PENDING_SKETCHES, PENDING_SKETCHES.c.sketch_id == SKETCHES.c.sketch_id)
        .where(PENDING_SKETCHES.c.study_id == study_id)
    )
    first, last = (await transaction.connection.execute(pending)).one()
    if first is not None and last is not None:
        ends.append((first, last))
    if not ends:
        return None
    return min(first for first, _ in ends), max(last for _, last in ends)


async def _sum_cells(
    transaction: Transaction,
    study_id: bytes,
    chosen: Cover,
    labels: Collection[str],
    layout: Layout,
) -> Cell:
    if not labels:
        return add_cells([], layout)
    total = add_cells([], layout)
    statement = select(CELLS).where(
        CELLS.c.study_id == study_id, CELLS.c.labels.in_(labels), _in_cover(chosen)
    )
    async with transaction.connection.stream(statement) as result:
        try:
            async for rows in result.partitions(BATCH):
                found = [to_cell(row) for row in rows if _takes(chosen, to_node(row))]
                total = add_cells([total, *found], layout)
        finally:
            # The block closes the server's cursor only where no error leaves it.
            await result.close()
    return total


async def _find_label_sets(
    transaction: Transaction, study_id: bytes, root: Node | None, selection: Selection
) -> Collection[str]:
    """Return the label sets to add up; the highest cells show all that a study has."""
    if not selection.labels:
        return [NO_LABELS]
    tops = [TIMELESS_NODE] if root is None else [TIMELESS_NODE, root]
    statement = select(CELLS.c.labels).where(CELLS.c.study_id == study_id, _at(tops)).distinct()
    present = (await transaction.connection.execute(statement)).scalars()
    return [text for text in present if is_shown(text, selection)]


async def read_root(connection: AsyncConnection, study_id: bytes) -> Node | None:
    """Return the root of a study's cells; None before the first."""
    statement = select(CELL_ROOTS.c.level, CELL_ROOTS.c.first).where(
        CELL_ROOTS.c.study_id == study_id
    )
    return to_root((await connection.execute(statement)).first())


async def lock_root(
    connection: AsyncConnection, study_id: bytes, *, skip_locked: bool = False
) -> Any:
    """Return the root, and lock the cells of the study until the transaction ends."""
    statement = (
        select(CELL_ROOTS.c.level, CELL_ROOTS.c.first)
        .where(CELL_ROOTS.c.study_id == study_id)
        .with_for_update(skip_locked=skip_locked)
    )
    return (await connection.execute(statement)).first()


async def load_cells(
    connection: AsyncConnection, study_id: bytes, nodes: Collection[Node]
) -> dict[CellKey, Cell]:
    """Return the cells at some nodes."""
    found = await load_cell_rows(connection, study_id, nodes)
    return {key: to_cell(row) for key, row in found.items()}


async def load_cell_rows(
    connection: AsyncConnection, study_id: bytes, nodes: Collection[Node], *columns: Any
) -> dict[CellKey, Row[Any]]:
    """Return the rows of the cells at some nodes, of all columns or some."""
    statement = select(*(columns or [CELLS])).where(CELLS.c.study_id == study_id, _at(nodes))
    found = await connection.execute(statement)
    return {(node, row.labels): row for row in found if (node := to_node(row)) in nodes}


async def read_marks(
    connection: AsyncConnection, study_id: bytes, nodes: Collection[Node]
) -> dict[CellKey, Mark]:
    """Return the marks of the cells at some nodes."""
    columns = (*key_columns(), CELLS.c.members, CELLS.c.devices)
    found = await load_cell_rows(connection, study_id, nodes, *columns)
    return {key: mark_of(row) for key, row in found.items()}


async def save_cells(
    connection: AsyncConnection, study_id: bytes, cells: Mapping[CellKey, Cell]
) -> None:
    """Store cells, new or changed."""
    await save_cell_rows(
        connection, [to_cell_row(study_id, key, cell) for key, cell in cells.items()]
    )


async def save_cell_rows(connection: AsyncConnection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Store the rows of cells, new or changed."""
    if not rows:
        return
    statement = insert_into(CELLS, connection.dialect.name)
    changed = {name: statement.excluded[name] for name in rows[0] if name not in _KEY}
    await connection.execute(
        statement.on_conflict_do_update(index_elements=_KEY, set_=changed), rows
    )


def key_columns() -> list[Any]:
    """Return the columns that :func:`to_node` needs, and the labels."""
    return [CELLS.c.level, CELLS.c.first, CELLS.c.length, CELLS.c.labels]


def _at(nodes: Collection[Node]) -> ColumnElement[bool]:
    """Return a condition that these nodes meet, and few others: one index search per level."""
    firsts: dict[tuple[int, bool], set[int]] = defaultdict(set)
    for node in nodes:
        firsts[node.level, node.length > 0].add(node.first)
    return or_(
        false(),
        *(
            and_(
                CELLS.c.level == level,
                CELLS.c.first.in_(sorted(values)),
                CELLS.c.length > 0 if is_span else CELLS.c.length == 0,
            )
            for (level, is_span), values in sorted(firsts.items())
        ),
    )


def _in_cover(chosen: Cover) -> ColumnElement[bool]:
    spans = [
        and_(
            CELLS.c.level == node.level,
            CELLS.c.first.between(node.first, node.last),
            CELLS.c.length > 0,
        )
        for node in chosen.crossed
        if node.level > 0
    ]
    return or_(_at(chosen.nodes), *spans)


def _takes(chosen: Cover, node: Node) -> bool:
    return node.length == 0 or chosen.takes(node)


def to_root(row: Any) -> Node | None:
    """Make a root of a row; None where there is none yet."""
    return None if row is None or row.level is None else Node(row.level, row.first)


def to_node(row: Row[Any]) -> Node:
    """Make a node of a cell's row."""
    return Node(row.level, row.first, row.length)


def to_cell(row: Row[Any]) -> Cell:
    """Make a cell of its row."""
    return Cell(
        sums=decode_array(row.sums),
        size_sums=decode_limbs(row.size_sums),
        moments=decode_moments(row.moments),
        magnitude=row.magnitude,
        members=decode_members(row.members),
        devices=int.from_bytes(row.devices, "little"),
    )


def mark_of(row: Row[Any]) -> Mark:
    """Return the mark of a cell's row."""
    return row.members, row.devices


def to_cell_row(study_id: bytes, key: CellKey, cell: Cell) -> dict[str, Any]:
    """Return the columns of a cell."""
    node, labels = key
    return {
        "study_id": study_id,
        "level": node.level,
        "first": node.first,
        "length": node.length,
        "labels": labels,
        "n_sketches": cell.moments.n_sketches,
        "moments": encode_moments(cell.moments),
        "magnitude": cell.magnitude,
        "members": encode_members(cell.members),
        "devices": encode_devices(cell.devices),
        "sums": encode_array(cell.sums),
        "size_sums": encode_limbs(cell.size_sums),
    }
