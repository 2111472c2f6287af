from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.aggregator.databases import open_kind
from tests.aggregator.fleet import Desk
from tests.aggregator.serving import Server, SteppedClock, open_server


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture(params=["sqlite"])
async def server(
    request: pytest.FixtureRequest, tmp_path: Path, clock: SteppedClock
) -> AsyncIterator[Server]:
    async with open_kind(request.param, tmp_path) as store, open_server(store, clock) as opened:
        yield opened


@pytest.fixture
def desk(server: Server) -> Desk:
    return server.desk
