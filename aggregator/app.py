"""The wiring: settings become a store, services, the interface and worker processes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog
from fastapi import FastAPI

from aggregator.api import create_interface
from aggregator.logs import describe_cause
from aggregator.records import Clock, SystemClock
from aggregator.services import Services
from aggregator.settings import Settings
from aggregator.storage import Store, open_store, prepare_database
from aggregator.ui import add_dashboard, add_reference
from aggregator.worker import WorkerProcesses
from shared.errors import ConfigError, TransportError, UnpreparedError

_LONGEST_PAUSE_S = 5.0

log = structlog.get_logger("aggregator.app")


def create_app(
    settings: Settings | None = None, *, store: Store | None = None, clock: Clock | None = None
) -> FastAPI:
    """Build the server as an ASGI application.

    Its lifespan prepares the database, runs the workers and closes the store. A database that is
    away, or has no tables yet, is waited for: requests are answered with 503 until it can be used.

    Parameters
    ----------
    settings
        Those of the environment when not given.
    store, clock
        In the place of those that the settings give.
    """
    settings = settings or Settings()
    store = store or open_store(settings.database_url)
    services = Services(store, clock or SystemClock(), settings)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        stop = asyncio.Event()
        tasks: list[asyncio.Task[None]] = []
        try:
            if not await _is_prepared(store, services):
                tasks.append(asyncio.create_task(_wait_for_database(store, services, stop)))
            tasks.append(asyncio.create_task(services.tallies.run(stop)))
            tasks.append(asyncio.create_task(services.merger.run(stop)))
            async with WorkerProcesses(settings, settings.n_workers):
                yield
        finally:
            stop.set()
            await asyncio.gather(*tasks)
            await store.close()

    app = create_interface(services, settings, lifespan=lifespan)
    add_dashboard(app)
    add_reference(app)
    return app


async def _is_prepared(store: Store, services: Services) -> bool:
    """Prepare the database; false, and no request gets through, if that has to wait.

    Raises
    ------
    ConfigError
        Its schema is of another version.
    """
    try:
        await prepare_database(store)
    except (TransportError, UnpreparedError) as error:
        log.warning("waiting for the database", reason=describe_cause(error))
        services.readiness.close(error)
        return False
    services.readiness.open()
    return True


async def _wait_for_database(store: Store, services: Services, stop: asyncio.Event) -> None:
    pause = 0.2
    while not stop.is_set():
        try:
            await asyncio.wait_for(stop.wait(), pause)
        except TimeoutError:
            pause = min(2 * pause, _LONGEST_PAUSE_S)
        try:
            if await _is_prepared(store, services):
                log.info("the database answers")
                return
        except ConfigError as error:
            log.error("the database cannot be used", reason=str(error))
            services.readiness.close(error)
