"""How soon a worker that ended is started again."""

import asyncio
import os
import signal
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from sfumato.aggregator.settings import Settings
from sfumato.aggregator.worker import run_workers, supervisor

pytestmark = pytest.mark.anyio


async def kill_twice(settings: Settings) -> list[float]:
    """Kill a worker and the one after it; return the pauses before the next ones."""
    with capture_logs() as logs:
        async with run_workers(settings, 1) as workers:
            for n_killed in range(2):
                while not workers:
                    await asyncio.sleep(0.01)
                os.kill(next(iter(workers)).pid, signal.SIGKILL)
                while len(restarts(logs)) <= n_killed:
                    await asyncio.sleep(0.01)
    return [entry["pause_s"] for entry in restarts(logs)]


def restarts(logs: list[MutableMapping[str, Any]]) -> list[MutableMapping[str, Any]]:
    return [entry for entry in logs if entry["event"].startswith("worker ended")]


async def test_workers_that_end_at_once_are_started_less_and_less_often(tmp_path: Path) -> None:
    settings = Settings(database_url=str(tmp_path / "work.db"))
    first, second = await kill_twice(settings)
    assert second == 2 * first


async def test_a_worker_that_could_work_is_started_again_soon_however_many_ended_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "_STEADY_S", 0.0)
    first, second = await kill_twice(Settings(database_url=str(tmp_path / "work.db")))
    assert second == first
