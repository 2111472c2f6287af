"""How long excluding a device holds up others: as long for many sketches as for few."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import event

from sfumato.aggregator.base.store import Store
from sfumato.aggregator.resources.batches.store.exclusion import exclude_device, prepare_removal
from tests.aggregator.records import (
    LAYOUT,
    STUDY,
    add_sketch,
    fill,
    make_payload,
    make_sketch,
    merge,
    name,
)

pytestmark = pytest.mark.anyio


class Statements:
    """Statements with their values, and how many rows those that write have written."""

    def __init__(self, store: Store) -> None:
        self.seen: list[tuple[str, Any]] = []
        self.n_written = 0
        event.listen(store.engine.sync_engine, "after_cursor_execute", self._note)

    def _note(self, _connection: Any, cursor: Any, text: str, values: Any, *_others: Any) -> None:
        self.seen.append((text, values))
        if text.split(maxsplit=1)[0] in ("INSERT", "UPDATE", "DELETE"):
            self.n_written += max(cursor.rowcount, 1)


async def exclude(store: Store, number: int, n_sketches: int) -> Statements:
    """Store sketches of a device, most of them in cells, and exclude it."""
    async with store.begin(write=True) as transaction:
        for sequence in range(n_sketches):
            await add_sketch(
                transaction, make_sketch(number, sequence), make_payload(number, sequence)
            )
        await merge(transaction, most=n_sketches - 1)
    statements = Statements(store)
    async with store.begin(write=True) as transaction:
        found = await exclude_device(transaction, name("device", number), now=9.0, reason="lies")
    assert found is not None
    assert (found.n_subtracted, found.n_kept) == (n_sketches, 0)
    return statements


async def test_excluding_a_device_writes_as_much_however_many_sketches_it_has(
    store: Store,
) -> None:
    async with store.begin(write=True) as transaction:
        await fill(transaction, 2)
    few = await exclude(store, 0, 2)
    n_few, texts = few.n_written, [text for text, _ in few.seen]
    many = await exclude(store, 1, 60)
    assert [text for text, _ in many.seen] == texts
    assert many.n_written == n_few == 3
    if store.engine.dialect.name != "sqlite":
        return  # whose planner reads so few rows by whatever way
    counted = [one for one in many.seen if "FROM sketches" in one[0]]
    assert len(counted) == 2
    async with store.engine.connect() as connection:
        for text, values in counted:
            plan = await connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", values)
            (line,) = [row.detail for row in plan]
            # Indexes that hold all that is asked for: no row is read, with its payload beside it.
            assert "COVERING INDEX" in line or "ix_sketches_held_of_device" in line


async def test_what_leaves_is_found_without_looking_at_what_has_left(store: Store) -> None:
    """Or each batch would read all those before it."""
    async with store.begin(write=True) as transaction:
        await fill(transaction, 2)
    await exclude(store, 1, 5)
    statements = Statements(store)
    async with store.begin() as transaction:
        assert await prepare_removal(transaction, STUDY.study_id, layout=LAYOUT, most=2)
    if store.engine.dialect.name != "sqlite":
        return
    ((text, values),) = [one for one in statements.seen if "sketches.payload_digest" in one[0]]
    async with store.engine.connect() as connection:
        plan = await connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", values)
        lines = [row.detail for row in plan]
    assert any("ix_sketches_held_of_device (device_id=? AND state=?)" in line for line in lines)
