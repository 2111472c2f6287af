"""Statements that every subject needs: find a record, list a page, change a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, TypeVar, cast

from sqlalchemy import ColumnElement, Row, Select, and_, inspect, or_, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.dml import Delete, Update

from sfumato.aggregator.records import PageKey
from sfumato.aggregator.storage.models import Base

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

    def _insert(self, model: type[Base]) -> postgresql.Insert:
        return insert_into(model, self._connection.dialect.name)

    async def _add(self, model: type[Base], record: object, **more: Any) -> bool:
        """Insert a record; false if a unique constraint forbids it."""
        values = {f.name: getattr(record, f.name) for f in fields(cast("Any", record))} | more
        statement = self._insert(model).values(values).on_conflict_do_nothing()
        key = inspect(model).primary_key
        found = await self._connection.execute(statement.returning(*key))
        return found.first() is not None

    async def _find(
        self, model: type[Base], record: type[R], which: ColumnElement[bool], *, lock: bool = False
    ) -> R | None:
        """Return the record of one row; ``lock`` it until the transaction ends."""
        statement = select_records(model, record).where(which)
        if lock:  # written by Postgres alone: a writer of SQLite is alone anyway
            statement = statement.with_for_update()
        return to_record(record, (await self._connection.execute(statement)).first())

    async def _list(self, statement: Select[*tuple[Any, ...]], record: type[R]) -> list[R]:
        found = await self._connection.execute(statement)
        return [record(**row._mapping) for row in found]

    async def _list_page(
        self,
        model: type[Base],
        record: type[R],
        order: tuple[Any, Any],
        *which: ColumnElement[bool],
        after: PageKey | None,
        limit: int,
        newest_first: bool = False,
    ) -> Sequence[R]:
        """List records in the order of a time and an identity, after the end of a page."""
        later = follows(*order, after, newest_first=newest_first)
        columns = [column.desc() for column in order] if newest_first else order
        statement = select_records(model, record).where(*which, *later)
        return await self._list(statement.order_by(*columns).limit(limit), record)

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


def insert_into(model: type[Base], dialect: str) -> postgresql.Insert:
    """Start an insert that can name what to do on a conflict; both dialects write it alike."""
    if dialect == "postgresql":
        return postgresql.insert(model)
    return cast("postgresql.Insert", sqlite.insert(model))


def select_records(model: type[Base], record: type[Any]) -> Select[Any]:
    """Select the columns that a record holds."""
    return select(*(getattr(model, f.name) for f in fields(record)))


def to_record(record: type[R], row: Row[Any] | None) -> R | None:
    """Make a record of a row."""
    return None if row is None else record(**row._mapping)


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
