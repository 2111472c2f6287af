"""Both servers of a secure sum in one process, and the wire between them, which may fail."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

import httpx
from sqlalchemy import Connection, Engine, Row, event

import sfumato.aggregator.resources.studies.service.studies as studies_module
from sfumato.aggregator.base.engine import create_engine
from sfumato.aggregator.base.helper_client import HelperClient
from sfumato.aggregator.base.store import Store
from sfumato.aggregator.base.transaction import Transaction
from sfumato.aggregator.settings import Settings, normalise_database_url
from sfumato.helper.acceptance import Plans
from sfumato.helper.app import create_app, hash_key
from sfumato.helper.batches import Batches
from sfumato.helper.journal import Journal
from sfumato.helper.keys import KeyFolder
from sfumato.helper.tables import leader_keys, open_database, write
from sfumato.shared.plan import SketchPlan
from sfumato.shared.system import SystemSource
from sfumato.shared.wire.sum_messages import CommitRequest, SumAnswer
from tests.aggregator.batches.conftest import HOUR, KEY, make_sum_draft
from tests.aggregator.databases import copy_sqlite
from tests.aggregator.fleet import Device
from tests.aggregator.machine.worlds import Killed
from tests.aggregator.serving import SteppedClock, open_server

Fate = Literal["none", "lose request", "lose answer", "repeat", "delay"]
N_DEVICES = 6
ORIGIN = 1_000_000
SETTINGS = Settings(
    n_workers=0,
    helper_url="http://127.0.0.1:1",
    helper_api_key=KEY,
    device_rate=1e6,
    device_burst=10**6,
)


class MortalStore(Store):
    """A store whose process dies at a numbered place: in, or just after, a writing transaction."""

    dies_in = 0

    @asynccontextmanager
    async def begin(self, *, write: bool = False) -> AsyncIterator[Transaction]:
        """Open a transaction."""
        async with super().begin(write=write) as transaction:
            yield transaction
            if write:
                self._pass_by()
        if write:
            self._pass_by()

    def _pass_by(self) -> None:
        self.dies_in -= 1
        if self.dies_in == 0:
            raise Killed


@dataclass(kw_only=True)
class MortalBatches(Batches):
    """The helper's batches, in a process that dies at a numbered place."""

    dies_in: int = 0

    def _store(self, *about: Any) -> Any:
        stored = super()._store(*about)
        self._pass_by()
        return stored

    def _answer(self, connection: Connection, batch: Row[Any], request: CommitRequest) -> None:
        super()._answer(connection, batch, request)
        self._pass_by()

    def write_journal(self, batch: Row[Any]) -> None:
        self._pass_by()
        super().write_journal(batch)
        self._pass_by()

    def _pass_by(self) -> None:
        self.dies_in -= 1
        if self.dies_in == 0:
            raise Killed


class HelperProcess:
    """A helper's process over the files of a folder.

    Raises
    ------
    HelperRestoredError
        Its database is older than its journal.
    """

    def __init__(
        self, folder: Path, now: Callable[[], float], kind: type[MortalBatches] = MortalBatches
    ) -> None:
        self.database = open_hasty(folder / "helper.db")
        keys = KeyFolder(folder / "keys")
        self.batches = kind(
            database=self.database,
            plans=Plans(database=self.database, keys=keys),
            journal=Journal.open(folder / "helper.journal"),
            identity=keys.load_identity(),
            source=SystemSource(),
            now=now,
        )
        self.app = create_app(self.database, self.batches, version="0", step_s=1e-6)

    def stop(self) -> None:
        """Let go of everything."""
        self.database.dispose()


def open_hasty(path: Path) -> Engine:
    """Open a helper's database that does not wait for the disk: no machine loses power here."""
    engine = open_database(str(path))

    @event.listens_for(engine, "connect")
    def hurry(connection: Any, _record: Any) -> None:
        connection.execute("PRAGMA synchronous=OFF")

    engine.dispose()
    return engine


