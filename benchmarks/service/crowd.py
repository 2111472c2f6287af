"""Lists and references of a server that holds thousands of studies and of devices."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import insert

from benchmarks.processes import BIN
from benchmarks.runner import Row, make_rows
from benchmarks.service.databases import open_database
from benchmarks.service.fleet import SITES, make_plan
from benchmarks.service.servers import Server, running_servers
from sfumato.aggregator.base.clock import SystemClock
from sfumato.aggregator.base.store import Store
from sfumato.aggregator.resources.devices.store import DEVICES
from sfumato.aggregator.resources.studies.record import StudyRecord
from sfumato.aggregator.resources.studies.store import add_study
from sfumato.aggregator.services import Services
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
    with open_database(kind, folder) as database:
        key, study, device = database.run(partial(_load, n))
        last, digits = f"study {n - 1}", device[:8]
        paths = {
            "studies_page": f"/v1/studies?limit={_PAGE}",
            "studies_view": "/v1/studies?limit=51",
            "studies_search": f"/v1/studies?limit={_PAGE}&beginning={last}",
            "devices_page": f"/v1/devices?limit={_PAGE}",
            "devices_of_study_page": f"/v1/studies/{study}/devices?limit={_PAGE}",
            "study_by_name": f"/v1/references?kind=study&reference={last}",
            "device_by_digits": f"/v1/references?kind=device&reference={digits}",
        }
        commands = (
            *(("study", "list"), ("study", "list", last), ("study", "show", last)),
            *(("device", "list"), ("device", "show", digits)),
        )
        with running_servers(database.url) as (server,):
            figures = [
                (f"{name}_cpu_ms", 1e3 * _read(server, key, path), "ms", "server, at most 200")
                for name, path in paths.items()
            ]
            for words in commands:
                name = "_".join(word.split()[0] for word in words)
                seconds = _run(server, key, words)
                figures.append((f"command_{name}_seconds", seconds, "s", "with its start"))
    yield from make_rows("service", f"crowd studies={n} devices={n} {kind}", figures, runs=_RUNS)


async def _load(n: int, store: Store) -> tuple[str, str, str]:
    """Store the studies and devices; return an operator's key, a study and a device."""
    plan, rng = make_plan(20), np.random.default_rng(0)
    encoded, digest = encode_plan(plan), compute_plan_digest(plan)
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
            await add_study(transaction, study)
    devices: list[dict[str, Any]] = [
        {
            "device_id": rng.bytes(32),
            "study_id": studies[0 if i % _IN_ONE else i].study_id,
            "ordinal": i,
            "public_key": rng.bytes(32),
            "labels": {"site": SITES[i % len(SITES)]},
            "enrolled": _CREATED + i,
            "n_sketches": 0,
            "begins": 0,
        }
        for i in range(n)
    ]
    async with store.engine.begin() as connection:
        await connection.execute(insert(DEVICES), devices)
    return key, studies[0].study_id.hex(), devices[-1]["device_id"].hex()


def _read(server: Server, key: str, path: str) -> float:
    """Return the processor time that the server takes for one of many requests, in seconds."""
    headers = {"Authorization": f"Bearer {key}"}
    with open_client(server.url, headers=headers, timeout=60) as client:
        client.get(path).raise_for_status()
        before = server.cpu_seconds()
        for _ in range(_RUNS):
            client.get(path).raise_for_status()
        return (server.cpu_seconds() - before) / _RUNS


def _run(server: Server, key: str, arguments: Sequence[str]) -> float:
    """Return how long a command takes, in seconds."""
    start = time.perf_counter()
    access = ["--url", server.url, "--key", key]
    subprocess.run([BIN / "sfumato", *arguments, *access], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start
