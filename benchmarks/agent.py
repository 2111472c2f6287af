"""Cost of the device agent: memory, time to start, processor time, bytes of a window.

Run as ``python -m benchmarks.agent [--quick] [--json]``. Everything is measured on the daemon in
its own process, which speaks TLS with a real aggregator on this machine. One unmeasured run up to
an upload comes first, so that the modules are compiled as the installer leaves them: a process that
compiles them itself starts slower and keeps 1.5 MB more. ``recovery`` is the time that a full
outbox takes to reach a server that is back after an outage.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from functools import partial
from importlib.metadata import Distribution, distribution
from pathlib import Path

import numpy as np
from packaging.requirements import Requirement

from benchmarks.agent_devices import (
    Aggregator,
    enrol,
    make_lines,
    running_aggregator,
    running_daemon,
)
from benchmarks.agent_sources import measure_mqtt_memory, measure_sources
from benchmarks.processes import ROOT
from benchmarks.runner import Bench, Row, make_rows, run
from sfumato.analyst import Client

NAME = "agent"
_rows = partial(make_rows, NAME)
_TICK_S = 0.05
_OTHERS = "Telegraf 70, Collector 83"
_SHIPPED = ("shared", "device_agent", "aggregator", "analyst")
_RATE = 100_000
_RECORDS = 10


def measure(bench: Bench) -> Iterator[Row]:
    """Yield the rows of this benchmark."""
    if bench.includes("installed"):
        yield from measure_installed()
    with tempfile.TemporaryDirectory() as name, running_aggregator(Path(name)) as aggregator:
        folder = Path(name)
        if bench.includes("size"):
            yield from measure_size(folder, aggregator, runs=2 if bench.quick else 9)
            yield from measure_mqtt_memory(folder, aggregator)
        for rate in (1, 1000, _RATE):
            if bench.includes(f"tail {rate}"):
                seconds = 2 if bench.quick else 20
                yield from measure_tail(folder, aggregator, rate=rate, seconds=seconds)
        if bench.includes("sources"):
            n_records = 20_000 if bench.quick else 500_000
            yield from measure_sources(folder, aggregator, n_records)
    if bench.includes("recovery"):
        n_sketches, outage_s = (50, 1.0) if bench.quick else (10_000, 10.0)
        yield from measure_recovery(n_sketches, outage_s)


def measure_installed() -> Iterator[Row]:
    """Measure the agent's size on disk: each package and their sum, without Python itself."""
    sizes = {name: _measure_package(distribution(name)) for name in _find_needed("agent")}
    # Installed here as a link to this tree, so its files are counted in place.
    sizes["sfumato"] = sum(
        path.stat().st_size
        for room in _SHIPPED
        for path in (ROOT / room).rglob("*")
        if path.is_file() and path.suffix not in (".pyc", ".c", ".h")
    )
    for name, n_bytes in sorted(sizes.items(), key=lambda item: -item[1]):
        yield from _rows(f"installed {name}", [("mb", n_bytes / 1e6, "MB")])
    yield from _rows("installed", [("mb", sum(sizes.values()) / 1e6, "MB", "Telegraf 245")])


def _find_needed(extra: str) -> set[str]:
    found: set[str] = set()
    waiting = [("sfumato", extra)]
    while waiting:
        name, wanted = waiting.pop()
        for requirement in map(Requirement, distribution(name).requires or ()):
            marker = requirement.marker
            if requirement.name not in found and (
                marker is None or marker.evaluate({"extra": wanted})
            ):
                found.add(requirement.name)
                waiting.append((requirement.name, ""))
    return found


def _measure_package(package: Distribution) -> int:
    """Return the bytes of a package's files, without compiled modules."""
    paths = [Path(str(package.locate_file(file))) for file in package.files or ()]
    return sum(p.stat().st_size for p in paths if p.suffix != ".pyc" and p.is_file())


