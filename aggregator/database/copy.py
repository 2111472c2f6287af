"""Copy a whole database into another, of either kind, in one transaction."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Table, insert, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from sfumato.aggregator.base.engine import mapped_errors
from sfumato.aggregator.base.generation import SERVER
from sfumato.aggregator.base.store import Store
from sfumato.aggregator.base.sums.layout import Layout
from sfumato.aggregator.base.transaction import Transaction
from sfumato.aggregator.database.inspection import count_rows
from sfumato.aggregator.database.schema import migrate_database, require_ready
from sfumato.aggregator.database.tables import METADATA
from sfumato.aggregator.resources.batches.store.check import check_sums
from sfumato.aggregator.resources.jobs.store import WORKERS
from sfumato.aggregator.resources.studies.store import STUDIES
from sfumato.shared.errors import ConfigError, StoreError
from sfumato.shared.plan import decode_plan

_OF_A_PLACE = (SERVER, WORKERS)
_PAGE = 500
"""Rows at once: some megabytes with payloads."""


async def copy_database(source: Store, target: Store) -> Mapping[str, int]:
    """Copy every table into an empty database; return the number of rows of each.

    The target gets its own generation, so devices resend to it what the source received later.

    Raises
    ------
    ConfigError
        The target is not empty, or a schema is of another version.
    StoreError
        The copy differs from the source; nothing was changed.
    TransportError
        A database does not answer; the target may have empty tables.

    Guarantees
    ----------
    The source is read at one moment. The target commits all rows together, after their numbers were
    compared and every running sum checked against the sketches. An interrupted copy leaves empty
    tables, and can be run again.
    """
    await require_ready(source)
    with mapped_errors():
        await migrate_database(target.engine)
    async with source.begin() as reading, target.begin(write=True) as writing:
        old, new = reading.connection, writing.connection
        tables = [table for table in METADATA.sorted_tables if table not in _OF_A_PLACE]
        for table in tables:
            if await count_rows(writing, table):
                raise ConfigError(
                    f"has rows in {table.name}", field="to", fix="name an empty database"
                )
        counts = {table.name: await _copy_table(old, new, table) for table in tables}
        for table in tables:
            await _require_count(reading, writing, table)
        await _require_sums(writing)
    return counts


async def _copy_table(old: AsyncConnection, new: AsyncConnection, table: Table) -> int:
    n_copied = 0
    async for rows in _list_pages(old, table):
        await new.execute(insert(table), rows)
        n_copied += len(rows)
    return n_copied


async def _list_pages(
    connection: AsyncConnection, table: Table
) -> AsyncIterator[Sequence[dict[str, Any]]]:
    key = tuple_(*table.primary_key.columns)
    statement = select(table).order_by(*table.primary_key.columns).limit(_PAGE)
    page = statement
    while rows := [dict(row._mapping) for row in await connection.execute(page)]:
        yield rows
        last = tuple(rows[-1][column.name] for column in table.primary_key.columns)
        page = statement.where(key > last)


async def _require_count(old: Transaction, new: Transaction, table: Table) -> None:
    sent, arrived = await count_rows(old, table), await count_rows(new, table)
    if sent != arrived:
        raise StoreError(
            f"has {arrived} of {sent} rows in {table.name}", field="to", fix="try again"
        )


async def _require_sums(writing: Transaction) -> None:
    for row in await writing.connection.execute(select(STUDIES.c.study_id, STUDIES.c.plan)):
        plan = decode_plan(row.plan)
        wrong = await check_sums(writing, row.study_id, layout=Layout.of(plan))
        if wrong:
            raise StoreError(
                f"has running sums that differ from its sketches: {', '.join(wrong[:3])}",
                field="to",
                fix="run `sfumato check-store` on the source: its sums may be wrong too",
            )
