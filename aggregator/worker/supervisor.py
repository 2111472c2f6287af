"""The worker processes of a server: start, restart, stop."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Mapping, Set
from contextlib import asynccontextmanager

import structlog

from sfumato.aggregator.settings import Settings

_PATIENCE_S = 5.0
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0
_STEADY_S = 10.0
"""After so long a run the back-off starts again."""

log = structlog.get_logger("aggregator.worker")


def worker_environment(settings: Settings) -> dict[str, str]:
    """Return the environment that gives a child process these settings."""
    stated = {
        f"SFUMATO_{name.upper()}": str(value)
        for name, value in settings.model_dump().items()
        if value is not None
    }
    return os.environ | stated


@asynccontextmanager
async def run_workers(
    settings: Settings, count: int
) -> AsyncIterator[Set[asyncio.subprocess.Process]]:
    """Run ``count`` worker processes for the length of a block, which gets the running ones.

    They are stopped by SIGTERM, then by SIGKILL.
    """
    running: set[asyncio.subprocess.Process] = set()
    environment = worker_environment(settings)
    keepers = [asyncio.create_task(_keep(environment, running)) for _ in range(count)]
    try:
        yield running
    finally:
        for keeper in keepers:
            keeper.cancel()
        await asyncio.gather(*keepers, return_exceptions=True)
        await asyncio.gather(*(_end(process) for process in running))


async def _keep(environment: Mapping[str, str], running: set[asyncio.subprocess.Process]) -> None:
    """Start a process, and another when it ends, with back-off."""
    pause = _FIRST_PAUSE_S
    parent = str(os.getpid())
    while True:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "sfumato.aggregator.worker", "--parent", parent),
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
        )
        running.add(process)
        started = time.monotonic()
        status = await process.wait()
        running.discard(process)
        if time.monotonic() - started >= _STEADY_S:
            pause = _FIRST_PAUSE_S
        log.warning("worker ended, starting another", status=status, pause_s=pause)
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_S)


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), _PATIENCE_S)
    except TimeoutError:
        process.kill()
        await process.wait()
