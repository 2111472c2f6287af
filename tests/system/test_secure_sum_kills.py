"""Both servers of a secure sum, killed between any two steps: one answer, one total, counted once.

The leader's uploads, its closing and its opening, and the helper's side of each call, are tried at
every place and, as a long exploration, at every pair of places; and with answers that get lost, and
one of the databases put back from a backup in between.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest
from sqlalchemy import make_url

from sfumato.aggregator.base.store import Store, open_store
from sfumato.aggregator.base.sums.layout import Layout
from sfumato.aggregator.base.sums.selection import Selection
from sfumato.aggregator.database.inspection import find_count_faults, find_orphans
from sfumato.aggregator.resources.batches.record import BatchRecord
from sfumato.aggregator.resources.batches.store.check import check_sums
from sfumato.aggregator.resources.batches.store.reports import count_reports
from sfumato.aggregator.resources.sketches.store.cells import sum_sketches
from sfumato.helper.tables import open_database
from tests.aggregator.batches.conftest import KEY, Pair, Report, open_pair
from tests.aggregator.batches.simulation.servers import copy_database, put_back
from tests.aggregator.databases import create_postgres, drop_postgres, find_address
from tests.forking import Forked
from tests.ports import hold_port, port_of
from tests.soak import small_and_soak

pytestmark = pytest.mark.anyio
N_DEVICES = 4
DATABASES = {"lead": "leader.db", "serve": "helper.db"}
PAUSE_S = 400.0
"""Longer than a lease, and than the pause after a failure."""
MOST_ROUNDS = 6


class Role:
    """A process that forks a child for every order."""

    def __init__(self, name: str, log: Path) -> None:
        self._errors = log.open("w")
        self.log = log
        self._process: subprocess.Popen[str] = Forked(
            [sys.executable, "-m", "tests.system.sum_victims", name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def order(self, **order: Any) -> int:
        """Give an order; return the child, or the status of one that is waited for."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(order), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        assert answer, self.log.read_text()
        return int(answer)

    def close(self) -> None:
        with self._process as process:
            assert process.stdin is not None
            process.stdin.close()
        self._errors.close()


@dataclass(frozen=True, kw_only=True)
class Misfortune:
    """What befalls the servers besides kills.

    Parameters
    ----------
    lost
        For each of the first rounds, the call of which the answer gets lost; 0 for none.
    restored
        Whose database is put back: ``lead``, ``serve`` or nobody's.
    backed_up, put_back
        After which round the backup is made (-1 is before all), and is put back.
    """

    lost: Sequence[int] = ()
    restored: str = ""
    backed_up: int = -1
    put_back: int = 0


