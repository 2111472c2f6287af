"""Servers over one database, the model beside them, and what must hold after every step."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx
import numpy as np
from fastapi import FastAPI
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant

from sfumato.aggregator.app import create_app
from sfumato.aggregator.base.sums.layout import Layout
from sfumato.aggregator.base.sums.selection import Selection
from sfumato.aggregator.resources.sketches.store.cells import sum_sketches
from sfumato.aggregator.resources.studies.record import StudyRecord
from sfumato.aggregator.services import Services
from sfumato.aggregator.settings import Settings
from sfumato.learning.estimate.limbs import join_limbs
from sfumato.shared.wire import encode_payload
from tests.aggregator.fleet import Desk, make_plan
from tests.aggregator.machine.model import DEVICES, Model, Release, sum_releases
from tests.aggregator.machine.worlds import Fate, KillableStore, Killed, World
from tests.aggregator.serving import SteppedClock

T = TypeVar("T")

PAYLOAD_S = 86_400.0
N_REPLICAS = 2
N_ENROLLED = 3
STREAMS = ("day", "night")
LABELS: tuple[dict[str, str], ...] = ({}, {"site": "north"}, {"site": "south"})
fates: st.SearchStrategy[Fate] = st.sampled_from(
    ["none", "none", "none", "before commit", "after commit"]
)
which = st.integers(0, 30)
"""Picks one of a list, whatever its length."""
replicas = st.integers(0, N_REPLICAS - 1)
devices = st.integers(0, len(DEVICES) - 1)
# No example may be slowed down by a rate; other tests are about those.
_RATES = {"device_rate": 1e6, "device_burst": 10**6, "key_rate": 1e6, "key_burst": 10**6}
_SETTINGS = Settings(n_workers=0, payload_days=PAYLOAD_S / 86_400.0, **_RATES)  # type: ignore[arg-type]


@dataclass
class Replica:
    """One process: an application with its own connections and caches."""

    app: FastAPI
    store: KillableStore
    desk: Desk

    @classmethod
    def start(cls, world: World, clock: SteppedClock, keys: tuple[str, str]) -> Replica:
        store = world.connect()
        app = create_app(_SETTINGS, store=store, clock=clock)
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=True)
        http = httpx.AsyncClient(transport=transport, base_url="http://aggregator")
        return cls(app, store, Desk(http, *keys))

    @property
    def services(self) -> Services:
        services: Services = self.app.state.services
        return services

    @contextmanager
    def meeting(self, fate: Fate) -> Iterator[None]:
        """Let the process be killed around its next commit."""
        self.store.fate = fate
        try:
            yield
        finally:
            self.store.fate = "none"

    async def put(self, study: bytes, sketch: str, body: bytes, fate: Fate = "none") -> int | None:
        """Upload, and return the status; None if the process was killed meanwhile."""
        with self.meeting(fate):
            try:
                return (await self.desk.put(study, sketch, body)).status_code
            except (Killed, asyncio.CancelledError):  # the latter is who waited for a batch
                return None

    async def stop(self) -> None:
        await self.desk.http.aclose()
        await self.store.close()


def _report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Report what went wrong unseen, but for processes that were killed."""
    if not isinstance(context.get("exception"), Killed):
        loop.default_exception_handler(context)


