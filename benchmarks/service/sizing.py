"""Unit costs of a server: what each enrolment, upload, report and decode takes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from sqlalchemy import Table, func, select, text, update

from benchmarks.processes import read_cpu_seconds
from benchmarks.runner import Figure, Row, make_rows
from benchmarks.service.bulk import load_windows, prepare_study
from benchmarks.service.databases import BenchDatabase, open_database
from benchmarks.service.fleet import BenchDevice, Fleet, make_phone_plan
from benchmarks.service.load import Job, run_client
from benchmarks.service.servers import Server, running_servers
from benchmarks.service.uploads import NAME, make_request
from sfumato.aggregator.base.clock import SystemClock
from sfumato.aggregator.base.store import Store
from sfumato.aggregator.resources.devices.store import DEVICES
from sfumato.aggregator.resources.sketches.store.retention import drop_payloads
from sfumato.aggregator.resources.sketches.store.tables import CELLS, PENDING_SKETCHES, SKETCHES
from sfumato.aggregator.services import Services
from sfumato.analyst import Client
from sfumato.shared.wire import encode_proof_input

_N_DEVICES = 500
_N_CLUSTERS = 10
_LARGE = 1_000_000
_BATCH = 1024
# Indexes of a part of the rows are those of payloads and of batches.
_SIZE = text(
    "SELECT pg_relation_size(indrelid) + sum(pg_relation_size(indexrelid)) FROM pg_index"
    " WHERE indrelid = CAST(:name AS regclass) AND indpred IS NULL GROUP BY indrelid"
)
_WHOLE = text("SELECT pg_total_relation_size(:name)")
_PAGES = text(
    "SELECT sum(pgsize) FROM dbstat JOIN sqlite_schema USING (name) WHERE tbl_name = :name"
)


def measure_sizing(kind: str, folder: Path, *, n: int) -> Iterator[Row]:
    """Measure the costs of ``n`` of each, and the room that ten times as many sketches take."""
    case, fleet = f"sizing {kind}", Fleet(_N_DEVICES)
    with open_database(kind, folder) as database:
        key = database.run(partial(prepare_study, fleet=fleet))
        with running_servers(database.url, workers=1) as (server,):
            figures = _enrol(database, server, fleet, folder, n)
            yield from make_rows(NAME, f"{case} enrolment", figures, runs=n)
            requests = [make_request(fleet, m) for m in fleet.sign_windows(range(n // _N_DEVICES))]
            figures = _run(database, server, requests, fleet.payloads, folder)
            yield from make_rows(NAME, f"{case} upload", figures, runs=n)
            yield from make_rows(NAME, f"{case} decode", [_decode(server, fleet, key)])
    for size in (_N_DEVICES, _LARGE):
        with open_database(kind, folder) as database:
            figures = [database.run(partial(_merge, fleet=fleet, n_before=size - _N_DEVICES))]
        yield from make_rows(NAME, f"{case} merge devices={size}", figures, runs=_BATCH)
    phones = Fleet(n, make_phone_plan())
    with open_database(kind, folder) as database:
        database.run(partial(prepare_study, fleet=phones))
        with running_servers(database.url) as (server,):
            requests = [make_request(phones, m) for m in phones.sign_windows([0])]
            figures = _run(database, server, requests, phones.payloads, folder)
            figures += database.run(_find_kept)
    yield from make_rows(NAME, f"{case} report", figures, runs=n)
    n_windows = 10 * n // _N_DEVICES
    with open_database(kind, folder) as database:
        database.run(partial(prepare_study, fleet=fleet))
        database.run(partial(load_windows, fleet=fleet, n_windows=n_windows))
        n_cells = database.run(partial(_count, table=CELLS))
        size = database.run(partial(_find_size, table=CELLS.name, whole=True))
        figures = [
            *database.run(_find_kept),
            ("cells", n_cells / n_windows, "1", f"of a window; {n_windows} windows, 8 label sets"),
            ("cell_bytes", size / n_cells, "B", f"m=1000, {_N_DEVICES} devices"),
        ]
    yield from make_rows(NAME, f"{case} disk", figures, runs=10 * n)


def _enrol(
    database: BenchDatabase, server: Server, fleet: Fleet, folder: Path, n: int
) -> list[Figure]:
    async def create_token(store: Store) -> str:
        services = Services(store, SystemClock())
        token, _ = await services.enrolment.create_token(fleet.study_id, max_uses=n, labels=None)
        return token

    token = database.run(create_token)
    before = database.run(partial(_find_size, table=DEVICES.name))
    requests = [_enrolment_of(fleet, token, BenchDevice(_N_DEVICES + i)) for i in range(n)]
    figures = _run(database, server, requests, [b""], folder)
    stored = database.run(partial(_find_size, table=DEVICES.name)) - before
    return [*figures, ("kept_bytes", stored / n, "B", "on disk, with indexes")]


def _enrolment_of(fleet: Fleet, token: str, device: BenchDevice) -> tuple[bytes, int]:
    proof = encode_proof_input(
        token=token, study=fleet.study_id, public_key=device.public_key, labels=device.labels
    )
    body = json.dumps(
        {
            "token": token,
            "study_id": fleet.study_id.hex(),
            "public_key": device.public_key.hex(),
            "labels": device.labels,
            "proof": device.key.sign(proof).hex(),
        }
    ).encode()
    head = (
        "POST /v1/enrolments HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body, 0


async def _find_kept(store: Store) -> list[Figure]:
    """Measure what stays of sketches before and after retention."""
    n = await _count(store, SKETCHES)
    held = await _find_size(store, table=SKETCHES.name, whole=True)
    kept = await _find_size(store, table=SKETCHES.name)
    async with store.begin(write=True) as transaction:
        await drop_payloads(transaction, received_before=2e10, most=n)
    if store.has_one_writer:
        # Postgres keeps long payloads beside the table, and gives the room of old rows to new ones.
        kept = await _find_size(store, table=SKETCHES.name)
    return [
        ("held_bytes", held / n, "B", "on disk, with indexes and payload"),
        ("kept_bytes", kept / n, "B", "on disk after retention, with indexes"),
    ]


def _run(
    database: BenchDatabase,
    server: Server,
    requests: Sequence[tuple[bytes, int]],
    payloads: Sequence[bytes],
    folder: Path,
) -> list[Figure]:
    """Send requests until all are answered and merged."""
    job = Job(
        ports=[server.port], requests=requests, payloads=payloads, connections=64, insist=True
    )
    used, its = server.cpu_seconds(), database.cpu_seconds()
    outcome = run_client(job, folder)
    if wrong := {status for _, status, _, _ in outcome.answered if status not in (200, 201)}:
        raise RuntimeError(f"requests were answered with {wrong}")
    while database.run(partial(_count, table=PENDING_SKETCHES)):
        time.sleep(0.2)
    used, its = server.cpu_seconds() - used, database.cpu_seconds() - its
    n = len(requests)
    n_bytes = sum(len(head) + len(payloads[place]) for head, place in requests)
    return [
        ("server_cpu_ms", 1e3 * used / n, "ms", "processor time, merging included"),
        ("database_cpu_ms", 1e3 * its / n, "ms", "processor time of Postgres"),
        ("wire_bytes", n_bytes / n, "B", "of a request, without TLS"),
    ]


async def _find_size(store: Store, *, table: str, whole: bool = False) -> int:
    """Return the bytes of a table and its indexes; ``whole`` with payloads that lie beside it."""
    is_file = store.has_one_writer
    async with store.engine.connect() as connection:
        found = await connection.execute(
            _PAGES if is_file else _WHOLE if whole else _SIZE, {"name": table}
        )
        return int(found.scalar_one())


async def _count(store: Store, table: Table) -> int:
    async with store.begin() as transaction:
        return int(await transaction.scalar(select(func.count()).select_from(table)))


def _decode(server: Server, fleet: Fleet, key: str) -> Figure:
    server.wait_until(lambda: len(server.list_pids()) > 1, 0.1)
    (worker,) = server.list_pids()[1:]
    with Client(server.url, key=key, timeout=120.0) as client:
        # Of one window: releases that many messages share are more noise than the server expects.
        decode = partial(
            client.decode, fleet.study_id.hex(), n_clusters=_N_CLUSTERS, first_slot=0, last_slot=0
        )
        decode().wait()
        used = read_cpu_seconds(worker)
        decode(seed=1).wait()
    words = f"of the worker; k={_N_CLUSTERS}, m=1000"
    return "worker_cpu_ms", 1e3 * (read_cpu_seconds(worker) - used), "ms", words


async def _merge(store: Store, *, fleet: Fleet, n_before: int) -> Figure:
    """Merge two batches of a study that has many devices; the second finds the cells."""
    await prepare_study(store, fleet)
    async with store.engine.begin() as connection:
        await connection.execute(update(DEVICES).values(ordinal=DEVICES.c.ordinal + n_before))
    services = Services(store, SystemClock())
    messages = list(fleet.sign_windows(range(2 * _BATCH // fleet.n_devices + 1)))
    used = 0.0
    for start in (0, _BATCH):
        for message in messages[start : start + _BATCH]:
            body = message.head + fleet.payloads[message.release]
            await services.sketches.receive(fleet.study_id, message.header.sketch_id, body)
        used = time.process_time()
        await services.merger.merge_all()
    words = "processor time of the server to merge one of 1024"
    return "merge_cpu_ms", 1e3 * (time.process_time() - used) / _BATCH, "ms", words
