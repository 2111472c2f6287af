"""A leader with a helper at an address of its own, each on its database, and a fleet of devices."""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uvicorn
from numpy.typing import NDArray

from sfumato.aggregator.base.sums.layout import Layout
from sfumato.aggregator.base.sums.selection import Selection, SketchTotals
from sfumato.aggregator.database.inspection import find_count_faults, find_orphans
from sfumato.aggregator.resources.batches.record import BatchRecord
from sfumato.aggregator.resources.batches.store.check import check_sums
from sfumato.aggregator.resources.batches.store.reports import count_reports
from sfumato.aggregator.resources.sketches.store.cells import sum_sketches
from sfumato.device_agent.agent.reading.release import make_message
from sfumato.helper.acceptance import Plans
from sfumato.helper.app import create_app, hash_key
from sfumato.helper.batches import Batches
from sfumato.helper.journal import Journal
from sfumato.helper.keys import KeyFolder
from sfumato.helper.tables import leader_keys, open_database, write
from sfumato.shared.core import SketchAccumulator
from sfumato.shared.plan import SketchPlan, compute_plan_digest
from sfumato.shared.privacy import RandomSource
from sfumato.shared.sharing.masks import read_masked
from sfumato.shared.sharing.seals import open_seal, seal_seed
from sfumato.shared.system import SystemSource
from sfumato.shared.wire import SketchMessage, decode_message, encode_message
from tests.aggregator.databases import address_of, open_kind
from tests.aggregator.fleet import Device, change_bytes
from tests.aggregator.serving import Server, SteppedClock, open_server
from tests.shared.sharing.samples import make_draft

ON_BOTH = pytest.mark.parametrize("pair", ["sqlite", "postgres"], indirect=True)
KEY = "sfh_key"
HOUR = 3600
STEP_S = 0.002


@dataclass(kw_only=True)
class HelperWorld:
    """A helper on a SQLite file, or a Postgres database, at an address on this machine."""

    folder: Path
    clock: SteppedClock
    source: RandomSource = field(default_factory=SystemSource)
    url: str = ""
    address: str = ""

    def __post_init__(self) -> None:
        self.keys = KeyFolder(self.folder / "keys")
        self.keys.make_identity()
        self.database = open_database(self.address or str(self.folder / "helper.db"))
        with write(self.database) as connection:
            row = {"key_hash": hash_key(KEY), "name": "leader", "created": 0.0}
            connection.execute(leader_keys.insert().values(**row))
        self.plans = Plans(database=self.database, keys=self.keys)
        self.batches = Batches(
            database=self.database,
            plans=self.plans,
            journal=Journal.open(self.folder / "helper.journal"),
            identity=self.keys.load_identity(),
            source=self.source,
            now=self.clock.now,
        )

    def accept(self, draft: SketchPlan) -> SketchPlan:
        return self.plans.accept(draft, name="A helper", now=self.clock.now())

    @contextmanager
    def serving(self, port: int = 0) -> Iterator[None]:
        """Serve at an address of this machine."""
        app = create_app(self.database, self.batches, version="0", step_s=STEP_S)
        config = uvicorn.Config(app, port=port, log_config=None, lifespan="off")
        server = uvicorn.Server(config)
        server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        listener = config.bind_socket()
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.should_exit = True
            thread.join()
            with contextlib.suppress(OSError):
                listener.close()


def draw_records(device: Device, sequence: int = 0, count: int = 2) -> NDArray[np.float64]:
    """Return the records of a device in a window: the same ones every time."""
    rng = np.random.default_rng(device.seed * 1000 + sequence)
    return rng.uniform(size=(count, 2))


@dataclass(kw_only=True)
class Report:
    """A report, and the exact sum that no server sees."""

    device: Device
    sketch_id: str
    message: bytes
    sums: NDArray[np.int64]


