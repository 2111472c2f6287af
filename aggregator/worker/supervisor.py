"""The worker processes of a server: start, restart, stop."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from types import TracebackType

import structlog

from aggregator.settings import Settings

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


class WorkerProcesses:
    """``count`` worker processes for as long as the block lasts."""

    def __init__(self, settings: Settings, count: int) -> None:
        self._environment = worker_environment(settings)
        self._count = count
        self._keepers: list[asyncio.Task[None]] = []
        self._processes: set[asyncio.subprocess.Process] = set()

    async def __aenter__(self) -> WorkerProcesses:
        """Start them."""
        self._keepers = [asyncio.create_task(self._keep()) for _ in range(self._count)]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop them: by SIGTERM, then by SIGKILL."""
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        await asyncio.gather(*(_end(process) for process in self._processes))
        self._processes.clear()

    @property
    def pids(self) -> list[int]:
        """The ids of the running processes."""
        return [process.pid for process in self._processes]

    async def _keep(self) -> None:
        pause = _FIRST_PAUSE_S
        while True:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "aggregator.worker",
                "--parent",
                str(os.getpid()),
                env=self._environment,
                stdin=asyncio.subprocess.DEVNULL,
            )
            self._processes.add(process)
            started = time.monotonic()
            status = await process.wait()
            self._processes.discard(process)
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