@dataclass(kw_only=True)
class Ground:
    """The state that every schedule begins with: a study, enrolled devices, their messages."""

    kind: str
    pair: Pair
    reports: Sequence[Report]
    folder: Path
    roles: dict[str, Role]
    helpers_name: str = ""
    counter: Iterator[int] = field(default_factory=itertools.count)

    async def try_out(
        self, kills: Sequence[tuple[int, int]], misfortune: Misfortune = Misfortune()
    ) -> dict[str, list[str]]:
        """Run rounds of both servers until the batch is counted, and check what came of it.

        Parameters
        ----------
        kills
            For each of the first rounds, at which place to kill the leader and the helper; 0 for
            neither. Later rounds are left alone.
        misfortune
            With a database that is put back, on SQLite alone.

        Returns
        -------
        dict
            The places that each role passed in the first round.
        """
        folder = self.folder / f"try{next(self.counter)}"
        folder.mkdir()
        store, helpers, close = await self._copy(folder)
        held = hold_port()
        totals: set[bytes] = set()
        shown: set[bytes] = set()
        try:
            self._back_up(folder, misfortune, -1)
            for number in range(MOST_ROUNDS):
                lost = [*misfortune.lost, *[0] * MOST_ROUNDS][number]
                kill = kills[number] if number < len(kills) else (0, 0)
                run = partial(self._run_round, folder, number, kill, lost=lost)
                await anyio.to_thread.run_sync(run, find_address(store), helpers, held)
                batch = await self._read(store)
                if batch is not None and batch.sums is not None:
                    totals.add(batch.sums)
                    if batch.state == "acknowledged":
                        shown.add(batch.sums)
                self._back_up(folder, misfortune, number)
                if misfortune.restored and number == misfortune.put_back:
                    store = await self._put_back(folder, misfortune.restored, store)
                elif (
                    batch is not None
                    and batch.state == "acknowledged"
                    and (not misfortune.restored or number > misfortune.put_back)
                ):
                    break
            assert batch is not None
            if misfortune.restored:
                await self._check_restored(store, batch, shown, folder, misfortune)
            else:
                assert batch.state == "acknowledged", (kills, batch)
                await self._check(store, helpers, batch, totals, folder)
        finally:
            held.close()
            # It may be another than the one that was copied.
            await store.close()
            await close()
        names = {
            role: (folder / f"{role}-0.log").read_text().split("\n")[:-1]
            for role in ("lead", "serve")
            if (folder / f"{role}-0.log").exists()
        }
        shutil.rmtree(folder)
        return names

    @staticmethod
    def _back_up(folder: Path, misfortune: Misfortune, number: int) -> None:
        """Make the backup that is put back later, as SQLite's own backup does."""
        if misfortune.restored and number == misfortune.backed_up:
            name = DATABASES[misfortune.restored]
            copy_database(folder / name, folder / "backup.db")

    @staticmethod
    async def _put_back(folder: Path, side: str, store: Store) -> Store:
        await store.close()
        put_back(folder / "backup.db", folder / DATABASES[side])
        return open_store(f"sqlite+aiosqlite:///{folder / 'leader.db'}")

    async def _check_restored(
        self,
        store: Store,
        batch: BatchRecord,
        shown: set[bytes],
        folder: Path,
        misfortune: Misfortune,
    ) -> None:
        """Check that one total was ever shown, and that reports were opened or are lost by name."""
        answers = folder / "answers"
        # A helper that forgot before its first answer never gives one.
        lines = answers.read_text().split("\n")[:-1] if answers.exists() else []
        for state in ("answered", "acknowledged"):
            assert len({line for line in lines if line.startswith(state)}) <= 1, misfortune
        assert len(shown) <= 1, misfortune
        async with store.begin() as transaction:
            reports = await count_reports(transaction, batch.batch_id)
        if batch.state == "acknowledged":
            noise = self.pair.read_total(batch) - np.sum([r.sums for r in self.reports], axis=0)
            assert 0 < np.abs(noise).max() <= 2 * self.pair.plan.mechanism.noise_bound
            assert reports == {"opened": N_DEVICES}
        else:
            # A helper that forgot takes nothing of a slot that had begun.
            assert misfortune.restored == "serve", (misfortune, batch)
            assert reports == {"refused-burnt": N_DEVICES}, (misfortune, batch)

    def _run_round(
        self,
        folder: Path,
        number: int,
        kill: tuple[int, int],
        database: str,
        helpers: str,
        held: socket.socket,
        *,
        lost: int,
    ) -> None:
        now = self.pair.clock.seconds + PAUSE_S * number
        port = port_of(held)
        helper = self.roles["serve"].order(
            database=helpers,
            keys=str(self.folder / "keys"),
            journal=str(folder / "helper.journal"),
            port=port,
            now=now,
            kill_at=kill[1],
            log=str(folder / f"serve-{number}.log"),
        )
        wait_for_port(port, helper)
        leader = self.roles["lead"].order(
            database=database,
            url=f"http://127.0.0.1:{port}",
            key=KEY,
            identity=self.pair.plan.helper.identity.hex(),
            answers=str(folder / "answers"),
            now=now,
            uploads=[
                (self.pair.study.hex(), each.sketch_id, str(self.folder / each.sketch_id))
                for each in self.reports
            ],
            kill_at=kill[0],
            lose_at=lost,
            log=str(folder / f"lead-{number}.log"),
        )
        status = self.roles["lead"].order(wait=leader)
        assert status in (0, -signal.SIGKILL), self.roles["lead"].log.read_text()
        self.roles["serve"].order(wait=helper, kill=True)

    async def _copy(self, folder: Path) -> tuple[Store, str, Any]:
        shutil.copyfile(self.folder / "helper.journal", folder / "helper.journal")
        if self.kind == "sqlite":
            shutil.copyfile(self.folder / "leader.db", folder / "leader.db")
            shutil.copyfile(self.folder / "helper.db", folder / "helper.db")
            store = open_store(f"sqlite+aiosqlite:///{folder / 'leader.db'}")
            return store, str(folder / "helper.db"), store.close
        names = [f"sfumato_kill_{folder.name}_{side}_{time.time_ns()}" for side in ("l", "h")]
        template = make_url(find_address(self.pair.server.store)).database or ""
        await create_from(names[0], template)
        await create_from(names[1], self.helpers_name)
        store = open_store(find_address(self.pair.server.store, database=names[0]))
        helpers = find_address(self.pair.server.store, database=names[1])

        async def close() -> None:
            await store.close()
            for name in names:
                drop_postgres(name)

        return store, helpers.replace("+psycopg", ""), close

    async def _read(self, store: Store) -> BatchRecord | None:
        async with store.begin() as transaction:
            found = await transaction.list_page(
                BatchRecord, study_id=self.pair.study, after=None, limit=9
            )
        return found[0] if found else None

    async def _check(
        self, store: Store, helpers: str, batch: BatchRecord, totals: set[bytes], folder: Path
    ) -> None:
        plan = self.pair.plan
        assert len(totals) == 1
        lines = (folder / "answers").read_text().split("\n")[:-1]
        # One half ever left the helper, and the only total that it gave back is this one.
        assert len({line for line in lines if line.startswith("answered")}) <= 1
        # One line for the answer, and one for the total.
        journal = (folder / "helper.journal").read_text().split()
        kinds = [kind for kind, name in itertools.pairwise(journal) if name == batch.batch_id.hex()]
        assert kinds == ["answer", "total"]
        engine = open_database(helpers)
        with engine.connect() as connection:
            (row,) = connection.exec_driver_sql("SELECT state, body, n_reports FROM batches").all()
        engine.dispose()
        assert (row.state, bytes(row.body), row.n_reports) == (
            "acknowledged",
            batch.sums,
            N_DEVICES,
        )
        noise = self.pair.read_total(batch) - np.sum([each.sums for each in self.reports], axis=0)
        assert 0 < np.abs(noise).max() <= 2 * plan.mechanism.noise_bound
        async with store.begin() as transaction:
            found = await sum_sketches(
                transaction, self.pair.study, Selection(), layout=Layout.of(plan)
            )
            faults = await check_sums(transaction, self.pair.study, layout=Layout.of(plan))
            for finder in (find_count_faults(transaction), find_orphans(transaction)):
                faults = [*faults, *[each async for each in finder]]
        assert faults == []
        assert (found.n_sketches, found.moments.first) == (1, 2 * N_DEVICES)
        assert found.sums.tolist() == self.pair.read_total(batch).tolist()