@dataclass(kw_only=True)
class Pair:
    """A leader and its helper, with one study."""

    server: Server
    helper: HelperWorld
    plan: SketchPlan
    study: bytes = b""
    devices: list[Device] = field(default_factory=list)

    @property
    def clock(self) -> SteppedClock:
        return self.server.clock

    def report(self, device: Device, *, sequence: int = 0, slot: int = 0, count: int = 2) -> Report:
        """Make a report of some records."""
        plan = self.plan
        accumulator = SketchAccumulator(plan.statistic_of(device.device_id + b"main"))
        accumulator.add(draw_records(device, sequence, count))
        exact = plan.saturate_sum(plan.finish_sum(accumulator.sums, accumulator.n_records))
        header, message = make_message(
            plan,
            accumulator,
            study=self.study,
            plan_digest=compute_plan_digest(plan),
            device=device.device_id,
            stream="main",
            sequence=sequence,
            slots=(slot, slot),
            block=0,
            sign=device.key.sign,
            source=SystemSource(),
        )
        return Report(device=device, sketch_id=header.sketch_id.hex(), message=message, sums=exact)

    def break_seal(self, device: Device, message: SketchMessage) -> bytes:
        """Sign a report again with a seal that does not open."""
        box = message.header.sealed
        assert box is not None
        header = replace(message.header, sealed=change_bytes(box, 50))
        return encode_message(header, message.payload, device.key.sign)

    def change_payload(self, device: Device, report: Report, noise: bytes) -> bytes:
        """Sign a report again with other bytes in the place of its masked words."""
        message = decode_message(report.message)
        blind = message.payload[-32:]
        payload = noise[: len(message.payload) - 32] + blind
        return self._sign(device, message, payload)

    def shift(self, device: Device, report: Report, by: NDArray[np.int64]) -> bytes:
        """Sign a report again whose masked words are moved by a vector."""
        message, ring = decode_message(report.message), self.plan.ring
        words = read_masked(message.payload, ring=ring, n_words=self.plan.n_coordinates)
        moved = ring.encode(ring.add(words, ring.wrap(by)))
        return self._sign(device, message, moved + message.payload[-32:])

    def _sign(self, device: Device, message: SketchMessage, payload: bytes) -> bytes:
        # A device that lies seals the seed again, to the header that it changed.
        header, helper = message.header, self.plan.helper
        private = self.helper.keys.load_plan_key(header.plan_digest)
        seed = open_seal(header.sealed or b"", private, header.seal_context)
        header = replace(header, payload_digest=hashlib.sha256(payload).digest())
        header = replace(header, sealed=seal_seed(seed, helper.key, header.seal_context))
        return encode_message(header, payload, device.key.sign)

    async def enrol(self, count: int, *, first: int = 0, **labels: str) -> list[Device]:
        devices = [Device(first + number, labels) for number in range(count)]
        await self.server.desk.enrol(self.study, *devices)
        return devices

    async def upload(self, *reports: Report) -> None:
        for report in reports:
            answer = await self.server.desk.put(self.study, report.sketch_id, report.message)
            assert answer.status_code == 201, answer.text

    def end_slot(self, slot: int = 0, *, grace: int = 1) -> None:
        """Go to the time at which the batches of a slot close."""
        release = self.plan.sum_release
        assert release is not None
        _, end = self.plan.window.slot_bounds(slot)
        self.clock.seconds = end + grace * release.grace_s + 1.0

    async def close(self, slot: int = 0, *, grace: int = 1) -> None:
        """Go to that time, and let a worker do all that is due."""
        self.end_slot(slot, grace=grace)
        await self.work()

    async def work(self) -> None:
        """Let a worker do all that is due, and go on where a step failed before."""
        await self.server.services.opener.run_due()

    def wait(self, seconds: float = 400.0) -> None:
        """Let time pass: longer than the pause after a failure."""
        self.clock.seconds += seconds

    async def only(self) -> BatchRecord:
        (batch,) = await self.batches()
        return batch

    async def count_reports(self, batch: BatchRecord) -> dict[str, int]:
        async with self.server.store.begin() as transaction:
            return dict(await count_reports(transaction, batch.batch_id))

    async def sum_all(self) -> SketchTotals:
        """Return the sums that a snapshot of everything would have."""
        async with self.server.store.begin() as transaction:
            return await sum_sketches(
                transaction, self.study, Selection(), layout=Layout.of(self.plan)
            )

    async def find_faults(self) -> list[str]:
        """Return what `sfumato check-store` would find."""
        faults: list[str] = []
        async with self.server.store.begin() as transaction:
            faults += await check_sums(transaction, self.study, layout=Layout.of(self.plan))
            for found in (find_count_faults(transaction), find_orphans(transaction)):
                faults += [each async for each in found]
        return faults

    def copy_leader(self, path: Path) -> None:
        """Make a backup of the leader's database, a SQLite file."""
        self._copy(self.server.store.engine.url.database or "", str(path))

    def restore_leader(self, path: Path) -> None:
        """Put a backup in the place of the leader's database."""
        self._copy(str(path), self.server.store.engine.url.database or "")

    @staticmethod
    def _copy(source: str, target: str) -> None:
        with (
            contextlib.closing(sqlite3.connect(source)) as old,
            contextlib.closing(sqlite3.connect(target)) as new,
        ):
            old.backup(new)

    async def batches(self) -> list[BatchRecord]:
        async with self.server.store.begin() as transaction:
            found = await transaction.list_page(
                BatchRecord, study_id=self.study, after=None, limit=1000
            )
        return sorted(found, key=lambda each: (each.slot, each.part, each.number))

    async def states(self) -> list[str]:
        return [each.state for each in await self.batches()]

    def read_total(self, batch: BatchRecord) -> NDArray[np.int64]:
        words = self.plan.ring.decode(batch.sums or b"", n_words=self.plan.n_coordinates)
        return self.plan.ring.centre(words)


def make_sum_draft(**changes: Any) -> SketchPlan:
    """Return the draft of a plan whose slots begin when the tests' clocks do."""
    return make_draft(**({"epsilon": Fraction(1), "least_reports": 3} | changes))


@asynccontextmanager
async def open_pair(
    folder: Path,
    *,
    kind: str = "sqlite",
    clock: SteppedClock | None = None,
    helpers_database: str = "",
    **changes: Any,
) -> AsyncIterator[Pair]:
    """Open a leader and a helper with one study; ``changes`` are choices of its plan.

    Parameters
    ----------
    kind
        Of the leader's database.
    helpers_database
        Name of a Postgres database for the helper; a SQLite file without.
    """
    clock = clock or SteppedClock()
    clock.seconds = 1_000_000.0 + 60.0
    apart = folder / "helper"
    apart.mkdir()
    address = address_of(helpers_database).replace("+psycopg", "") if helpers_database else ""
    helper = HelperWorld(folder=apart, clock=clock, address=address)
    plan = helper.accept(make_sum_draft(**changes))
    with helper.serving():
        settings = {"helper_url": helper.url, "helper_api_key": KEY}
        async with (
            open_kind(kind, folder) as store,
            open_server(store, clock, **settings) as server,
        ):
            pair = Pair(server=server, helper=helper, plan=plan)
            pair.study = await server.desk.publish(plan)
            yield pair
    helper.database.dispose()


@pytest.fixture(params=["sqlite"])
async def pair(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Pair]:
    async with open_pair(tmp_path, kind=request.param) as opened:
        yield opened