class Harness(RuleBasedStateMachine):
    """The parts that rules work on.

    Devices live outside the server: what they have released stays released though the server is put
    back to an older state.
    """

    make_world: Callable[[], World]
    plan = make_plan(n_frequencies=64)

    def __init__(self) -> None:
        super().__init__()
        self._runner = asyncio.Runner()
        self._runner.get_loop().set_exception_handler(_report)
        self.clock = SteppedClock()
        self.now_slot = int(self.clock.now()) // self.plan.window.length_s
        self.world = type(self).make_world()
        self.model = Model()
        self.replicas: list[Replica] = []
        self.released: list[Release] = []
        self.outbox: list[Release] = []
        self.n_coordinates_used = 0

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end."""
        return self._runner.run(work)

    @initialize()
    def open_study(self) -> None:
        """Begin with a study, its operator and some enrolled devices."""
        self.run(self._open())

    async def _open(self) -> None:
        await self.world.open()
        first = Replica.start(self.world, self.clock, ("", ""))
        operator, _ = await first.services.keys.create(name="op", scope="operator")
        analyst, _ = await first.services.keys.create(name="ana", scope="analyst")
        await first.stop()
        self.keys = (operator, analyst)
        self.replicas = [self.start() for _ in range(N_REPLICAS)]
        self.study = await self.replicas[0].desk.publish(self.plan)
        await self.replicas[0].desk.enrol(self.study, *DEVICES[:N_ENROLLED])
        self.model.enrolled |= set(range(N_ENROLLED))

    def start(self) -> Replica:
        return Replica.start(self.world, self.clock, self.keys)

    async def restart(self, number: int) -> None:
        """End a process and start another in its place."""
        await self.replicas[number].stop()
        self.replicas[number] = self.start()

    async def is_done(self, number: int, fate: Fate, work: Coroutine[Any, Any, None]) -> bool:
        """Let a process do something, or be killed; return whether its first commit is there."""
        try:
            with self.replicas[number].meeting(fate):
                await work
        except Killed:
            await self.restart(number)
            return fate == "after commit"
        return True

    def teardown(self) -> None:
        """Remove everything."""
        self.run(self._close())
        self._runner.close()

    async def _close(self) -> None:
        for replica in self.replicas:
            await replica.stop()
        if self.replicas:
            await self.world.close()

    @property
    def url(self) -> str:
        """The address of the study."""
        return f"/v1/studies/{self.study.hex()}"

    @property
    def can_release(self) -> bool:
        """Whether a coordinate is left that no sketch has."""
        return self.n_coordinates_used < self.plan.n_coordinates

    def pick(self, items: Sequence[T], number: int) -> T:
        """Return one of a list."""
        return items[number % len(items)]

    def make_release(
        self, device: int, stream: str, sequence: int, slots: tuple[int, int]
    ) -> Release:
        """Make a sketch that adds 1 at a coordinate that no other has; its size is its own too."""
        coordinate = self.n_coordinates_used
        self.n_coordinates_used += 1
        n_records = 500 + coordinate
        values = np.zeros(self.plan.n_coordinates, dtype=np.int64)
        values[coordinate] = 1
        message = DEVICES[device].message(
            self.study,
            self.plan,
            payload=encode_payload(values, self.plan.payload_width),
            stream=stream,
            sequence=sequence,
            slots=slots,
            n_records=n_records,
        )
        return Release(device, stream, sequence, slots, n_records, coordinate, *message)

    def expect(self, release: Release) -> int:
        """Return the status that an upload should be answered with now."""
        return self.model.expect(release, self.clock.now())

    def make_selection(
        self, first: int | None, last: int | None, labels: dict[str, str]
    ) -> Selection:
        """Return a selection whose ends are those of sketches."""
        ends = sorted({slot for r in self.stored() for slot in r.slots}) or [0]
        bounds = [None if end is None else self.pick(ends, end) for end in (first, last)]
        if None not in bounds:
            bounds.sort(key=lambda end: end or 0)
        return Selection(first_slot=bounds[0], last_slot=bounds[1], labels=labels)

    def replace_release(self, release: Release, by: Release) -> None:
        """Put another in the place of a release, so that which was first changes no later pick."""
        self.released[self.released.index(release)] = by

    def stored(self) -> list[Release]:
        """Return what is stored."""
        return list(self.model.stored.values())

    @invariant()
    def sums_are_exact(self) -> None:
        """Every sketch is in the sum once, and the cells are the sums of the rows."""
        if self.replicas:
            self.run(self._check())

    async def _check(self) -> None:
        services = self.replicas[0].services
        async with services.store.begin() as transaction:
            found = await sum_sketches(
                transaction, self.study, Selection(), layout=Layout.of(self.plan)
            )
            study = await transaction.get(StudyRecord, self.study)
        counted = self.model.select(Selection())
        assert {
            "sums": found.sums.tolist(),
            "size_sums": join_limbs(found.size_sums),
            "moments": found.moments,
            "n_devices": found.n_devices,
            "members": found.members,
        } == sum_releases(counted, self.plan.n_coordinates)
        assert study is not None
        assert study.n_sketches == len(counted)
        assert study.n_records == sum(release.n_records for release in counted)
        assert await services.merger.check(self.study) == []
