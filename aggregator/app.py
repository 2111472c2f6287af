"""The wiring: settings become a store, services, the interface and worker processes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from fastapi import FastAPI

from aggregator.api import create_interface
from aggregator.ports import Clock, Store, SystemClock
from aggregator.services import Services, create_services
from aggregator.settings import Settings
from aggregator.storage import MemoryStore, open_store, prepare_database
from aggregator.worker import Worker, WorkerProcesses

_SECONDS_A_DAY = 86_400.0


def create_app(
    settings: Settings | None = None, *, store: Store | None = None, clock: Clock | None = None
) -> FastAPI:
    """Build the server as an ASGI application.

    Its lifespan prepares the database, runs the workers and closes the store.

    Parameters
    ----------
    settings
        Those of the environment when not given.
    store, clock
        In the place of those that the settings give.
    """
    settings = settings or Settings()
    store = store or open_store(settings.database_url)
    services = create_services(
        store,
        clock or SystemClock(),
        token_seconds=settings.token_days * _SECONDS_A_DAY,
        max_body_bytes=settings.max_body_bytes,
    )

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        try:
            await prepare_database(store)
            async with _workers(settings, store, services):
                yield
        finally:
            await store.close()

    return create_interface(services, max_body_bytes=settings.max_body_bytes, lifespan=lifespan)


def _workers(
    settings: Settings, store: Store, services: Services
) -> AbstractAsyncContextManager[object]:
    if isinstance(store, MemoryStore):
        # No other process can see this store.
        return _worker_inside(settings, services)
    return WorkerProcesses(settings, settings.n_workers)


@asynccontextmanager
async def _worker_inside(settings: Settings, services: Services) -> AsyncIterator[None]:
    stop = asyncio.Event()
    worker = Worker(services.jobs, lease_s=settings.lease_s, poll_s=settings.poll_s)
    tasks = [asyncio.create_task(worker.run(stop)) for _ in range(min(1, settings.n_workers))]
    try:
        yield
    finally:
        stop.set()
        await asyncio.gather(*tasks)
