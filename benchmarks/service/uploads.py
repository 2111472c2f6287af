"""Uploads: rate, latency, a flood after an outage, and recovery of a killed server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.rows import Row
from benchmarks.service.bulk import check_sums, prepare_study
from benchmarks.service.databases import BenchDatabase, open_database
from benchmarks.service.fleet import Fleet, Signed, make_phone_plan
from benchmarks.service.load import Job, Outcome, run_client
from benchmarks.service.processes import (
    ServerProcess,
    running_bare,
    running_servers,
    start_server,
    stop_server,
)
from sfumato.aggregator.records import Selection, SketchTotals
from sfumato.aggregator.storage import Layout, Store
from sfumato.shared.wire import SKETCH_MEDIA_TYPE

NAME = "service"
N_DEVICES = 500
_CONNECTIONS = 64
_PHONES = 256
"""Phones that send at the same time."""
_WARM_SHARE = 0.2
"""Leading share of a run at saturation that does not count."""
_MOST_A_SECOND = 2500


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Rates of a run of uploads; latencies in seconds, of answers with 201."""

    per_second: float
    latencies: Sequence[float]
    client_share: float
    server_share: float

    def percentile_ms(self, percent: float) -> float:
        """Return a percentile of the latencies, in ms."""
        return 1e3 * float(np.percentile(self.latencies, percent))


def make_request(fleet: Fleet, message: Signed) -> tuple[bytes, int]:
    """Return the head of an upload with the number of its payload."""
    path = f"/v1/studies/{fleet.study_id.hex()}/sketches/{message.header.sketch_id.hex()}"
    length = len(message.head) + message.header.payload_length
    head = (
        f"PUT {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {SKETCH_MEDIA_TYPE}\r\n"
        f"Content-Length: {length}\r\n\r\n"
    )
    return head.encode("ascii") + message.head, message.release


def send(
    fleet: Fleet,
    servers: Sequence[ServerProcess],
    messages: Sequence[Signed],
    folder: Path,
    *,
    connections: int = _CONNECTIONS,
    rate: float | None = None,
    seconds: float | None = None,
    insist: bool = False,
) -> tuple[Outcome, float]:
    """Send messages from their own process; also return the servers' share of a core."""
    job = Job(
        ports=[server.port for server in servers],
        requests=[make_request(fleet, message) for message in messages],
        payloads=fleet.payloads,
        connections=connections,
        rate=rate,
        seconds=seconds,
        insist=insist,
    )
    before = [server.cpu_seconds() for server in servers]
    outcome = run_client(job, folder)
    used = sum(s.cpu_seconds() - b for s, b in zip(servers, before, strict=True))
    return outcome, used / outcome.wall_seconds


