"""A transaction: statements on the table of any record, and what other statements are made of."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from functools import cache
from typing import Any, TypeVar, cast

from sqlalchemy import (
    Column,
    ColumnElement,
    Row,
    Select,
    Table,
    bindparam,
    delete,
    func,
    select,
    tuple_,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.dml import Delete, Update

from sfumato.aggregator.base.tables import TABLES

PageKey = tuple[float, bytes]
"""The end of a page: the time and identity of its last item."""

R = TypeVar("R")
NO_LEASE: dict[str, Any] = {"lease_token": None, "lease_expires": None}


class Transaction:
    """Reads and writes that happen together or not at all.

    A record is named by its class, which gives the table, and the value of its only key. The
    statements of a resource are functions that take the transaction first; those named ``add_``
    return false, and change nothing, where the identity is already taken.
    """

    def __init__(self, connection: AsyncConnection) -> None:
        self.connection = connection
        self.has_erased = False
        """Whether bytes were removed that must not stay readable in a log either."""

    @property
    def is_writing(self) -> bool:
        """True if this transaction may write."""
        options = cast("Any", self.connection.sync_connection).get_execution_options()
        return bool(options.get("sfumato_write", False))

    def insert_into(self, table: Table) -> postgresql.Insert:
        """Start an insert in the dialect of this database."""
        return insert_into(table, self.connection.dialect.name)

    async def add(self, record: object) -> bool:
        """Insert a record; false if a unique constraint forbids it."""
        values = {f.name: getattr(record, f.name) for f in fields(cast("Any", record))}
        statement = _insert_one(cast("Any", type(record)), self.connection.dialect.name)
        return (await self.connection.execute(statement, values)).first() is not None

    async def get(self, kind: type[R], key: object, *, lock: bool = False) -> R | None:
        """Return the record of a key; ``lock`` its row until the transaction ends."""
        found = await self.connection.execute(
            _select_one(cast("Any", kind), lock=lock), {"key": key}
        )
        return to_record(kind, found.first())

    async def get_many(
        self, kind: type[R], keys: Collection[bytes], *, lock: bool = False
    ) -> Mapping[bytes, R]:
        """Return the records that exist, by key; ``lock`` their rows."""
        found = await self.connection.execute(
            _select_many(cast("Any", kind), lock=lock), {"keys": list(keys)}
        )
        name = key_of(TABLES[kind]).name
        return {row._mapping[name]: kind(**row._mapping) for row in found}

    async def find(self, kind: type[R], **members: Any) -> R | None:
        """Return the first record with these members."""
        return next(iter(await self.list_all(kind, **members)), None)

    async def list_all(self, kind: type[R], **members: Any) -> Sequence[R]:
        """Return all records with these members, in the order of their pages."""
        return await self.list_records(_select_in_order(kind).where(*_equal(kind, members)), kind)

    async def list_page(
        self, kind: type[R], *, after: PageKey | None, limit: int, **members: Any
    ) -> Sequence[R]:
        """Return records with these members, after the end of a page."""
        return await self.list_where(kind, *_equal(kind, members), after=after, limit=limit)

    async def change(self, kind: type[Any], key: object, **values: Any) -> bool:
        """Change columns of a record; false if there is none."""
        return await self.run(update_one(kind, key).values(values)) > 0

    async def revoke(self, kind: type[Any], key: object, *, now: float) -> bool:
        """Revoke a record; false if there is none or it is revoked already."""
        in_use = update_one(kind, key).where(TABLES[kind].c.revoked.is_(None))
        return await self.run(in_use.values(revoked=now)) > 0

    async def settle(self, kind: type[Any], key: object, token: bytes, **values: Any) -> bool:
        """Change a leased record and end its lease; false if the lease is lost."""
        held = update_one(kind, key).where(TABLES[kind].c.lease_token == token)
        return await self.run(held.values(values | NO_LEASE)) > 0

    async def remove(self, kind: type[Any], key: object) -> bool:
        """Remove a record; false if there is none."""
        table = TABLES[kind]
        return await self.run(delete(table).where(key_of(table) == key)) > 0

    async def list_records(self, statement: Select[*tuple[Any, ...]], kind: type[R]) -> list[R]:
        """Return the records that a statement selects."""
        found = await self.connection.execute(statement)
        return [kind(**row._mapping) for row in found]

    async def list_where(
        self, kind: type[R], *which: ColumnElement[bool], after: PageKey | None, limit: int
    ) -> Sequence[R]:
        """Return records for which conditions hold, after the end of a page."""
        time, identity = TABLES[kind].info["order"]
        is_newest_first = TABLES[kind].info["is_newest_first"]
        later = follows(time, identity, after, newest_first=is_newest_first)
        statement = _select_in_order(kind).where(*which, *later)
        return await self.list_records(statement.limit(limit), kind)

    async def count_states(self, kind: type[Any]) -> Mapping[str, int]:
        """Count records by state, without states that do not occur."""
        state = TABLES[kind].c.state
        found = await self.connection.execute(select(state, func.count()).group_by(state))
        return {str(each): int(count) for each, count in found}

    async def lease(self, kind: type[R], due: Select[Any], **taken: Any) -> R | None:
        """Change the first of some keys, and return its record: of two servers one gets it."""
        table = TABLES[kind]
        # On Postgres, others skip the locked row; SQLite has one writer.
        first = due.limit(1).with_for_update(skip_locked=True, of=table).scalar_subquery()
        statement = update(table).where(key_of(table) == first).values(taken)
        columns = select_records(kind).selected_columns
        found = await self.connection.execute(statement.returning(*columns))
        return to_record(kind, found.first())

    async def scalar(self, statement: Select[Any]) -> Any:
        """Return the only value that a statement selects."""
        return (await self.connection.execute(statement)).scalar_one()

    async def exists(self, statement: Select[Any]) -> bool:
        """Return whether a statement selects any row."""
        return (await self.connection.execute(statement.limit(1))).first() is not None

    async def erase(self, statement: Any) -> int:
        """Run a statement that removes masked sums; return the number of rows."""
        self.has_erased = True
        return await self.run(statement)

    async def run(self, statement: Update | Delete) -> int:
        """Run an update or a delete; return the number of rows."""
        return (await self.connection.execute(statement)).rowcount


def insert_into(table: Table, dialect: str) -> postgresql.Insert:
    """Start an insert that can name what to do on a conflict; both dialects write it alike."""
    if dialect == "postgresql":
        return postgresql.insert(table)
    return cast("postgresql.Insert", sqlite.insert(table))


def select_records(kind: type[Any]) -> Select[Any]:
    """Select the columns that a record holds."""
    return select(*(TABLES[kind].c[f.name] for f in fields(kind)))


@cache
def _insert_one(kind: Any, dialect: str) -> Any:
    statement = insert_into(TABLES[kind], dialect).on_conflict_do_nothing()
    return statement.returning(*TABLES[kind].primary_key)


@cache
def _select_one(kind: Any, *, lock: bool) -> Select[Any]:
    # Built once: every upload runs some, and building one takes as long as running it.
    statement = select_records(kind).where(key_of(TABLES[kind]) == bindparam("key"))
    # Written by Postgres alone: a writer of SQLite is alone anyway.
    return statement.with_for_update() if lock else statement


@cache
def _select_many(kind: Any, *, lock: bool) -> Select[Any]:
    key = key_of(TABLES[kind])
    statement = select_records(kind).where(key.in_(bindparam("keys", expanding=True)))
    # In one order everywhere, so that two lockers of the same rows cannot deadlock.
    return statement.order_by(key).with_for_update() if lock else statement


def _select_in_order(kind: type[Any]) -> Select[Any]:
    info = TABLES[kind].info
    columns = [each.desc() if info["is_newest_first"] else each for each in info["order"]]
    return select_records(kind).order_by(*columns)


def _equal(kind: type[Any], members: Mapping[str, Any]) -> list[ColumnElement[bool]]:
    return [TABLES[kind].c[name] == value for name, value in members.items()]


def key_of(table: Table) -> Column[Any]:
    """Return the only column of a primary key."""
    (key,) = table.primary_key
    return key


def update_one(kind: type[Any], key: object) -> Update:
    """Start an update of the record of a key."""
    return update(TABLES[kind]).where(key_of(TABLES[kind]) == key)


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
    # Compared as a row, which an index finds; an OR would read all pages before.
    place, end = tuple_(time, identity), tuple_(*after)
    return [place < end if newest_first else place > end]
