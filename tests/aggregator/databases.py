"""Databases for tests: tables as a migration makes them, and a Postgres where one answers."""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, text
from sqlalchemy.exc import SQLAlchemyError

from aggregator.settings import normalise_database_url
from aggregator.storage import SqlStore, migrate_database
from aggregator.storage.migrating import _add_server_row
from aggregator.storage.sql.engine import create_engine

POSTGRES = normalise_database_url(
    os.environ.get("SFUMATO_TEST_POSTGRES", "postgresql://127.0.0.1:5432/test")
)

_scripts: dict[str, list[str]] = {}
"""By dialect: what a migration of an empty database executes."""


async def create_tables(store: SqlStore) -> None:
    """Bring an empty database to the latest version.

    The first of a process is migrated. All others get the same statements, in a fraction of the
    time: so it is the migrations that make the tables of every test.
    """
    dialect = store.engine.dialect.name
    if dialect not in _scripts:
        _scripts[dialect] = await _record_migration(store)
        return
    script = _scripts[dialect]
    if dialect == "sqlite":
        # No file is made by who connects to it.
        Path(str(store.engine.url.database)).touch()
    async with store.engine.begin() as connection:
        # Postgres takes all at once.
        for part in ["; ".join(script)] if dialect == "postgresql" else script:
            await connection.exec_driver_sql(part)
        await connection.run_sync(_add_server_row)


async def _record_migration(store: SqlStore) -> list[str]:
    script: list[str] = []

    def record(*arguments: Any) -> None:
        _, _, statement, parameters, _, _ = arguments
        if not parameters and statement.lstrip().startswith(("CREATE", "INSERT")):
            script.append(statement)

    event.listen(store.engine.sync_engine, "before_cursor_execute", record)
    await migrate_database(store.engine)
    event.remove(store.engine.sync_engine, "before_cursor_execute", record)
    return script


@asynccontextmanager
async def open_postgres() -> AsyncIterator[SqlStore]:
    """Open an empty schema and drop it at the end; skip the test where no Postgres answers."""
    schema = f"sfumato_test_{uuid.uuid4().hex}"
    await _create_schema(schema)
    store = SqlStore(create_engine(POSTGRES, schema=schema))
    try:
        yield store
    finally:
        await store.close()
        await _drop_schema(schema)


async def _create_schema(name: str) -> None:
    engine = create_engine(POSTGRES)
    try:
        async with engine.begin() as connection:
            await connection.execute(text(f"CREATE SCHEMA {name}"))
    except SQLAlchemyError as error:
        pytest.skip(f"no Postgres answers at {POSTGRES}: {type(error).__name__}")
    finally:
        await engine.dispose()


async def _drop_schema(name: str) -> None:
    engine = create_engine(POSTGRES)
    async with engine.begin() as connection:
        await connection.execute(text(f"DROP SCHEMA {name} CASCADE"))
    await engine.dispose()
