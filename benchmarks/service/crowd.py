"""Lists and references of a server that holds thousands of studies and of devices."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sqlalchemy import insert

from benchmarks.rows import Row
from benchmarks.service.databases import BenchDatabase, open_database
from benchmarks.service.fleet import SITES, make_plan
from benchmarks.service.processes import ServerProcess, running_servers
from benchmarks.service.uploads import row
from sfumato.aggregator.records import StudyRecord, SystemClock
from sfumato.aggregator.services import Services
from sfumato.aggregator.storage.models import Device
from sfumato.shared.http_client import open_client
from sfumato.shared.plan import compute_plan_digest, encode_plan
from sfumato.shared.wire import compute_study_id

_CREATED = 1_772_366_400.0
_RUNS = 20
_PAGE = 1000
_IN_ONE = 2
"""Every second device is of the first study, and the others of one study each."""


def measure_crowd(kind: str, folder: Path, *, n: int) -> Iterator[Row]:
    """Measure lists, references and commands at ``n`` studies and ``n`` devices."""
    case = f"crowd studies={n} devices={n}" + ("" if kind == "sqlite" else f" {kind}")
    with open_database(kind, folder) as database:
        key, study, device = asyncio.run(_load(database, n))
        with running_servers(database.url) as servers:
            server = servers[0]
            for name, path in (
                ("studies_page", f"/v1/studies?limit={_PAGE}"),
                ("studies_view", "/v1/studies?limit=51"),
                ("studies_search", f"/v1/studies?limit={_PAGE}&beginning=study {n - 1}"),
                ("devices_page", f"/v1/devices?limit={_PAGE}"),
                ("devices_of_study_page", f"/v1/studies/{study}/devices?limit={_PAGE}"),
                ("study_by_name", f"/v1/references?kind=study&reference=study {n - 1}"),
                ("device_by_digits", f"/v1/references?kind=device&reference={device[:8]}"),
            ):
                used = 1e3 * _read(server, key, path)
                yield row(case, f"{name}_cpu_ms", used, "ms", _RUNS, "server, at most 200")
            for name, arguments in (
                ("study_list", ["study", "list"]),
                ("study_list_search", ["study", "list", f"study {n - 1}"]),
                ("study_show", ["study", "show", f"study {n - 1}"]),
                ("device_list", ["device", "list"]),
                ("device_show", ["device", "show", device[:8]]),
            ):
                seconds = _run(server, key, arguments)
                yield row(case, f"command_{name}_seconds", seconds, "s", 1, "with its start")


async def _load(database: BenchDatabase, n: int) -> tuple[str, str, str]:
    """Store the studies and devices; return an operator's key, a study and a device."""
    plan, rng = make_plan(20), np.random.default_rng(0)
    encoded, digest = encode_plan(plan), compute_plan_digest(plan)
    store = database.open_store()
    try:
        key, _ = await Services(store, SystemClock()).keys.create(name="b", scope="operator")
        studies = [
            StudyRecord(
                study_id=compute_study_id(f"study {i}", plan),
                name=f"study {i}",
                plan=encoded,
                plan_digest=digest,
                created=_CREATED + i,
            )
            for i in range(n)
        ]
        async with store.begin(write=True) as transaction:
            for study in studies:
                await transaction.add_study(study)
        identities = [rng.bytes(32) for _ in range(n)]
        devices = [
            {
                "device_id": identities[i],
                "study_id": studies[0 if i % _IN_ONE else i].study_id,
                "ordinal": i,
                "public_key": rng.bytes(32),
                "labels": {"site": SITES[i % len(SITES)]},
                "enrolled": _CREATED + i,
                "n_sketches": 0,
            }
            for i in range(n)
        ]
        async with store.engine.begin() as connection:
            await connection.execute(insert(Device), devices)
    finally:
        await store.close()
    return key, studies[0].study_id.hex(), identities[-1].hex()


def _read(server: ServerProcess, key: str, path: str) -> float:
    """Return the processor time that the server takes for one of many requests, in seconds."""
    headers = {"Authorization": f"Bearer {key}"}
    with open_client(server.url, headers=headers, timeout=60) as client:
        client.get(path).raise_for_status()
        before = server.cpu_seconds()
        for _ in range(_RUNS):
            client.get(path).raise_for_status()
        return (server.cpu_seconds() - before) / _RUNS


def _run(server: ServerProcess, key: str, arguments: list[str]) -> float:
    """Return how long a command takes, in seconds."""
    command = [str(Path(sys.executable).parent / "sfumato"), *arguments]
    start = time.perf_counter()
    subprocess.run(
        [*command, "--url", server.url, "--key", key], check=True, stdout=subprocess.DEVNULL
    )
    return time.perf_counter() - start
