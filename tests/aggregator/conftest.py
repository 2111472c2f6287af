from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from aggregator.app import create_app
from aggregator.ports import Store
from aggregator.settings import MEMORY, Settings
from aggregator.storage import migrate_database, open_store, prepare_database
from tests.aggregator.databases import open_postgres
from tests.aggregator.fleet import Desk
from tests.aggregator.serving import Server, SteppedClock


@asynccontextmanager
async def open_kind(kind: str, folder: Path) -> AsyncIterator[Store]:
    """Open a store of a kind, ready for use."""
    if kind == "postgres":
        async with open_postgres() as postgres:
            await migrate_database(postgres.engine)
            yield postgres
        return
    url = MEMORY if kind == "memory" else str(folder / "aggregator.db")
    store = open_store(Settings(database_url=url).database_url)
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
    settings = Settings(n_workers=0, max_body_bytes=64 * 1024)
    async with open_kind(request.param, tmp_path) as store:
        app = create_app(settings, store=store, clock=clock)
        keys = app.state.services.keys
        operator, _ = await keys.create(name="op", scope="operator")
        analyst, _ = await keys.create(name="ana", scope="analyst")
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://aggregator") as http:
            yield Server(app, store, settings, clock, Desk(http, operator, analyst))


@pytest.fixture
def desk(server: Server) -> Desk:
    return server.desk