async def create_from(name: str, template: str) -> None:
    """Make a Postgres database like another."""
    from tests.aggregator.databases import _run_on_postgres

    _run_on_postgres(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')


def wait_for_port(port: int, child: int) -> None:
    """Wait until a helper serves, or was killed before: then it is away for this round."""
    end = time.monotonic() + 60.0
    while time.monotonic() < end:
        if ") Z " in Path(f"/proc/{child}/stat").read_text():
            return
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
            return
        time.sleep(0.01)
    raise AssertionError("the helper does not serve")


@contextmanager
def running_roles(folder: Path) -> Iterator[dict[str, Role]]:
    roles = {name: Role(name, folder / f"{name}.log") for name in ("lead", "serve")}
    try:
        yield roles
    finally:
        for role in roles.values():
            role.close()


@asynccontextmanager
async def open_ground(kind: str, tmp_path: Path) -> AsyncIterator[Ground]:
    """Make the state that every schedule begins with."""
    folder = tmp_path / "ground"
    folder.mkdir()
    helpers = await create_postgres(is_empty=True) if kind == "postgres" else ""
    try:
        async with open_pair(tmp_path, kind=kind, helpers_database=helpers) as pair:
            devices = await pair.enrol(N_DEVICES)
            reports = [pair.report(device) for device in devices]
            pair.end_slot()
            for report in reports:
                (folder / report.sketch_id).write_bytes(report.message)
            shutil.copytree(pair.helper.folder / "keys", folder / "keys")
            (folder / "helper.journal").touch()
            if kind == "sqlite":
                pair.copy_leader(folder / "leader.db")
                pair._copy(str(pair.helper.folder / "helper.db"), str(folder / "helper.db"))
            # A Postgres database with connections cannot be a template.
            await pair.server.store.close()
            pair.helper.database.dispose()
            with running_roles(tmp_path) as roles:
                yield Ground(
                    kind=kind,
                    pair=pair,
                    reports=reports,
                    folder=folder,
                    roles=roles,
                    helpers_name=helpers,
                )
    finally:
        if helpers:
            drop_postgres(helpers)


def list_schedules(
    n_lead: int, n_serve: int, *, n_pairs: int | None, every: int
) -> list[list[tuple[int, int]]]:
    """Return schedules: each place of either server by itself, and pairs of places.

    Pairs are of both servers in one round, and of one server in two rounds.
    """
    singles = [[(place, 0)] for place in range(1, n_lead + 1)]
    singles += [[(0, place)] for place in range(1, n_serve + 1)]
    pairs = [[(a, b)] for a in range(1, n_lead + 1) for b in range(1, n_serve + 1)]
    pairs += [[(a, 0), (b, 0)] for a in range(1, n_lead + 1) for b in range(1, n_lead + 1)]
    pairs += [[(0, a), (0, b)] for a in range(1, n_serve + 1) for b in range(1, n_serve + 1)]
    pairs += [[(a, 0), (0, b)] for a in range(1, n_lead + 1) for b in range(1, n_serve + 1)]
    if n_pairs is not None:
        pairs = random.Random(0).sample(pairs, n_pairs)
    return singles[::every] + pairs


@small_and_soak("kind,n_pairs,every", ("sqlite", 2, 12), ("sqlite", None, 1))
async def test_one_answer_and_one_total_whenever_either_server_is_killed(
    kind: str, n_pairs: int | None, every: int, tmp_path: Path
) -> None:
    await try_schedules(kind, n_pairs, every, tmp_path)


# Each schedule makes two databases.
@small_and_soak("n_pairs,every", (0, 60), (300, 1))
async def test_so_too_on_postgres(n_pairs: int, every: int, tmp_path: Path) -> None:
    await try_schedules("postgres", n_pairs, every, tmp_path)


@small_and_soak("n_schedules", 2, 400)
async def test_so_too_with_lost_answers_and_one_database_put_back(
    n_schedules: int, tmp_path: Path
) -> None:
    rng = random.Random(n_schedules)
    async with open_ground("sqlite", tmp_path) as ground:
        names = await ground.try_out([])
        places = len(names["lead"]), len(names["serve"])
        n_calls = sum(name.startswith("before ") for name in names["lead"])
        for number in range(n_schedules):
            kills = [
                (
                    rng.choice([0, rng.randint(1, places[0])]),
                    rng.choice([0, rng.randint(1, places[1])]),
                )
                for _ in range(2)
            ]
            backed_up = rng.randint(-1, 0)
            misfortune = Misfortune(
                lost=[rng.randint(0, n_calls) for _ in range(2)],
                restored=("lead", "serve", "")[number % 3],
                backed_up=backed_up,
                put_back=rng.randint(backed_up + 1, 1),
            )
            await ground.try_out(kills, misfortune)


async def try_schedules(kind: str, n_pairs: int | None, every: int, tmp_path: Path) -> None:
    async with open_ground(kind, tmp_path) as ground:
        names = await ground.try_out([])
        n_lead, n_serve = len(names["lead"]), len(names["serve"])
        assert n_lead >= 24, names
        assert n_serve >= 9, names
        for schedule in list_schedules(n_lead, n_serve, n_pairs=n_pairs, every=every):
            await ground.try_out(schedule)
