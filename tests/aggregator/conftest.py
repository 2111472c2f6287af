from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sfumato.aggregator.base.store import Store
from tests.aggregator.databases import open_kind
from tests.aggregator.fleet import Desk
from tests.aggregator.serving import Server, SteppedClock, open_server


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture(params=["sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    async with open_kind(request.param, tmp_path) as opened:
        yield opened


@pytest.fixture(params=["sqlite", "postgres"])
async def empty_store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """A database without tables."""
    async with open_kind(request.param, tmp_path, is_empty=True) as opened:
        yield opened


@pytest.fixture(params=["sqlite"])
async def server(
    request: pytest.FixtureRequest, tmp_path: Path, clock: SteppedClock
) -> AsyncIterator[Server]:
    async with open_kind(request.param, tmp_path) as store, open_server(store, clock) as opened:
        yield opened


@pytest.fixture
def desk(server: Server) -> Desk:
    return server.desk
