import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import structlog

from sfumato.aggregator.base.store import Store
from tests.aggregator import scans
from tests.aggregator.databases import open_kind
from tests.aggregator.fleet import Desk
from tests.aggregator.plans import Planner, open_planner
from tests.aggregator.serving import Server, SteppedClock, open_server


@pytest.fixture(autouse=True)
def no_scans(request: pytest.FixtureRequest) -> Iterator[None]:
    """Refuse statements that read a large table: a check of the database alone may."""
    if not {"api", "resources"} & set(request.path.parts):
        yield
        return
    with scans.watch(request.getfixturevalue("planner")):
        yield


@pytest.fixture(scope="session")
def planner() -> Iterator[Planner | None]:
    with open_planner(scans.LARGE) as opened:
        yield opened


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


@pytest.fixture
def logging_of_the_test_run() -> Iterator[None]:
    """Commands configure the logs of their process; here that is the test run's."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)
