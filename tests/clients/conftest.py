"""One server for all tests of devices in TypeScript and C; pages of any origin may use it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from unittest import mock

import pytest

from deploy.demo.cluster import Aggregator
from sfumato.analyst import Client
from tests.system.servers import start_server


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aggregator]:
    with mock.patch.dict(os.environ, {"SFUMATO_WEB_ORIGINS": "*"}):
        running = start_server(tmp_path_factory.mktemp("server"))
    yield running
    running.stop()


@pytest.fixture
def client(server: Aggregator) -> Iterator[Client]:
    with Client(server.url, key=server.key) as connected:
        yield connected
