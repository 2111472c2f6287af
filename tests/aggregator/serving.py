"""A server inside the test's process, and the clock that it goes by."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI

from sfumato.aggregator.app import create_app
from sfumato.aggregator.base.store import Store
from sfumato.aggregator.services import Services
from sfumato.aggregator.settings import Settings
from tests.aggregator.databases import open_sqlite
from tests.aggregator.fleet import Desk

DEFAULTS: dict[str, Any] = {
    "n_workers": 0,
    "max_body_bytes": 64 * 1024,
    "webhook_hosts": "127.0.0.1",
}


class SteppedClock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.seconds = 1_772_366_400.0

    def now(self) -> float:
        """Return the time."""
        return self.seconds


@dataclass
class Server:
    """The application with its parts."""

    app: FastAPI
    store: Store
    settings: Settings
    clock: SteppedClock
    desk: Desk

    @property
    def services(self) -> Services:
        """Return the services behind the interface."""
        services: Services = self.app.state.services
        return services


@asynccontextmanager
async def open_server(
    store: Store | None = None, clock: SteppedClock | None = None, **changes: Any
) -> AsyncIterator[Server]:
    """Open a server with an operator and an analyst; ``changes`` replace its settings.

    Without a store it has one of its own.
    """
    if store is None:
        with tempfile.TemporaryDirectory(prefix="sfumato-server-") as folder:
            async with (
                open_sqlite(Path(folder) / "aggregator.db") as own,
                open_server(own, clock, **changes) as server,
            ):
                yield server
        return
    settings = Settings(**(DEFAULTS | changes))
    clock = clock or SteppedClock()
    app = create_app(settings, store=store, clock=clock)
    keys = app.state.services.keys
    operator, _ = await keys.create(name="op", scope="operator")
    analyst, _ = await keys.create(name="ana", scope="analyst")
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://aggregator") as http:
        yield Server(app, store, settings, clock, Desk(http, operator, analyst))
