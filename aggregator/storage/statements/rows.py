"""Statements that every subject needs: find a record, list a page, change a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, TypeVar, cast

from sqlalchemy import ColumnElement, Row, Select, Table, and_, or_, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.dml import Delete, Update

from sfumato.aggregator.records import PageKey
from sfumato.aggregator.storage.tables import TABLES

R = TypeVar("R")


class Rows:
    """Statements on one connection, inside one transaction."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection
        self.has_erased = False
        """Whether bytes were removed that must not stay readable in a log either."""

    @property
    def _is_writing(self) -> bool:
        """True if this transaction may write."""
        options = cast("Any", self._connection.sync_connection).get_execution_options()
        return bool(options.get("sfumato_write", False))

    def _insert(self, table: Table) -> postgresql.Insert:
        return insert_into(table, self._connection.dialect.name)

    async def _add(self, record: object) -> bool:
        """Insert a record; false if a unique constraint forbids it."""
        table = TABLES[type(record)]
        values = {f.name: getattr(record, f.name) for f in fields(cast("Any", record))}
        statement = self._insert(table).values(values).on_conflict_do_nothing()
        found = await self._connection.execute(statement.returning(*table.primary_key))
        return found.first() is not None

    async def _find(
        self, kind: type[R], which: ColumnElement[bool], *, lock: bool = False
    ) -> R | None:
        """Return the record of one row; ``lock`` it until the transaction ends."""
        statement = select_records(kind).where(which)
        if lock:  # written by Postgres alone: a writer of SQLite is alone anyway
            statement = statement.with_for_update()
        return to_record(kind, (await self._connection.execute(statement)).first())

    async def _list(self, statement: Select[*tuple[Any, ...]], kind: type[R]) -> list[R]:
        found = await self._connection.execute(statement)
        return [kind(**row._mapping) for row in found]

    async def _list_page(
        self,
        kind: type[R],
        order: tuple[Any, Any],
        *which: ColumnElement[bool],
        after: PageKey | None,
        limit: int,
        newest_first: bool = False,
    ) -> Sequence[R]:
        """List records in the order of a time and an identity, after the end of a page."""
        later = follows(*order, after, newest_first=newest_first)
        columns = [column.desc() for column in order] if newest_first else order
        statement = select_records(kind).where(*which, *later)
        return await self._list(statement.order_by(*columns).limit(limit), kind)

    async def _scalar(self, statement: Select[Any]) -> Any:
        return (await self._connection.execute(statement)).scalar_one()

    async def _exists(self, statement: Select[Any]) -> bool:
        return (await self._connection.execute(statement.limit(1))).first() is not None

    async def _erase(self, statement: Any) -> int:
        """Run a statement that removes masked sums; return the number of rows."""
        self.has_erased = True
        return await self._change(statement)

    async def _change(self, statement: Update | Delete) -> int:
        """Run an update or a delete; return the number of rows."""
        return (await self._connection.execute(statement)).rowcount


def insert_into(table: Table, dialect: str) -> postgresql.Insert:
    """Start an insert that can name what to do on a conflict; both dialects write it alike."""
    if dialect == "postgresql":
        return postgresql.insert(table)
    return cast("postgresql.Insert", sqlite.insert(table))


def select_records(kind: type[Any]) -> Select[Any]:
    """Select the columns that a record holds."""
    return select(*(TABLES[kind].c[f.name] for f in fields(kind)))


def to_record(kind: type[R], row: Row[Any] | None) -> R | None:
    """Make a record of a row."""
    return None if row is None else kind(**row._mapping)


def follows(
    time: Any,
    identity: Any,
    after: PageKey | tuple[int, bytes] | None,
    *,
    newest_first: bool = False,
) -> list[ColumnElement[bool]]:
    """Return the condition for what comes after the end of a page."""
    if after is None:
        return []
    if newest_first:
        return [or_(time < after[0], and_(time == after[0], identity < after[1]))]
    return [or_(time > after[0], and_(time == after[0], identity > after[1]))]
