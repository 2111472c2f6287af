"""Uploads: rate, latency, a flood after an outage, and recovery of a killed server."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.runner import Figure, Row, make_rows
from benchmarks.service.bulk import compare_sums, prepare_study
from benchmarks.service.databases import open_database
from benchmarks.service.fleet import Fleet, Signed, make_phone_plan
from benchmarks.service.load import Job, Outcome, run_client
from benchmarks.service.servers import Server, running_servers, start_bare, start_server
from sfumato.aggregator.base.store import Store
from sfumato.aggregator.base.sums.layout import Layout
from sfumato.aggregator.base.sums.selection import Selection
from sfumato.aggregator.resources.sketches.store.cells import sum_sketches
from sfumato.shared.wire import SKETCH_MEDIA_TYPE

NAME = "service"
N_DEVICES = 500
_CONNECTIONS = 64
_PHONES = 256
"""Phones that send at the same time."""
_WARM_SHARE = 0.2
"""Leading share of a run at saturation that does not count."""
_MOST_A_SECOND = 2500
_REPLICAS = {"sqlite": 1, "postgres": 2}


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
    servers: Sequence[Server],
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

    def __init__(self, fleet: Fleet, servers: Sequence[Server], folder: Path) -> None:
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


def measure_uploads(kind: str, folder: Path, *, seconds: float, runs: int) -> Iterator[Row]:
    """Measure uploads at saturation and at half of it, with the bare endpoint as baseline."""
    fleet, replicas = Fleet(N_DEVICES), _REPLICAS[kind]
    with ExitStack() as stack:
        database = stack.enter_context(open_database(kind, folder))
        database.run(partial(prepare_study, fleet=fleet))
        servers = stack.enter_context(running_servers(database.url, replicas=replicas))
        bare = [start_bare(fleet.n_devices) for _ in range(replicas)]
        for each in bare:
            stack.callback(each.end)
        sender, baseline = _Sender(fleet, servers, folder), _Sender(fleet, bare, folder)
        sender.run(seconds=2.0)
        # In turn, so that other load on the machine affects both.
        pairs = [(sender.run(seconds=seconds), baseline.run(seconds=seconds)) for _ in range(runs)]
        full = pairs[int(np.argsort([own.per_second for own, _ in pairs])[runs // 2])][0]
        ratio = np.median([own.per_second / its.per_second for own, its in pairs])
        half = sender.run(seconds=seconds, rate=full.per_second / 2)
        memory = max(server.rss_mb() for server in servers)
        database.run(partial(require_exact, fleet=fleet, stored=sender.stored))
        size = database.size_mb()
    saturated = f"{_CONNECTIONS} connections, saturated"
    cpu_ms = 1e3 * full.server_share / full.per_second
    figures = (
        ("uploads_per_second", full.per_second, "1/s", f"at least 400; {database.durability}"),
        ("ratio_to_bare", ratio, "1", "an endpoint of the same stack that only verifies"),
        ("p50_ms", full.percentile_ms(50), "ms", saturated),
        ("p99_ms", full.percentile_ms(99), "ms", saturated),
        ("p50_ms_half_load", half.percentile_ms(50), "ms", "open loop, from the moment it is due"),
        ("p99_ms_half_load", half.percentile_ms(99), "ms", "at most 100; open loop"),
        ("client_cpu_cores", full.client_share, "1", "of this machine's, used by the client"),
        ("server_cpu_ms", cpu_ms, "ms", "processor time of one upload in the servers"),
        ("server_cpu_cores", full.server_share, "1", "used by the servers, saturated"),
        ("rss_mb", memory, "MB", "the larger server after the load, without workers"),
        ("database_mb", size, "MB", f"{len(sender.stored)} sketches, m=1000"),
    )
    yield from make_rows(NAME, f"uploads {kind} replicas={replicas}", figures, runs=runs)


async def require_exact(store: Store, fleet: Fleet, stored: Sequence[Signed]) -> None:
    """Check that the sums are exactly those of the acknowledged sketches.

    Raises
    ------
    RuntimeError
        The sums differ.
    """
    async with store.begin() as transaction:
        totals = await sum_sketches(
            transaction, fleet.study_id, Selection(), layout=Layout.of(fleet.plan)
        )
    if totals.n_sketches != len(stored) or await compare_sums(store, fleet):
        raise RuntimeError(f"{len(stored)} were acknowledged, {totals.n_sketches} are in the sums")
    if not np.array_equal(totals.sums, fleet.sum_exactly(stored)):
        raise RuntimeError("the sums are not those of the acknowledged sketches")


def measure_outage(kind: str, folder: Path, *, devices: int, connections: int) -> Iterator[Row]:
    """Let every device send one sketch at once, as after an outage."""
    case = f"outage devices={devices} connections={connections} {kind}"
    figures = _send_at_once(Fleet(devices), kind, folder, connections)
    yield from make_rows(NAME, case, figures)


def measure_phones(kind: str, folder: Path, *, devices: int) -> Iterator[Row]:
    """Let every phone send its one report."""
    fleet = Fleet(devices, make_phone_plan())
    figures = _send_at_once(fleet, kind, folder, _PHONES)
    message = fleet.sign(fleet.devices[0], 0)
    length = message.header.payload_length
    figures.append(("message_bytes", len(message.head) + length, "B", f"{length} of payload"))
    yield from make_rows(NAME, f"phones devices={devices} {kind}", figures)


def _send_at_once(fleet: Fleet, kind: str, folder: Path, connections: int) -> list[Figure]:
    with open_database(kind, folder) as database:
        database.run(partial(prepare_study, fleet=fleet))
        messages = list(fleet.sign_windows([0]))
        with running_servers(database.url, replicas=_REPLICAS[kind]) as servers:
            outcome, _ = send(
                fleet, servers, messages, folder, connections=connections, insist=True
            )
        database.run(partial(require_exact, fleet=fleet, stored=messages))
    n_stored = sum(status == 201 for _, status, _, _ in outcome.answered)
    slowest = np.percentile([took for _, _, took, _ in outcome.answered], 99)
    return [
        ("per_second", n_stored / outcome.wall_seconds, "1/s", "stored and acknowledged"),
        ("seconds", outcome.wall_seconds, "s", "all served"),
        ("acknowledged", n_stored, "1", f"{fleet.n_devices}; sum checked"),
        ("sent_again", outcome.n_refused, "1", "answered with 429 or 503 before"),
        ("p99_ms", 1e3 * slowest, "ms", "from the first attempt"),
    ]


def measure_recovery(kind: str, folder: Path, *, runs: int) -> Iterator[Row]:
    """Kill a server under load, restart it, and time it until it stores a sketch."""
    fleet = Fleet(N_DEVICES)
    seconds = []
    with open_database(kind, folder) as database:
        database.run(partial(prepare_study, fleet=fleet))
        for each in range(runs):
            server = start_server(database.url)
            send(fleet, [server], list(fleet.sign_windows([2 * each])), folder)
            server.end(signal.SIGKILL)
            start = time.perf_counter()
            server = start_server(database.url)
            probe = [fleet.sign(fleet.devices[0], 2 * each + 1)]
            send(fleet, [server], probe, folder, connections=1, insist=True)
            seconds.append(time.perf_counter() - start)
            server.end()
    words = "from the restart to the first 201, the client's own start included"
    figure = ("recovery_seconds", np.median(seconds), "s", words)
    yield from make_rows(NAME, f"killed {kind}", [figure], runs=runs)


def measure_idle(kind: str, folder: Path) -> Iterator[Row]:
    """Measure the memory of an idle server and its worker."""
    fleet = Fleet(N_DEVICES)
    with open_database(kind, folder) as database:
        database.run(partial(prepare_study, fleet=fleet))
        with running_servers(database.url, workers=1) as (server,):
            server.wait_until(lambda: len(server.list_pids()) > 1, 0.1)
            send(fleet, [server], list(fleet.sign_windows([0])), folder)
            time.sleep(5.0)
            memory = server.rss_mb()
    figure = ("rss_mb", memory, "MB", "server and worker, at most 250")
    yield from make_rows(NAME, f"idle {kind}", [figure])