@dataclass
class Wire(httpx.AsyncBaseTransport):
    """Carries calls to whatever helper there is, each with its fate; notes what leaves a helper."""

    find_helper: Callable[[], HelperProcess | None]
    on_death: Callable[[], None]
    on_answer: Callable[[SumAnswer], None]
    identity: bytes
    fates: list[Fate] = field(default_factory=list)
    delayed: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Carry a call."""
        body = await request.aread()
        headers = {
            name: request.headers[name]
            for name in ("authorization", "content-type")
            if name in request.headers
        }
        call = (request.method, str(request.url), headers, body)
        fate = self.fates.pop(0) if self.fates else "none"
        if fate == "lose request":
            raise httpx.ConnectTimeout("lost")
        if fate == "delay":
            self.delayed.append(call)
            raise httpx.ReadTimeout("delayed")
        answer = await self.deliver(call)
        if fate == "repeat":
            await self.deliver(call)
        if fate == "lose answer":
            raise httpx.ReadTimeout("lost")
        return answer

    async def deliver(self, call: tuple[str, str, dict[str, str], bytes]) -> httpx.Response:
        """Let a call reach the helper."""
        method, url, headers, body = call
        helper = self.find_helper()
        if helper is None:
            raise httpx.ConnectError("no helper")
        transport = httpx.ASGITransport(app=helper.app)
        request = httpx.Request(method, url, headers=headers, content=body)
        try:
            answer = await transport.handle_async_request(request)
            content = await answer.aread()
        except Killed:
            self.on_death()
            raise httpx.ReadError("the helper died") from None
        if url.endswith("/commit") and answer.is_success:
            self.on_answer(SumAnswer.decode(content, self.identity))
        return httpx.Response(answer.status_code, headers=answer.headers, content=content)


@dataclass(frozen=True, kw_only=True)
class Ground:
    """The files that every example begins with, their plan and their study."""

    folder: Path
    plan: SketchPlan
    study: bytes
    devices: tuple[Device, ...]


async def make_ground() -> Ground:
    """Make a study with enrolled devices at a leader, and its plan at a helper."""
    folder = Path(tempfile.mkdtemp(prefix="sfumato-sum-ground-"))
    clock = SteppedClock()
    clock.seconds = ORIGIN + 60.0
    keys = KeyFolder(folder / "keys")
    keys.make_identity()
    (folder / "helper.journal").touch()
    helper = HelperProcess(folder, clock.now)
    with write(helper.database) as connection:
        row = {"key_hash": hash_key(KEY), "name": "leader", "created": 0.0}
        connection.execute(leader_keys.insert().values(**row))
    draft = make_sum_draft(
        n_frequencies=6, least_reports=2, most_reports=4, grace_s=HOUR, late_s=6 * HOUR
    )
    plan = helper.batches.plans.accept(draft, name="A helper", now=0.0)
    await copy_sqlite(folder / "leader.db")
    store = Store(create_engine(normalise_database_url(str(folder / "leader.db"))))
    devices = tuple(Device(number, {}) for number in range(N_DEVICES))
    connect = partial(HelperClient, transport=httpx.ASGITransport(app=helper.app))
    with patch.object(studies_module, "HelperClient", connect):
        async with open_server(store, clock, **_changed(SETTINGS)) as server:
            study = await server.desk.publish(plan)
            await server.desk.enrol(study, *devices)
    await store.close()
    helper.stop()
    return Ground(folder=folder, plan=plan, study=study, devices=devices)


def _changed(settings: Settings) -> dict[str, Any]:
    return {"helper_url": settings.helper_url, "helper_api_key": settings.helper_api_key}


def copy_database(source: Path, target: Path) -> None:
    """Copy a SQLite file while it is in use, as SQLite's own backup does."""
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new)


def put_back(backup: Path, path: Path) -> None:
    """Put a backup in a database's place."""
    for each in path.parent.glob(f"{path.name}*"):
        each.unlink()
    shutil.copy(backup, path)
