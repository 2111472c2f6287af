"""One worker process: settings, signals, and the end of its parent."""

from __future__ import annotations

import asyncio
import os
import signal

import structlog

from sfumato.aggregator.base.clock import SystemClock, wait_for_stop
from sfumato.aggregator.base.store import Store, open_store
from sfumato.aggregator.database.schema import require_ready
from sfumato.aggregator.logs import describe_cause
from sfumato.aggregator.services import Services
from sfumato.aggregator.settings import Settings
from sfumato.aggregator.worker.loop import Worker
from sfumato.shared.errors import TransportError, UnpreparedError

_PARENT_CHECK_S = 1.0
_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 5.0

log = structlog.get_logger("aggregator.worker")


async def run_worker(settings: Settings, *, parent: int | None = None) -> None:
    """Work until a signal or the end of the parent process; wait for the database first.

    Raises
    ------
    ConfigError
        The database is of another schema version.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    watching = asyncio.create_task(_watch_parent(parent, stop)) if parent is not None else None
    store = open_store(settings.database_url)
    try:
        await _wait_until_ready(store, stop)
        services = Services(store, SystemClock(), settings)
        log.info("worker started", pid=os.getpid())
        worker = Worker(services.jobs, lease_s=settings.lease_s, poll_s=settings.poll_s)
        # Beside each other: a batch does not wait for a decode, which computes in a thread.
        await asyncio.gather(worker.run(stop), services.opener.run(stop))
    finally:
        if watching is not None:
            watching.cancel()
        await store.close()
    log.info("worker stopped", pid=os.getpid())


async def _wait_until_ready(store: Store, stop: asyncio.Event) -> None:
    pause = _FIRST_PAUSE_S
    while not stop.is_set():
        try:
            return await require_ready(store)
        except (TransportError, UnpreparedError) as error:
            log.warning("waiting for the database", reason=describe_cause(error))
        await wait_for_stop(stop, pause)
        pause = min(2 * pause, _LONGEST_PAUSE_S)


async def _watch_parent(parent: int, stop: asyncio.Event) -> None:
    """Stop when the server was killed, and could not stop its workers."""
    while os.getppid() == parent:
        await asyncio.sleep(_PARENT_CHECK_S)
    stop.set()
