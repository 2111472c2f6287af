"""Workers as real processes on one SQLite file: enrol, upload, add up, recover."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from sqlalchemy import text

from sfumato.aggregator.app import create_app
from sfumato.aggregator.base.clock import SystemClock
from sfumato.aggregator.base.files import path_of
from sfumato.aggregator.base.store import open_store
from sfumato.aggregator.database.schema import prepare_database
from sfumato.aggregator.settings import Settings
from sfumato.aggregator.worker.supervisor import worker_environment
from tests.aggregator.databases import open_sqlite
from tests.aggregator.fleet import CLUSTERS, Desk, Device, make_plan
from tests.forking import Forked

pytestmark = pytest.mark.anyio


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(database_url=str(tmp_path / "work.db"), n_workers=0, lease_s=1.0, poll_s=0.05)


@pytest.fixture
async def desk(settings: Settings) -> AsyncIterator[Desk]:
    async with open_sqlite(path_of(settings.database_url)) as store:
        app = create_app(settings, store=store, clock=SystemClock())
        key, _ = await app.state.services.keys.create(name="op", scope="operator")
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://aggregator") as http:
            yield Desk(http, key, key)


def start_worker(settings: Settings, stderr: int | None = subprocess.PIPE) -> Forked[bytes]:
    command = [sys.executable, "-m", "sfumato.aggregator.worker"]
    return Forked(command, env=worker_environment(settings), stderr=stderr)


@contextmanager
def run_process(settings: Settings) -> Iterator[subprocess.Popen[bytes]]:
    """Run a worker process for the length of a block."""
    with start_worker(settings, stderr=None) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()


async def wait_for(
    desk: Desk, url: str, *states: str, worker: subprocess.Popen[bytes]
) -> dict[str, Any]:
    """Read a job until it is in one of the states, while its worker is there."""
    while True:
        decode: dict[str, Any] = await desk.read(url)
        if decode["state"] in states:
            return decode
        assert decode["state"] in ("queued", "running"), decode
        assert worker.poll() is None, f"the worker has ended with {worker.returncode}"
        await asyncio.sleep(0.02)


async def upload(desk: Desk) -> tuple[bytes, np.ndarray[Any, np.dtype[np.int64]]]:
    """Enrol two devices, upload two windows of each; return the study and the exact sum."""
    plan = make_plan()
    study = await desk.publish(plan)
    devices = [Device(1), Device(2, {"site": "south"})]
    await desk.enrol(study, *devices)
    total = np.zeros(2 * plan.n_frequencies, dtype=np.int64)
    for device in devices:
        for i in range(2):
            sums = device.release(plan, noise_seed=10 * device.seed + i)
            await desk.send(study, device, plan, sums, sequence=i)
            total += sums
    return study, total


async def ask(desk: Desk, study: bytes, n_replicates: int | None = None) -> str:
    """Ask for a decode: the default one, or so many runs of the reference, which take long."""
    body: dict[str, Any] = {"n_clusters": 3}
    if n_replicates is not None:
        body |= {"decoder": "cl-ompr", "settings": {"n_replicates": n_replicates}}
    answer = await desk.post(f"/v1/studies/{study.hex()}/decodes", body)
    assert answer.status_code == 202, answer.text
    return answer.headers["location"]


async def test_from_records_on_devices_to_centroids(desk: Desk, settings: Settings) -> None:
    study, total = await upload(desk)
    where = await ask(desk, study)
    with run_process(settings) as process:
        decode = await wait_for(desk, where, "succeeded", worker=process)
    assert process.returncode == 0
    snapshot = await desk.read(f"/v1/snapshots/{decode['snapshot_id']}")
    assert snapshot["sums"] == total.tolist()
    assert (snapshot["n_sketches"], snapshot["n_records"]) == (4, 2000)
    result = decode["result"]
    assert decode["progress"] == 1.0
    assert result["dimensions"] == [
        {"name": "pressure", "unit": "bar"},
        {"name": "flow", "unit": "l/s"},
    ]
    centroids = np.array(result["centroids"])
    distance = np.linalg.norm(centroids[:, None] - CLUSTERS[None], axis=2).min(axis=0)
    assert distance.max() < 0.7, centroids
    assert sum(result["weights"]) == pytest.approx(1.0)
    assert (result["decoder"], result["decoder_version"]) == ("mixture", 2)
    assert np.array(result["spreads"]).shape == (3, 2)
    assert sum(result["mixture"]["weights"]) == pytest.approx(1.0)
    assert 0.0 < result["agreement"] <= 1.0
    assert "relative SSE" in result["band"]["statement"]
    assert result["snr"] == snapshot["snr"]
    assert result["quality"]["features_per_parameter"] == pytest.approx(10.0)
    assert result["privacy"]["epsilon"] == "10"
    assert decode["problem"] is None
    again = await desk.post(f"/v1/studies/{study.hex()}/decodes", {"n_clusters": 3})
    assert (again.status_code, again.json()) == (200, decode)


async def ask_for_timeline(desk: Desk, study: bytes) -> str:
    """Ask for a timeline of two windows."""
    body = {"kind": "timeline", "n_clusters": 3}
    answer = await desk.post(f"/v1/studies/{study.hex()}/analyses", body)
    assert answer.status_code == 202, answer.text
    return answer.headers["location"]


@pytest.mark.parametrize("kind", ["decode", "analysis"])
async def test_the_job_of_a_killed_worker_is_finished_by_another(
    desk: Desk, settings: Settings, kind: str
) -> None:
    study, _ = await upload(desk)
    where = await (ask(desk, study, 60) if kind == "decode" else ask_for_timeline(desk, study))
    with run_process(settings) as victim:
        await wait_for(desk, where, "running", worker=victim)
        os.kill(victim.pid, signal.SIGKILL)
    assert victim.returncode == -signal.SIGKILL
    assert (await desk.read(where))["state"] == "running"
    with run_process(settings) as other:
        job = await wait_for(desk, where, "succeeded", worker=other)
    assert job["started"] > job["created"]
    if kind == "decode":
        assert job["result"]["n_replicates"] == 60
    else:
        assert [window["n_sketches"] for window in job["result"]["windows"]] == [2, 2]


async def test_a_worker_that_is_stopped_gives_its_job_back(desk: Desk, settings: Settings) -> None:
    study, _ = await upload(desk)
    where = await ask(desk, study, 1000)
    with run_process(settings) as process:
        await wait_for(desk, where, "running", worker=process)
        process.terminate()
    assert process.returncode == 0
    assert (await desk.read(where))["state"] == "queued"


async def test_a_running_decode_is_cancelled_and_its_worker_takes_the_next(
    desk: Desk, settings: Settings
) -> None:
    study, _ = await upload(desk)
    endless = await ask(desk, study, 1000)
    with run_process(settings) as process:
        await wait_for(desk, endless, "running", worker=process)
        short = await ask(desk, study, 1)
        cancelled = await desk.http.delete(endless, headers=desk.analyst)
        assert cancelled.json()["state"] == "cancelled"
        await wait_for(desk, short, "succeeded", worker=process)
    decode = await desk.read(endless)
    assert (decode["state"], decode["result"]) == ("cancelled", None)


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("away", b"unable to open database file"),
        ("without tables", b"sfumato migrate"),
        ("without a file", b"FileNotFoundError"),
    ],
)
async def test_a_worker_waits_for_a_database_that_cannot_be_used_yet(
    settings: Settings, state: str, reason: bytes
) -> None:
    database = Path(settings.database_url.partition(":///")[2])
    if state == "away":
        database.mkdir()
    elif state == "without tables":
        database.touch()
    process = start_worker(settings)
    assert process.stderr is not None
    line = await asyncio.to_thread(process.stderr.readline)
    assert b"waiting for the database" in line
    assert reason in line
    if state == "away":
        database.rmdir()
    assert database.exists() == (state == "without tables"), "a worker makes no database"
    store = open_store(settings.database_url)
    await prepare_database(store)
    await store.close()
    while b"worker started" not in (line := await asyncio.to_thread(process.stderr.readline)):
        assert b"waiting for the database" in line
    process.terminate()
    process.communicate()
    assert process.returncode == 0


async def test_a_worker_ends_at_a_database_of_another_version(settings: Settings) -> None:
    async with (
        open_sqlite(path_of(settings.database_url)) as store,
        store.engine.begin() as connection,
    ):
        await connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    process = start_worker(settings)
    _, said = await asyncio.to_thread(process.communicate)
    assert process.returncode == 1
    assert b"9999" in said
    assert b"sfumato migrate" in said
