from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sfumato.aggregator.storage import Store
from tests.aggregator.databases import open_kind


@pytest.fixture(params=["sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    async with open_kind(request.param, tmp_path) as opened:
        yield opened


@pytest.fixture(params=["sqlite", "postgres"])
async def empty_store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """A database without tables."""
    async with open_kind(request.param, tmp_path, is_empty=True) as opened:
        yield opened
