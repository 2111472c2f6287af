"""Rows of tables: the common part, a record as a row, field by field."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, TypeVar, cast

from sqlalchemy import ColumnElement, Row, and_, inspect, or_
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from aggregator.records import PageKey
from aggregator.storage.models import Base

R = TypeVar("R")


class Rows:
    """Statements on one connection, inside one transaction."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    @property
    def _is_writing(self) -> bool:
        """True if this transaction may write."""
        options = cast("Any", self._connection.sync_connection).get_execution_options()
        return bool(options.get("sfumato_write", False))

    def _insert(self, model: type[Base]) -> postgresql.Insert:
        """Start an insert that can name what to do on a conflict."""
        return insert_into(model, self._connection.dialect.name)

    async def _add(self, model: type[Base], record: object, **more: Any) -> bool:
        """Insert a record; false if a unique constraint forbids it."""
        values = {f.name: getattr(record, f.name) for f in fields(cast("Any", record))} | more
        statement = self._insert(model).values(values).on_conflict_do_nothing()
        key = inspect(model).primary_key
        found = await self._connection.execute(statement.returning(*key))
        return found.first() is not None


def insert_into(model: type[Base], dialect: str) -> postgresql.Insert:
    """Start an insert that can name what to do on a conflict; both dialects write it alike."""
    if dialect == "postgresql":
        return postgresql.insert(model)
    return cast("postgresql.Insert", sqlite.insert(model))


def columns_of(model: type[Base], record: type[Any]) -> list[Any]:
    """Return the columns that a record holds."""
    return [getattr(model, f.name) for f in fields(record)]


def to_record(record: type[R], row: Row[Any] | None) -> R | None:
    """Make a record of a row."""
    return None if row is None else record(**row._mapping)


def follows(
    time: Any, identity: Any, after: PageKey | tuple[int, bytes] | None
) -> list[ColumnElement[bool]]:
    """Return the condition for what comes after the end of a page."""
    if after is None:
        return []
    return [or_(time > after[0], and_(time == after[0], identity > after[1]))]
