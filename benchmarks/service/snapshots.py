"""Snapshots over arbitrary slots and labels, by the number of stored sketches."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.rows import Row
from benchmarks.service.bulk import check_sums, load_windows, prepare_study
from benchmarks.service.databases import BenchDatabase, open_database
from benchmarks.service.fleet import MODELS, SITES, Fleet
from benchmarks.service.processes import ServerProcess, running_servers
from benchmarks.service.uploads import row
from sfumato.shared.http_client import open_client

SHAPES = {"1e2": (10, 10), "1e4": (100, 100), "1e6": (1000, 1000)}
"""Numbers of devices and windows of each size."""
_WARM = 5
"""Snapshots on cold caches, which do not count."""


def measure_snapshots(
    kind: str, folder: Path, sizes: Mapping[str, tuple[int, int]], *, runs: int
) -> Iterator[Row]:
    """Measure snapshots at some sizes, all servers up at once, selections in turn."""
    taken: dict[str, float] = {}
    for size, (n_devices, n_windows) in sizes.items():
        place = folder / size
        place.mkdir()
        fleet = Fleet(n_devices)
        case = f"snapshot sketches={size}" + ("" if kind == "sqlite" else f" {kind}")
        with open_database(kind, place) as database:
            started = time.perf_counter()
            key = asyncio.run(_load(database, fleet, n_windows))
            yield row(case, "load_seconds", time.perf_counter() - started, "s", 1, "in bulk")
            wrong = asyncio.run(_check(database, fleet))
            if wrong:
                raise RuntimeError(f"cells are not the sums of their rows: {wrong[:3]}")
            with running_servers(database.url) as servers:
                before = servers[0].cpu_seconds()
                seconds = _take(servers[0], fleet, key, n_windows, runs)
                used = (servers[0].cpu_seconds() - before) / (runs + _WARM)
                memory = servers[0].rss_mb()
            stored = database.size_mb()
        taken[size] = float(np.median(seconds))
        for figure, value, unit, baseline in (
            ("latency_ms", 1e3 * taken[size], "ms", "at most 30; new snapshots, median"),
            ("p99_ms", 1e3 * float(np.percentile(seconds, 99)), "ms", "new snapshots"),
            ("server_cpu_ms", 1e3 * used, "ms", "processor time of one, whatever else runs"),
            ("rss_mb", memory, "MB", "server after it"),
            ("database_mb", stored, "MB", "m=1000, payloads kept"),
        ):
            yield row(case, figure, value, unit, runs, baseline)
        if "1e2" in taken:
            yield row(case, "ratio_to_1e2", taken[size] / taken["1e2"], "1", runs, "at most 3")


async def _load(database: BenchDatabase, fleet: Fleet, n_windows: int) -> str:
    store = database.open_store()
    try:
        key = await prepare_study(store, fleet)
        await load_windows(store, fleet, n_windows)
    finally:
        await store.close()
    return key


async def _check(database: BenchDatabase, fleet: Fleet) -> list[str]:
    store = database.open_store()
    try:
        return await check_sums(store, fleet)
    finally:
        await store.close()


def draw_selections(n_windows: int, runs: int) -> Iterator[dict[str, Any]]:
    """Yield selections: any two ends; no label, one of two, or both."""
    rng = np.random.default_rng(20)
    seen: set[tuple[object, ...]] = set()
    while len(seen) < runs:
        first, last = sorted(int(i) for i in rng.integers(0, n_windows, size=2))
        labels = {}
        if rng.random() < 2 / 3:
            labels["site"] = str(rng.choice(SITES))
        if rng.random() < 1 / 2:
            labels["model"] = str(rng.choice(MODELS))
        chosen = (first, last, *sorted(labels.items()))
        if chosen not in seen:
            seen.add(chosen)
            yield {"first_slot": first, "last_slot": last, "labels": labels}


def _take(server: ServerProcess, fleet: Fleet, key: str, n_windows: int, runs: int) -> list[float]:
    url = f"/v1/studies/{fleet.study_id.hex()}/snapshots"
    headers = {"Authorization": f"Bearer {key}"}
    seconds = []
    with open_client(server.url, headers=headers, timeout=60) as client:
        for number, selection in enumerate(draw_selections(n_windows, runs + _WARM)):
            start = time.perf_counter()
            answer = client.post(url, json=selection)
            if answer.status_code not in (200, 201, 422):
                raise RuntimeError(answer.text)
            if answer.status_code != 422 and number >= _WARM:
                seconds.append(time.perf_counter() - start)
    return seconds
