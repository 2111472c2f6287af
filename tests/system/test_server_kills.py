"""Servers and workers are killed again and again under load: nothing is lost or doubled."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import numpy as np
import pytest
from numpy.typing import NDArray
from sqlalchemy import select

from sfumato.aggregator.base.clock import SystemClock
from sfumato.aggregator.base.store import open_store
from sfumato.aggregator.base.sums.layout import Layout
from sfumato.aggregator.base.sums.selection import Selection
from sfumato.aggregator.resources.jobs.store import DECODES
from sfumato.aggregator.resources.sketches.store.cells import sum_sketches
from sfumato.aggregator.resources.sketches.store.tables import SKETCHES
from sfumato.aggregator.services import Services
from sfumato.shared.core import feature_table
from sfumato.shared.plan import SketchPlan
from sfumato.shared.wire import PayloadForm
from tests.aggregator.databases import find_address, open_kind
from tests.aggregator.fleet import SKETCH, SLOT, Desk, Device, make_plan
from tests.device_agent.daemons import wait_until
from tests.soak import small_and_soak
from tests.system.servers import KeptServer

N_DEVICES = 4
PLANS = {
    "sums": make_plan(most_sketches=1_000_000),
    "reports": make_plan(
        most_sketches=1_000_000,
        most_sketches_per_device=1_000_000,
        release="phase.v1",
        frequencies_per_sketch=10,
        most_records=None,
    ),
}


def draw_release(
    plan: SketchPlan, rng: np.random.Generator, sequence: int
) -> tuple[NDArray[np.int64], dict[str, Any]]:
    """Draw a released vector, and the fields of its header that are not usual."""
    if not plan.reports_phases:
        return rng.integers(-300, 300, plan.n_coordinates), {}
    phases = rng.integers(0, 1 << 16, plan.frequencies_per_sketch)
    values = feature_table()[phases].T.astype(np.int64).ravel()
    payload = PayloadForm.of(plan).encode(values)
    block = sequence % plan.blocks.n_blocks
    return values, {"payload": payload, "block": block, "kind": "phase.v1", "n_records": 1}


class Sender:
    """A device that releases without end and sends each sketch until it is acknowledged."""

    def __init__(
        self, seed: int, plan: SketchPlan, study: bytes, urls: list[str], stop: threading.Event
    ) -> None:
        self.device = Device(seed)
        self.acknowledged: dict[str, tuple[NDArray[np.int64], int]] = {}
        """By identity: what was released, and the block of its features."""
        self._plan = plan
        self.n_unanswered = 0
        self.failure: BaseException | None = None
        self._study = study
        self._urls = urls
        self._stop = stop
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            rng = np.random.default_rng(self.device.seed)
            with httpx.Client(timeout=30.0) as http:
                sequence = 0
                while not self._stop.wait(0.01):
                    self._send(http, sequence, *draw_release(self._plan, rng, sequence))
                    sequence += 1
        except BaseException as error:
            self.failure = error

    def _send(
        self,
        http: httpx.Client,
        sequence: int,
        values: NDArray[np.int64],
        changes: dict[str, Any],
    ) -> None:
        slot = SLOT + sequence
        sketch, body = self.device.message(
            self._study, self._plan, values, sequence=sequence, slots=(slot, slot), **changes
        )
        path = f"/v1/studies/{self._study.hex()}/sketches/{sketch}"
        for attempt in range(1 << 20):
            url = self._urls[(sequence + attempt) % len(self._urls)]
            try:
                answer = http.put(url + path, content=body, headers=SKETCH)
            except httpx.HTTPError:
                self.n_unanswered += 1
                time.sleep(0.05)
                continue
            if answer.status_code in (200, 201):
                self.acknowledged[sketch] = values, changes.get("block") or 0
                return
            assert answer.status_code in (429, 503), answer.text
            time.sleep(0.05)

    def join(self) -> None:
        """Wait until its last sketch is acknowledged."""
        self._thread.join()
        if self.failure is not None:
            raise self.failure


@asynccontextmanager
async def open_database(kind: str, folder: Path) -> AsyncIterator[str]:
    """Make a database with its tables, and yield its address."""
    async with open_kind(kind, folder) as store:
        yield find_address(store)


async def make_key(url: str) -> str:
    store = open_store(url)
    key, _ = await Services(store, SystemClock()).keys.create(name="op", scope="operator")
    await store.close()
    return key


@contextmanager
def kept(url: str, count: int, folder: Path) -> Iterator[list[KeptServer]]:
    """Keep servers over a database for the length of a block; they end in order."""
    servers = [KeptServer(url, folder / f"server{i}.log") for i in range(count)]
    try:
        for server in servers:
            server.wait_until_ready()
        yield servers
        # One that was killed last may not know yet how to end in order.
        for server in servers:
            server.wait_until_ready()
    finally:
        statuses = [server.stop() for server in servers]
    assert statuses == [0] * count


class Analyst:
    """Asks for decodes while everything is killed, and keeps what it was answered."""

    def __init__(self, servers: list[KeptServer], key: str, study: bytes) -> None:
        self.results: dict[str, Any] = {}
        self._servers = servers
        self._url = f"/v1/studies/{study.hex()}"
        self._headers = {"Authorization": f"Bearer {key}"}
        self._asked: dict[str, dict[str, Any]] = {}

    def call(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        """Call whichever server answers."""
        while True:
            for server in self._servers:
                try:
                    answer = httpx.request(
                        method, server.url + path, headers=self._headers, timeout=30.0, **options
                    )
                except httpx.HTTPError:
                    continue
                if answer.status_code not in (429, 503):
                    assert answer.is_success, answer.text
                    return dict(answer.json())
            time.sleep(0.05)

    def snapshot(self) -> dict[str, Any]:
        """Freeze everything, and return it with its sums."""
        made = self.call("POST", f"{self._url}/snapshots", json={})
        return self.call("GET", f"/v1/snapshots/{made['snapshot_id']}")

    def ask(self, snapshot: str, seed: int) -> str:
        """Ask for a decode that takes a second or so."""
        body = {
            "snapshot_id": snapshot,
            "n_clusters": 3,
            "decoder": "cl-ompr",
            "settings": {"n_replicates": 40},
            "seed": seed,
        }
        decode = str(self.call("POST", f"{self._url}/decodes", json=body)["decode_id"])
        self._asked[decode] = body
        return decode

    def read(self, decode: str) -> str:
        """Return the state of a decode; a result that is there once stays as it is."""
        shown = self.call("GET", f"/v1/decodes/{decode}")
        if shown["state"] == "succeeded":
            assert self.results.setdefault(decode, shown) == shown
        return str(shown["state"])

    def finish(self) -> None:
        """Wait for all answers; what three killed workers gave up is asked for again."""
        for decode, body in self._asked.items():
            while (state := self.read(decode)) != "succeeded":
                if state == "failed":
                    self.call("POST", f"{self._url}/decodes", json=body)
                time.sleep(0.05)
        for decode in self._asked:
            assert self.read(decode) == "succeeded"


def kill_in_a_loop(
    servers: list[KeptServer], analyst: Analyst, senders: list[Sender], *, n_kills: int
) -> None:
    draw = random.Random(3)
    snapshot = str(analyst.snapshot()["snapshot_id"])
    for cycle in range(n_kills):
        server = draw.choice(servers)
        n_before = sum(len(sender.acknowledged) for sender in senders)
        decode = analyst.ask(snapshot, cycle)
        if cycle % 3 == 0:
            # In the middle of its work, unless it was done before we saw it.
            wait_until(lambda decode=decode: analyst.read(decode) != "queued")  # type: ignore[misc]
            for one in servers:
                one.kill_a_worker()
        else:
            time.sleep(draw.uniform(0.0, 0.4))
            n_starts = server.n_starts
            server.kill()
            wait_until(lambda kept=server, n=n_starts: kept.n_starts > n)  # type: ignore[misc]
        if draw.random() < 0.8:  # else the next one comes while it starts
            server.wait_until_ready()
        wait_until(
            lambda n=n_before: (
                sum(len(s.acknowledged) for s in senders) > n  # type: ignore[misc]
                or any(s.failure is not None for s in senders)
            )
        )
        for sender in senders:
            if sender.failure is not None:
                raise sender.failure


async def require_all_is_there(
    url: str, plan: SketchPlan, study: bytes, senders: list[Sender]
) -> None:
    """Compare the database, row by row and sum by sum, with what was acknowledged."""
    store = open_store(url)
    async with store.engine.connect() as connection:
        rows = (await connection.execute(select(SKETCHES.c.sketch_id, SKETCHES.c.payload))).all()
        attempts = (await connection.execute(select(DECODES.c.attempts))).scalars().all()
    sent = {key: values for sender in senders for key, values in sender.acknowledged.items()}
    layout, form = Layout.of(plan), PayloadForm.of(plan)
    payloads = {row.sketch_id.hex(): form.decode(row.payload)[0] for row in rows}
    assert len(payloads) == len(rows)
    assert payloads.keys() == sent.keys()
    assert all(np.array_equal(payloads[key], values) for key, (values, _) in sent.items())
    whole = np.zeros(layout.n_totals, dtype=np.int64)
    for values, block in sent.values():
        whole[layout.places[block]] += values
    services = Services(store, SystemClock())
    for _ in range(2):  # as it was left, and with all of it in the cells
        assert await services.merger.check(study) == []
        async with store.begin() as transaction:
            totals = await sum_sketches(transaction, study, Selection(), layout=layout)
        assert np.array_equal(totals.sums, whole)
        await services.merger.merge_all()
    await store.close()
    # Some decode was taken up again after its worker was killed.
    assert max(attempts) > 1


@pytest.mark.anyio
@small_and_soak("n_kills", 2, 200)
@pytest.mark.parametrize(
    ("kind", "count", "released"),
    [
        ("sqlite", 1, "sums"),
        ("postgres", 2, "reports"),
        pytest.param("sqlite", 1, "reports", marks=pytest.mark.soak),
        pytest.param("postgres", 2, "sums", marks=pytest.mark.soak),
    ],
)
async def test_killed_in_a_loop_under_load_the_server_loses_and_doubles_nothing(
    kind: str, count: int, released: str, n_kills: int, tmp_path: Path
) -> None:
    plan = PLANS[released]
    async with open_database(kind, tmp_path) as url:
        key = await make_key(url)

        def work() -> tuple[bytes, list[Sender]]:
            with kept(url, count, tmp_path) as servers:
                return load_and_kill(servers, key, plan, n_kills=n_kills)

        study, senders = await anyio.to_thread.run_sync(work)
        await require_all_is_there(url, plan, study, senders)
    assert sum(sender.n_unanswered for sender in senders) > n_kills / 4


def load_and_kill(
    servers: list[KeptServer], key: str, plan: SketchPlan, *, n_kills: int
) -> tuple[bytes, list[Sender]]:
    """Publish a study, send to it from every device, and kill what serves it."""
    urls = [server.url for server in servers]

    async def publish() -> bytes:
        async with httpx.AsyncClient(base_url=urls[0]) as http:
            desk = Desk(http, key, key)
            study = await desk.publish(plan)
            await desk.enrol(study, *(Device(seed) for seed in range(N_DEVICES)))
            return study

    study = anyio.run(publish)
    stop = threading.Event()
    senders = [Sender(seed, plan, study, urls, stop) for seed in range(N_DEVICES)]
    analyst = Analyst(servers, key, study)
    try:
        wait_until(lambda: all(sender.acknowledged for sender in senders))
        kill_in_a_loop(servers, analyst, senders, n_kills=n_kills)
    finally:
        stop.set()
        for sender in senders:
            sender.join()
    analyst.finish()
    n_acknowledged = sum(len(sender.acknowledged) for sender in senders)
    assert analyst.snapshot()["n_sketches"] == n_acknowledged
    return study, senders
