"""A Postgres for tests, where one answers: each test has a schema of its own."""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from aggregator.settings import normalise_database_url
from aggregator.storage import SqlStore
from aggregator.storage.sql.engine import create_engine

POSTGRES = normalise_database_url(
    os.environ.get("SFUMATO_TEST_POSTGRES", "postgresql://127.0.0.1:5432/test")
)


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
