"""The application: settings, store, services, interface and workers wired together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from sfumato.aggregator.api import create_interface
from sfumato.aggregator.base.clock import Clock, SystemClock
from sfumato.aggregator.base.store import Store, open_store
from sfumato.aggregator.services import Services
from sfumato.aggregator.settings import Settings
from sfumato.aggregator.ui import add_dashboard, add_reference
from sfumato.aggregator.worker import run_workers


def create_app(
    settings: Settings | None = None, *, store: Store | None = None, clock: Clock | None = None
) -> FastAPI:
    """Build the server as an ASGI application.

    Its lifespan prepares the database, runs the workers and closes the store. It waits for a
    database that does not answer or has no tables yet, and answers requests with 503 meanwhile.

    Parameters
    ----------
    settings
        From the environment by default.
    store, clock
        Replace those that the settings give.
    """
    settings = settings or Settings()
    store = store or open_store(settings.database_url)
    services = Services(store, clock or SystemClock(), settings)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        stop = asyncio.Event()
        tasks: list[asyncio.Task[None]] = []
        try:
            if not await services.readiness.prepare():
                tasks.append(asyncio.create_task(services.readiness.wait(stop)))
            tasks.append(asyncio.create_task(services.tallies.run(stop)))
            tasks.append(asyncio.create_task(services.merger.run(stop)))
            tasks.append(asyncio.create_task(services.scheduler.run(stop)))
            tasks.append(asyncio.create_task(services.deliverer.run(stop)))
            async with run_workers(settings, settings.n_workers):
                yield
        finally:
            stop.set()
            await asyncio.gather(*tasks)
            await store.close()

    app = create_interface(services, settings, lifespan=lifespan)
    add_dashboard(app)
    add_reference(app)
    return app
