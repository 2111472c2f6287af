"""Cost of the device agent: memory, time to start, processor time, bytes of a window.

Run as ``python -m benchmarks.agent [--quick] [--json]``. Everything is measured on the daemon in
its own process, which speaks TLS with a real aggregator on this machine. One unmeasured run up to
an upload comes first, so that the modules are compiled as the installer leaves them: a process that
compiles them itself starts slower and keeps 1.5 MB more. Published figures of other agents have
their own rows, with no runs.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.agent_devices import (
    NAME,
    Aggregator,
    enrol,
    make_lines,
    row,
    running_aggregator,
    running_daemon,
)
from benchmarks.agent_installed import measure_packages
from benchmarks.agent_outbox import measure_recovery
from benchmarks.agent_sources import measure_mqtt_memory, measure_sources
from benchmarks.rows import Row, run_benchmark

_TICK_S = 0.05
# From their documentation; the Collector's are the limits of its own tests of an idle one.
_PUBLISHED = (
    ("Telegraf, as published", "mb", 245.0, "MB"),
    ("Telegraf, as published", "rss_mb", 70.0, "MB"),
    ("OpenTelemetry Collector, as published", "rss_mb", 83.0, "MB"),
    ("OpenTelemetry Collector, as published", "cpu_fraction", 0.2, "of a core, idle"),
)


def measure(quick: bool) -> Iterator[Row]:
    """Yield the rows of this benchmark."""
    yield from list_published()
    yield from measure_installed()
    with tempfile.TemporaryDirectory() as name, running_aggregator(Path(name)) as aggregator:
        folder = Path(name)
        yield from measure_size(folder, aggregator, runs=2 if quick else 9)
        yield from measure_mqtt_memory(folder, aggregator)
        for rate in (1, 1000, 100_000):
            yield from measure_tail(folder, aggregator, rate=rate, seconds=2 if quick else 20)
        yield from measure_sources(folder, aggregator, n_records=20_000 if quick else 500_000)
    yield from measure_recovery(n_sketches=50 if quick else 10_000, outage_s=1 if quick else 10)


def list_published() -> Iterator[Row]:
    """List the published figures of other agents; nothing is measured here."""
    for case, figure, value, unit in _PUBLISHED:
        yield row(case, figure, value, unit, 0, "not measured here")


def measure_installed() -> Iterator[Row]:
    """Measure the agent's size on disk: each package and their sum, without Python itself."""
    packages = list(measure_packages())
    for name, n_bytes in packages:
        yield row(f"installed {name}", "mb", n_bytes / 1e6, "MB", 1, "none")
    total = sum(n_bytes for _, n_bytes in packages)
    yield row("installed", "mb", total / 1e6, "MB", 1, "Telegraf 245")


def measure_size(folder: Path, aggregator: Aggregator, runs: int) -> Iterator[Row]:
    """Measure a small device: its memory, its start, and its uploads."""
    device = enrol(folder / "small", aggregator, d=2, m=500, length=1000)
    seconds, idle, used = [], [], []
    # The first run compiles, and does not count.
    for run in range(runs + 1):
        with running_daemon(device) as daemon:
            seconds.append(daemon.seconds)
            time.sleep(1.0)
            idle.append(daemon.rss_mb())
            device.append(make_lines(1000, 2))
            daemon.wait_until_sent(1000 * (run + 1))
            used.append(daemon.rss_mb())
    seconds, idle, used = seconds[1:], idle[1:], used[1:]
    yield row("idle", "rss_mb", max(idle), "MB", runs, "Telegraf 70, Collector 83")
    yield row("after-first-upload", "rss_mb", max(used), "MB", runs, "at most 55")
    yield row("start", "seconds", float(np.median(seconds)), "s", runs, "at most 0.4")
    n_bytes = device.query("SELECT MAX(n_bytes) FROM outbox")
    yield row("window m=500", "bytes", n_bytes, "B", runs, "less than 5000")


def measure_tail(folder: Path, aggregator: Aggregator, *, rate: int, seconds: int) -> Iterator[Row]:
    """Measure the daemon on a file that grows by ``rate`` records a second.

    As many records are there at the start, so that one-time work is done first. The delay is the
    time from the last record to the acknowledged window, including release and upload.
    """
    name = "tail-csv d=10 m=1000"
    case, n_records = (name if rate == 100_000 else f"{name} at {rate}/s"), rate * seconds
    tick_s = max(_TICK_S, 1 / rate)
    n_parts = round(seconds / tick_s)
    device = enrol(folder / f"tail-{rate}", aggregator, d=10, m=1000, length=n_records)
    lines = make_lines(n_records // n_parts, 10)
    with device.records.open("a") as file:
        file.writelines(lines for _ in range(n_parts))
    with running_daemon(device) as daemon:
        before = time.perf_counter()
        daemon.wait_until_sent(n_records)
        took = time.perf_counter() - before
        if rate == 100_000:
            yield row(case, "records_per_second", n_records / took, "1/s", 1, "at least 1e5")
        cpu, start = daemon.cpu_seconds(), time.perf_counter()
        for i in range(n_parts):
            device.append(lines)
            time.sleep(max(0.0, start + (i + 1) * tick_s - time.perf_counter()))
        written = time.perf_counter()
        daemon.wait_until_sent(2 * n_records)
        ended = time.perf_counter()
        share = (daemon.cpu_seconds() - cpu) / (ended - start)
        unit = f"of a core at {n_records / (written - start):.4g} records/s"
        yield row(case, "cpu_fraction", share, unit, 1, "less than 0.6; Collector idle 0.2")
        yield row(case, "behind_seconds", ended - written, "s", 1, "0")
        yield row(case, "rss_mb", daemon.rss_mb(), "MB", 1, "Telegraf 70, Collector 83 when idle")


if __name__ == "__main__":
    run_benchmark(NAME, "Measure the device agent.", measure)
