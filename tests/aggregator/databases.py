"""Databases for tests: copies of a template that the migrations made once in this process.

Postgres takes longer to make one than most tests take. So what a test leaves behind is removed, and
the database serves the next test of this process.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import psycopg
import pytest
from sqlalchemy import make_url
from sqlalchemy.ext.asyncio import AsyncEngine

from sfumato.aggregator.base.engine import create_engine
from sfumato.aggregator.base.store import Store, open_store
from sfumato.aggregator.database.schema import migrate_database
from sfumato.aggregator.settings import normalise_database_url

S = TypeVar("S", bound=Store)

POSTGRES = make_url(
    normalise_database_url(
        os.environ.get("SFUMATO_TEST_POSTGRES", "postgresql://127.0.0.1:5432/test")
    )
)
"""A database of the server on which tests make theirs."""

_templates: dict[str, str] = {}
"""By kind: the path of a SQLite file, or the name of a Postgres database."""
_spares: dict[bool, list[str]] = {True: [], False: []}
"""Postgres databases for next tests, by whether they are empty."""
_DESCRIBED = """
SELECT md5(string_agg(line, chr(10) ORDER BY line)) FROM (
    SELECT concat_ws(' ', relname, relkind, attname, format_type(atttypid, atttypmod), attnotnull)
    FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
    WHERE relnamespace = 'public'::regnamespace AND attnum > 0
    UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'
    UNION ALL SELECT concat_ws(' ', conrelid::regclass, pg_get_constraintdef(oid))
    FROM pg_constraint WHERE connamespace = 'public'::regnamespace
    UNION ALL SELECT concat_ws(' ', tgrelid::regclass, tgname, tgenabled)
    FROM pg_trigger WHERE NOT tgisinternal
    UNION ALL SELECT concat_ws(' ', proname, prosrc)
    FROM pg_proc WHERE pronamespace = 'public'::regnamespace
) AS described (line)
"""
_FILLED = ("alembic_version", "server")
"""Tables that have rows in a new database."""


@asynccontextmanager
async def open_kind(kind: str, folder: Path, *, is_empty: bool = False) -> AsyncIterator[Store]:
    """Open a store in a new database: ``sqlite``, in a folder, or ``postgres``."""
    if kind == "postgres":
        async with open_postgres(is_empty=is_empty) as store:
            yield store
        return
    async with open_sqlite(folder / "aggregator.db", is_empty=is_empty) as store:
        yield store


@asynccontextmanager
async def open_sqlite(path: Path, *, is_empty: bool = False) -> AsyncIterator[Store]:
    """Open a store in a new file."""
    if is_empty:
        path.touch()
    else:
        await copy_sqlite(path)
    store = open_store(normalise_database_url(str(path)))
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def open_as(make: Callable[[AsyncEngine], S], path: Path) -> AsyncIterator[S]:
    """Open a store of another class in a new file."""
    await copy_sqlite(path)
    store = make(create_engine(normalise_database_url(str(path))))
    try:
        yield store
    finally:
        await store.close()


async def copy_sqlite(path: Path) -> None:
    """Make a SQLite database with the tables of this release."""
    if "sqlite" not in _templates:
        folder = tempfile.mkdtemp(prefix="sfumato-template-")
        atexit.register(shutil.rmtree, folder)
        template = Path(folder) / "template.db"
        # Closed, so that all of it is in the one file.
        await _migrate(normalise_database_url(str(template)))
        _templates["sqlite"] = str(template)
    shutil.copyfile(_templates["sqlite"], path)


@asynccontextmanager
async def open_postgres(*, is_empty: bool = False, options: str = "") -> AsyncIterator[Store]:
    """Open a store in a database of its own; skip the test where no Postgres answers."""
    name = await create_postgres(is_empty=is_empty, options=options)
    store = open_store(address_of(name))
    try:
        yield store
    finally:
        await store.close()
        if options:
            drop_postgres(name)
        else:
            give_back_postgres(name, is_empty=is_empty)


async def create_postgres(
    name: str | None = None, *, is_empty: bool = False, options: str = ""
) -> str:
    """Make a Postgres database, with the tables of this release unless it is to be empty."""
    name = name or _draw_name()
    if _spares[is_empty] and not options:
        _run_on_postgres(f"ALTER DATABASE {_spares[is_empty].pop()} RENAME TO {name}")
        return name
    if is_empty:
        _run_on_postgres(f"CREATE DATABASE {name} {options}")
        return name
    if "postgres" not in _templates:
        template = _draw_name()
        _run_on_postgres(f"CREATE DATABASE {template}")
        atexit.register(drop_postgres, template)
        await _migrate(address_of(template))
        _templates["postgres"] = template
    _run_on_postgres(f"CREATE DATABASE {name} TEMPLATE {_templates['postgres']}")
    return name


def drop_postgres(name: str) -> None:
    """Remove a Postgres database, whoever is connected to it."""
    _run_on_postgres(f"DROP DATABASE {name} WITH (FORCE)")


def give_back_postgres(name: str, *, is_empty: bool = False) -> None:
    """Keep a database for a next test, under a name that no process of this test has heard of.

    One whose tables are other than those of the template is removed.
    """
    spare = _draw_name()
    _run_on_postgres(
        f"ALTER DATABASE {name} ALLOW_CONNECTIONS false",
        f"SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = '{name}'",
        f"ALTER DATABASE {name} RENAME TO {spare}",
        f"ALTER DATABASE {spare} ALLOW_CONNECTIONS true",
    )
    if not (_empty if is_empty else _refill)(spare):
        drop_postgres(spare)
        return
    _spares[is_empty].append(spare)


def _empty(name: str) -> bool:
    with connect(name) as connection:
        connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    return True


def _refill(name: str) -> bool:
    """Put the rows of the template in the place of all others; return whether all is as there."""
    described, tables, rows = _read_template(_templates["postgres"])
    with connect(name) as connection:
        if connection.execute(_DESCRIBED.encode()).fetchone() != described:
            return False
        # No trigger runs, such as the one that keeps the audit log.
        connection.execute("SET session_replication_role = replica")
        connection.execute("; ".join(f"DELETE FROM {table}" for table in tables).encode())
        for table, values in zip(_FILLED, rows, strict=True):
            places = ", ".join(["%s"] * len(values))
            connection.execute(f"INSERT INTO {table} VALUES ({places})".encode(), values)
    return True


@cache
def _read_template(name: str) -> tuple[Any, list[str], list[tuple[Any, ...]]]:
    """Return a description of the tables, their names, and the rows of those that are filled."""
    with connect(name) as connection:
        described = connection.execute(_DESCRIBED.encode()).fetchone()
        named = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
        tables = [table for (table,) in connection.execute(named)]
        rows = [
            row
            for table in _FILLED
            for row in connection.execute(f"SELECT * FROM {table}".encode())
        ]
    return described, tables, rows


@atexit.register
def _drop_spares() -> None:
    for spare in [*_spares[True], *_spares[False]]:
        drop_postgres(spare)


def _draw_name() -> str:
    return f"sfumato_test_{uuid.uuid4().hex}"


def find_address(store: Store, **changes: Any) -> str:
    """Return the address of a store's database, with changes to its parts."""
    return store.engine.url.set(**changes).render_as_string(hide_password=False)


def address_of(name: str) -> str:
    """Return the address of a Postgres database."""
    return POSTGRES.set(database=name).render_as_string(hide_password=False)


def _run_on_postgres(*statements: str) -> None:
    try:
        connection = connect(POSTGRES.database)
    except psycopg.OperationalError as error:
        pytest.skip(f"no Postgres answers at {POSTGRES}: {type(error).__name__}")
    with connection:
        for statement in statements:
            connection.execute(statement.encode())


def connect(database: str | None = POSTGRES.database) -> psycopg.Connection[Any]:
    """Connect to a database of the server on which tests make theirs."""
    address = POSTGRES.set(drivername="postgresql", database=database)
    return psycopg.connect(
        address.render_as_string(hide_password=False), autocommit=True, connect_timeout=5
    )


async def _migrate(database_url: str) -> None:
    store = open_store(database_url)
    await migrate_database(store.engine)
    await store.close()
