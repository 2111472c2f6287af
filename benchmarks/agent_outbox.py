"""Time that a full outbox takes to reach a server that is back after an outage."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.agent_devices import enrol, make_lines, row, running_aggregator, running_daemon
from benchmarks.rows import Row
from sfumato.analyst import Client

_RATE = 100_000
_RECORDS = 10


def measure_recovery(n_sketches: int, outage_s: float) -> Iterator[Row]:
    """Let one device send its outbox once its server is back, and count at the server.

    The daemon runs through the outage, so that its current back-off counts. The server's limit for
    one device is raised.
    """
    case = f"recovery waiting={n_sketches} m=50"
    limits = {"SFUMATO_DEVICE_RATE": str(_RATE), "SFUMATO_DEVICE_BURST": str(_RATE)}
    with tempfile.TemporaryDirectory() as name, running_aggregator(Path(name), **limits) as server:
        device = enrol(Path(name) / "device", server, d=2, m=50, length=_RECORDS)
        device.append(make_lines(_RECORDS * n_sketches, 2))
        before = time.perf_counter()
        device.run("once", "--no-send")
        released = time.perf_counter() - before
        waiting = device.query("SELECT COUNT(*) FROM outbox WHERE state = 'waiting'")
        server.stop()
        with running_daemon(device) as daemon:
            time.sleep(outage_s)
            server.start()
            before = time.perf_counter()
            daemon.wait_until_sent(waiting, what="COUNT(*)")
            took = time.perf_counter() - before
        with Client(server.url, key=server.key) as client:
            study = client.study(device.study)
    limit = f"none; {waiting / 20:.4g} at the server's default device_rate of 20/s, here {_RATE}/s"
    yield row(f"release windows={n_sketches} m=50", "seconds", released, "s", 1, "none")
    yield row(case, "seconds", took, "s", 1, limit)
    yield row(case, "sketches_per_second", waiting / took, "1/s", 1, "none")
    yield row(case, "waiting", waiting, "sketches", 1, f"{n_sketches} windows were read")
    stored, records = study.n_sketches, study.n_records or 0
    yield row(case, "stored", stored, "sketches at the server", 1, f"exactly {waiting}")
    yield row(
        case, "stored_records", records, "records at the server", 1, f"exactly {_RECORDS * waiting}"
    )
