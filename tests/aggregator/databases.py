"""Databases for tests: copies of a template that the migrations made once in this process."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
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
        drop_postgres(name)


async def create_postgres(
    name: str | None = None, *, is_empty: bool = False, options: str = ""
) -> str:
    """Make a Postgres database, with the tables of this release unless it is to be empty."""
    name = name or f"sfumato_test_{uuid.uuid4().hex}"
    if is_empty:
        _run_on_postgres(f"CREATE DATABASE {name} {options}")
        return name
    if "postgres" not in _templates:
        template = await create_postgres(is_empty=True)
        atexit.register(drop_postgres, template)
        await _migrate(address_of(template))
        _templates["postgres"] = template
    _run_on_postgres(f"CREATE DATABASE {name} TEMPLATE {_templates['postgres']}")
    return name


def drop_postgres(name: str) -> None:
    """Remove a Postgres database, whoever is connected to it."""
    _run_on_postgres(f"DROP DATABASE {name} WITH (FORCE)")


def find_address(store: Store, **changes: Any) -> str:
    """Return the address of a store's database, with changes to its parts."""
    return store.engine.url.set(**changes).render_as_string(hide_password=False)


def address_of(name: str) -> str:
    """Return the address of a Postgres database."""
    return POSTGRES.set(database=name).render_as_string(hide_password=False)


def _run_on_postgres(statement: str) -> None:
    server = POSTGRES.set(drivername="postgresql").render_as_string(hide_password=False)
    try:
        connection = psycopg.connect(server, autocommit=True, connect_timeout=5)
    except psycopg.OperationalError as error:
        pytest.skip(f"no Postgres answers at {POSTGRES}: {type(error).__name__}")
    with connection:
        connection.execute(statement.encode())


async def _migrate(database_url: str) -> None:
    store = open_store(database_url)
    await migrate_database(store.engine)
    await store.close()
