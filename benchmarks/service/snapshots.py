"""Snapshots over arbitrary slots and labels, by the number of stored sketches."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.runner import Row, make_rows
from benchmarks.service.bulk import compare_sums, load_windows, prepare_study
from benchmarks.service.databases import open_database
from benchmarks.service.fleet import MODELS, SITES, Fleet
from benchmarks.service.servers import Server, running_servers
from sfumato.shared.http_client import open_client

SHAPES = {"1e2": (10, 10), "1e4": (100, 100), "1e6": (1000, 1000)}
"""Numbers of devices and windows of each size."""
_WARM = 5
"""Snapshots on cold caches, which do not count."""


def measure_snapshots(
    kind: str, folder: Path, sizes: Mapping[str, tuple[int, int]], *, runs: int
) -> Iterator[Row]:
    """Measure snapshots at some sizes; a ratio is to the smallest."""
    smallest = 0.0
    for size, (n_devices, n_windows) in sizes.items():
        place, fleet = folder / size, Fleet(n_devices)
        place.mkdir()
        with open_database(kind, place) as database:
            started = time.perf_counter()
            key = database.run(partial(prepare_study, fleet=fleet))
            database.run(partial(load_windows, fleet=fleet, n_windows=n_windows))
            loading = time.perf_counter() - started
            wrong = database.run(partial(compare_sums, fleet=fleet))
            if wrong:
                raise RuntimeError(f"cells are not the sums of their rows: {wrong[:3]}")
            with running_servers(database.url) as (server,):
                before = server.cpu_seconds()
                seconds = _take(server, fleet, key, n_windows, runs)
                used = (server.cpu_seconds() - before) / (runs + _WARM)
                memory = server.rss_mb()
            stored = database.size_mb()
        taken = float(np.median(seconds))
        smallest = smallest or taken
        figures = (
            ("load_seconds", loading, "s", "in bulk"),
            ("latency_ms", 1e3 * taken, "ms", "at most 30; new snapshots, median"),
            ("p99_ms", 1e3 * np.percentile(seconds, 99), "ms", "new snapshots"),
            ("server_cpu_ms", 1e3 * used, "ms", "processor time of one, whatever else runs"),
            ("rss_mb", memory, "MB", "server after it"),
            ("database_mb", stored, "MB", "m=1000, payloads kept"),
            ("ratio_to_smallest", taken / smallest, "1", "at most 3"),
        )
        yield from make_rows("service", f"snapshot sketches={size} {kind}", figures, runs=runs)


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


def _take(server: Server, fleet: Fleet, key: str, n_windows: int, runs: int) -> list[float]:
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
