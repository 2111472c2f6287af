from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from aggregator.ports import Store
from aggregator.settings import MEMORY, Settings
from aggregator.storage import SqlStore, open_store, prepare_database
from tests.aggregator.databases import create_tables, open_postgres
from tests.aggregator.fleet import Desk
from tests.aggregator.serving import Server, SteppedClock, open_server


@asynccontextmanager
async def open_kind(kind: str, folder: Path) -> AsyncIterator[Store]:
    """Open a store of a kind, ready for use."""
    if kind == "postgres":
        async with open_postgres() as postgres:
            await create_tables(postgres)
            yield postgres
        return
    url = MEMORY if kind == "memory" else str(folder / "aggregator.db")
    store = open_store(Settings(database_url=url).database_url)
    if isinstance(store, SqlStore):
        await create_tables(store)
    await prepare_database(store)
    yield store
    await store.close()


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture(params=["memory", "sqlite"])
async def server(
    request: pytest.FixtureRequest, tmp_path: Path, clock: SteppedClock
) -> AsyncIterator[Server]:
    async with (
        open_kind(request.param, tmp_path) as store,
        open_server(store, clock) as opened,
    ):
        yield opened


@pytest.fixture
def desk(server: Server) -> Desk:
    return server.desk