def measure_size(folder: Path, aggregator: Aggregator, runs: int) -> Iterator[Row]:
    """Measure a small device: its memory, its start, and its uploads."""
    device = enrol(folder / "small", aggregator, d=2, m=500, length=1000)
    seconds, idle, used = [], [], []
    # The first run compiles, and does not count.
    for each in range(runs + 1):
        with running_daemon(device) as (daemon, started):
            seconds.append(started)
            time.sleep(1.0)
            idle.append(daemon.rss_mb())
            device.append(make_lines(1000, 2))
            daemon.wait_until(device.has_sent(1000 * (each + 1)))
            used.append(daemon.rss_mb())
    n_bytes = device.query("SELECT MAX(n_bytes) FROM outbox")
    for case, figure in (
        ("idle", ("rss_mb", max(idle[1:]), "MB", _OTHERS)),
        ("after-first-upload", ("rss_mb", max(used[1:]), "MB", "at most 55")),
        ("start", ("seconds", np.median(seconds[1:]), "s", "at most 0.4")),
        ("window m=500", ("bytes", n_bytes, "B", "less than 5000")),
    ):
        yield from _rows(case, [figure], runs=runs)


def measure_tail(folder: Path, aggregator: Aggregator, *, rate: int, seconds: int) -> Iterator[Row]:
    """Measure the daemon on a file that grows by ``rate`` records a second.

    As many records are there at the start, so that one-time work is done first. The delay is the
    time from the last record to the acknowledged window, including release and upload.
    """
    n_records = rate * seconds
    tick_s = max(_TICK_S, 1 / rate)
    n_parts = round(seconds / tick_s)
    device = enrol(folder / f"tail-{rate}", aggregator, d=10, m=1000, length=n_records)
    lines = make_lines(n_records // n_parts, 10)
    device.append(lines * n_parts)
    with running_daemon(device) as (daemon, _):
        before = time.perf_counter()
        daemon.wait_until(device.has_sent(n_records))
        took = time.perf_counter() - before
        cpu, start = daemon.cpu_seconds(), time.perf_counter()
        for i in range(n_parts):
            device.append(lines)
            time.sleep(max(0.0, start + (i + 1) * tick_s - time.perf_counter()))
        written = time.perf_counter()
        daemon.wait_until(device.has_sent(2 * n_records))
        ended = time.perf_counter()
        share, memory = (daemon.cpu_seconds() - cpu) / (ended - start), daemon.rss_mb()
    unit = f"of a core at {n_records / (written - start):.4g} records/s"
    figures = (
        ("records_per_second", n_records / took, "1/s", "from a backlog"),
        ("cpu_fraction", share, unit, "less than 0.6; Collector idle 0.2"),
        ("behind_seconds", ended - written, "s", "0"),
        ("rss_mb", memory, "MB", f"{_OTHERS} when idle"),
    )
    yield from _rows(f"tail-csv d=10 m=1000 at {rate}/s", figures)


def measure_recovery(n_sketches: int, outage_s: float) -> Iterator[Row]:
    """Let one device send its outbox once its server is back, and count at the server.

    The daemon runs through the outage, so that its current back-off counts. The server's limit for
    one device is raised.
    """
    limits = {"SFUMATO_DEVICE_RATE": str(_RATE), "SFUMATO_DEVICE_BURST": str(_RATE)}
    with tempfile.TemporaryDirectory() as name, running_aggregator(Path(name), **limits) as server:
        device = enrol(Path(name) / "device", server, d=2, m=50, length=_RECORDS)
        device.append(make_lines(_RECORDS * n_sketches, 2))
        device.run("once", "--no-send")
        waiting = device.query("SELECT COUNT(*) FROM outbox WHERE state = 'waiting'")
        server.stop()
        with running_daemon(device) as (daemon, _):
            time.sleep(outage_s)
            server.start()
            before = time.perf_counter()
            daemon.wait_until(device.has_sent(waiting, "COUNT(*)"))
            took = time.perf_counter() - before
        with Client(server.url, key=server.key) as client:
            study = client.study(device.study)
    figures = (
        ("seconds", took, "s", f"server's device_rate raised from 20/s to {_RATE}/s"),
        ("sketches_per_second", waiting / took, "1/s"),
        ("waiting", waiting, "sketches", f"{n_sketches} windows were read"),
        ("stored", study.n_sketches, "sketches", f"exactly {waiting}"),
        ("stored_records", study.n_records or 0, "records", f"exactly {_RECORDS * waiting}"),
    )
    yield from _rows(f"recovery waiting={n_sketches} m=50", figures)


if __name__ == "__main__":
    run(NAME, __doc__, measure)
