from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from aggregator.ports import Store
from aggregator.settings import normalise_database_url
from aggregator.storage import MemoryStore, SqlStore
from aggregator.storage.sql.engine import create_engine
from tests.aggregator.databases import create_tables, open_postgres


@pytest.fixture(params=["sqlite", "postgres"])
async def empty_sql_store(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[SqlStore]:
    """A database without tables; on Postgres in a schema of its own."""
    if request.param == "postgres":
        async with open_postgres() as store:
            yield store
        return
    path = tmp_path / "store.db"
    path.touch()
    store = SqlStore(create_engine(normalise_database_url(str(path))))
    yield store
    await store.close()


@pytest.fixture
async def sql_store(empty_sql_store: SqlStore) -> SqlStore:
    await create_tables(empty_sql_store)
    return empty_sql_store


@pytest.fixture
def memory_store() -> Store:
    return MemoryStore()