class _Sender:
    """Sends messages that no earlier run has sent, so that every upload is new."""

    def __init__(self, fleet: Fleet, servers: Sequence[ServerProcess], folder: Path) -> None:
        self._fleet = fleet
        self._servers = servers
        self._folder = folder
        self._sequence = 0
        self.stored: list[Signed] = []

    def run(self, *, seconds: float, rate: float | None = None) -> Rates:
        """Send for some seconds."""
        most = int(seconds * (rate or _MOST_A_SECOND))
        windows = -(-most // self._fleet.n_devices)
        sequences = range(self._sequence, self._sequence + windows)
        self._sequence += windows
        messages = list(self._fleet.sign_windows(sequences))
        outcome, share = send(
            self._fleet, self._servers, messages, self._folder, rate=rate, seconds=seconds
        )
        self.stored += [messages[number] for _, status, _, number in outcome.answered]
        wrong = {status for _, status, _, _ in outcome.answered if status != 201}
        if wrong:
            raise RuntimeError(f"uploads were answered with {wrong}")
        end = max(at for at, _, _, _ in outcome.answered)
        start = 0.0 if rate else _WARM_SHARE * end
        counted = [took for at, _, took, _ in outcome.answered if at >= start]
        return Rates(
            per_second=len(counted) / (end - start),
            latencies=counted,
            client_share=outcome.cpu_seconds / outcome.wall_seconds,
            server_share=share,
        )


def measure_uploads(
    kind: str, folder: Path, *, replicas: int, seconds: float, runs: int
) -> Iterator[Row]:
    """Measure uploads at saturation and at half of it, with the bare endpoint as baseline."""
    fleet = Fleet(N_DEVICES)
    case = f"postgres replicas={replicas}" if kind == "postgres" else kind
    with ExitStack() as stack:
        database = stack.enter_context(open_database(kind, folder))
        asyncio.run(_prepare(database, fleet))
        servers = stack.enter_context(running_servers(database.url, replicas=replicas))
        bare = stack.enter_context(running_bare(fleet.n_devices, replicas=replicas))
        sender = _Sender(fleet, servers, folder)
        baseline = _Sender(fleet, bare, folder)
        sender.run(seconds=2.0)
        # In turn, so that other load on the machine affects both.
        pairs = [(sender.run(seconds=seconds), baseline.run(seconds=seconds)) for _ in range(runs)]
        full = pairs[int(np.argsort([own.per_second for own, _ in pairs])[runs // 2])][0]
        ratio = float(np.median([own.per_second / its.per_second for own, its in pairs]))
        half = sender.run(seconds=seconds, rate=full.per_second / 2)
        memory = max(server.rss_mb() for server in servers)
        asyncio.run(_require_exact(database, fleet, sender.stored))
        size = database.size_mb()
    where = database.durability
    goal = "at least 500" if kind == "postgres" else "at least 400"
    for figure, value, unit, baseline_text in (
        ("uploads_per_second", full.per_second, "1/s", f"{goal}; {where}"),
        ("ratio_to_bare", ratio, "1", "an endpoint of the same stack that only verifies"),
        ("p50_ms", full.percentile_ms(50), "ms", f"{_CONNECTIONS} connections, saturated"),
        ("p99_ms", full.percentile_ms(99), "ms", f"{_CONNECTIONS} connections, saturated"),
        ("p50_ms_half_load", half.percentile_ms(50), "ms", "open loop, from the moment it is due"),
        ("p99_ms_half_load", half.percentile_ms(99), "ms", "at most 100; open loop"),
        ("client_cpu_cores", full.client_share, "1", "of this machine's, used by the client"),
        (
            "server_cpu_ms",
            1e3 * full.server_share / full.per_second,
            "ms",
            "processor time of one upload in the servers, whatever else runs",
        ),
        ("server_cpu_cores", full.server_share, "1", "used by the servers, saturated"),
        ("rss_mb", memory, "MB", "the larger server after the load, without workers"),
        ("database_mb", size, "MB", f"{len(sender.stored)} sketches, m=1000"),
    ):
        yield row(case, figure, value, unit, runs, baseline_text)


async def _prepare(database: BenchDatabase, fleet: Fleet) -> str:
    store = database.open_store()
    try:
        return await prepare_study(store, fleet)
    finally:
        await store.close()


async def _require_exact(database: BenchDatabase, fleet: Fleet, stored: Sequence[Signed]) -> None:
    """Check that the sums are exactly those of the acknowledged sketches.

    Raises
    ------
    RuntimeError
        The sums differ.
    """
    store = database.open_store()
    try:
        totals = await _sum_all(store, fleet)
        wrong = await check_sums(store, fleet)
    finally:
        await store.close()
    if totals.n_sketches != len(stored) or wrong:
        raise RuntimeError(f"{len(stored)} were acknowledged, {totals.n_sketches} are in the sums")
    if not np.array_equal(totals.sums, fleet.sum_exactly(stored)):
        raise RuntimeError("the sums are not those of the acknowledged sketches")


async def _sum_all(store: Store, fleet: Fleet) -> SketchTotals:
    async with store.begin() as transaction:
        return await transaction.sum_sketches(
            fleet.study_id,
            Selection(),
            layout=Layout.of(fleet.plan),
        )


def measure_outage(kind: str, folder: Path, *, devices: int, connections: int) -> Iterator[Row]:
    """Let every device send one sketch at once, as after an outage."""
    case = f"outage devices={devices} connections={connections} {kind}"
    yield from _send_at_once(case, Fleet(devices), kind, folder, connections=connections)


def measure_phones(kind: str, folder: Path, *, devices: int) -> Iterator[Row]:
    """Let every phone send its one report."""
    fleet = Fleet(devices, make_phone_plan())
    case = f"phones devices={devices} {kind}"
    yield from _send_at_once(case, fleet, kind, folder, connections=_PHONES)
    (message,) = (fleet.sign(device, 0) for device in fleet.devices[:1])
    n_bytes = len(message.head) + message.header.payload_length
    yield row(case, "message_bytes", n_bytes, "B", 1, f"{message.header.payload_length} of payload")


def _send_at_once(
    case: str, fleet: Fleet, kind: str, folder: Path, *, connections: int
) -> Iterator[Row]:
    with open_database(kind, folder) as database:
        asyncio.run(_prepare(database, fleet))
        messages = list(fleet.sign_windows([0]))
        replicas = 2 if kind == "postgres" else 1
        with running_servers(database.url, replicas=replicas) as servers:
            outcome, _ = send(
                fleet, servers, messages, folder, connections=connections, insist=True
            )
        statuses = [status for _, status, _, _ in outcome.answered]
        asyncio.run(_require_exact(database, fleet, messages))
    n_stored = statuses.count(201)
    yield row(
        case, "per_second", n_stored / outcome.wall_seconds, "1/s", 1, "stored and acknowledged"
    )
    yield row(case, "seconds", outcome.wall_seconds, "s", 1, "all served")
    yield row(case, "acknowledged", n_stored, "1", 1, f"{fleet.n_devices}; sum checked")
    yield row(case, "sent_again", outcome.n_refused, "1", 1, "answered with 429 or 503 before")
    yield row(
        case,
        "p99_ms",
        1e3 * float(np.percentile([t for _, _, t, _ in outcome.answered], 99)),
        "ms",
        1,
        "from the first attempt",
    )


def measure_recovery(kind: str, folder: Path, *, runs: int) -> Iterator[Row]:
    """Kill a server under load, restart it, and time it until it stores a sketch."""
    fleet = Fleet(N_DEVICES)
    seconds = []
    with open_database(kind, folder) as database:
        asyncio.run(_prepare(database, fleet))
        for run in range(runs):
            server = start_server(database.url)
            windows = list(fleet.sign_windows([2 * run]))
            send(fleet, [server], windows, folder)
            server.kill()
            start = time.perf_counter()
            server = start_server(database.url)
            probe = [fleet.sign(fleet.devices[0], 2 * run + 1)]
            send(fleet, [server], probe, folder, connections=1, insist=True)
            seconds.append(time.perf_counter() - start)
            stop_server(server)
    yield row(
        f"killed {kind}",
        "recovery_seconds",
        float(np.median(seconds)),
        "s",
        runs,
        "from the restart to the first 201, the client's own start included",
    )


def measure_idle(kind: str, folder: Path) -> Iterator[Row]:
    """Measure the memory of an idle server and its worker."""
    fleet = Fleet(N_DEVICES)
    with open_database(kind, folder) as database:
        asyncio.run(_prepare(database, fleet))
        with running_servers(database.url, workers=1) as servers:
            while len(servers[0].list_pids()) < 2:
                time.sleep(0.1)
            send(fleet, servers, list(fleet.sign_windows([0])), folder)
            time.sleep(5.0)
            memory = servers[0].rss_mb()
    yield row(f"idle {kind}", "rss_mb", memory, "MB", 1, "server and worker, at most 250")


def row(case: str, figure: str, value: float, unit: str, runs: int, baseline: str) -> Row:
    """Return a row of this benchmark."""
    return Row(NAME, case, figure, float(value), unit, runs, baseline)
