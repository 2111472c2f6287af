"""A fleet between two servers that fail, and what must hold after each step."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import event, text

from sfumato.aggregator.base.engine import create_engine
from sfumato.aggregator.base.helper_client import HelperClient
from sfumato.aggregator.base.sums.layout import Layout
from sfumato.aggregator.base.sums.selection import Selection
from sfumato.aggregator.resources.batches.record import BatchRecord
from sfumato.aggregator.resources.batches.service.opener import BatchOpener
from sfumato.aggregator.resources.sketches.store.cells import sum_sketches
from sfumato.aggregator.services import Services
from sfumato.aggregator.settings import normalise_database_url
from sfumato.helper.keys import KeyFolder
from sfumato.shared.errors import HelperRestoredError, SketchError
from sfumato.shared.plan import compute_plan_digest
from sfumato.shared.sharing.batches import compute_members, compute_report
from sfumato.shared.sharing.masks import read_masked
from sfumato.shared.sharing.ring import Words
from sfumato.shared.wire import decode_message
from sfumato.shared.wire.sum_messages import SumAnswer
from tests.aggregator.batches.conftest import Pair
from tests.aggregator.batches.simulation.servers import (
    ORIGIN,
    SETTINGS,
    Ground,
    HelperProcess,
    MortalBatches,
    MortalStore,
    Wire,
    copy_database,
    put_back,
)
from tests.aggregator.fleet import Device
from tests.aggregator.machine.worlds import Killed

PATIENCE_S = 90_000.0
"""Longer than a batch that is over waits for its helper."""
_LIVE = ("waiting", "accepted")


@dataclass(frozen=True, kw_only=True)
class Report:
    """A report; ``words`` is its masked half, and ``mask`` what the helper adds for it."""

    device: Device
    slot: int
    sketch_id: bytes
    digest: bytes
    message: bytes
    words: Words
    mask: Words


class Clock:
    """The clock of one server: the true time, and its fault."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now, self.shift = now, 0.0

    def now(self) -> float:
        """Return the time that this server believes in."""
        return self._now() + self.shift


@dataclass
class Seen:
    """All that ever left a server, and all that was ever shown; no restore takes it back."""

    halves: dict[bytes, bytes] = field(default_factory=dict)
    """The helper's answer for a batch, by its identity."""
    members: dict[bytes, frozenset[bytes]] = field(default_factory=dict)
    """The sketches in that answer."""
    totals: dict[bytes, bytes] = field(default_factory=dict)
    """The total that was shown."""
    owners: dict[bytes, bytes] = field(default_factory=dict)
    """The batch in whose answer a sketch was."""
    spent: set[bytes] = field(default_factory=set)


class World:
    """A leader, a helper, the wire between them, and the devices.

    Parameters
    ----------
    batches, change
        The helper's code, and a change to the leader's, for planted faults.
    """

    def __init__(
        self,
        ground: Ground,
        *,
        batches: type[MortalBatches] = MortalBatches,
        change: Callable[[BatchOpener], None] = lambda _: None,
    ) -> None:
        self.ground, self._batches, self._change = ground, batches, change
        self.plan, self.study = ground.plan, ground.study
        self.folder = Path(tempfile.mkdtemp(prefix="sfumato-sum-"))
        for name in ("leader.db", "helper.db", "helper.journal"):
            shutil.copy(ground.folder / name, self.folder / name)
        shutil.copytree(ground.folder / "keys", self.folder / "keys")
        self.seconds = ORIGIN + 3700.0
        self.clocks = {side: Clock(lambda: self.seconds) for side in ("leader", "helper")}
        self.backups: dict[str, list[Path]] = {"leader": [], "helper": []}
        self.reports: dict[bytes, Report] = {}
        self.seen = Seen()
        self._found: list[str] = []
        self.is_gone = False
        self.was_forgetful = False
        """Whether a server ever forgot something, or its operator ended something."""
        self.helper: HelperProcess | None = None
        self.start_helper()
        self.wire = Wire(
            find_helper=lambda: None if self.is_gone else self.helper,
            on_death=self.start_helper,
            on_answer=self._note_answer,
            identity=self.plan.helper.identity,
        )
        self._start_leader()

    # The two processes.

    def _start_leader(self) -> None:
        engine = create_engine(normalise_database_url(str(self.folder / "leader.db")))

        @event.listens_for(engine.sync_engine, "connect")
        def hurry(connection: Any, _record: Any) -> None:
            connection.execute("PRAGMA synchronous=OFF")

        self.store = MortalStore(engine)
        self.services = Services(self.store, self.clocks["leader"], SETTINGS)
        self.services.opener.connect = lambda: HelperClient(SETTINGS, transport=self.wire)
        self._change(self.services.opener)

    async def restart_leader(self) -> None:
        """End the leader's process, and start another."""
        await self.store.close()
        self._start_leader()

    def start_helper(self) -> None:
        """End the helper's process, and start another; it does not serve if it was put back."""
        if self.helper is not None:
            self.helper.stop()
        helper = HelperProcess(self.folder, self.clocks["helper"].now, self._batches)
        try:
            helper.batches.require_up_to_date()
        except HelperRestoredError:
            helper.stop()
            self.helper = None
        else:
            self.helper = helper

    def back_up(self, side: str) -> None:
        """Make a backup of a server's database."""
        path = self.folder / f"backup-{side}-{len(self.backups[side])}.db"
        copy_database(self.folder / f"{side}.db", path)
        self.backups[side].append(path)

    async def restore_leader(self, backup: Path) -> None:
        """Put a backup in the place of the leader's database."""
        self.was_forgetful = True
        await self.store.close()
        put_back(backup, self.folder / "leader.db")
        self._start_leader()

    def restore_helper(self, backup: Path, *, is_running: bool) -> None:
        """Put a backup in the place of the helper's database, perhaps while it runs."""
        self.was_forgetful = True
        if self.helper is not None:
            self.helper.database.dispose()
        put_back(backup, self.folder / "helper.db")
        if not is_running or self.helper is None:
            self.start_helper()

    def say_restored(self) -> None:
        """Run `sfumato helper restored`."""
        if self.helper is not None:
            self.helper.stop()
        process = HelperProcess(self.folder, self.clocks["helper"].now, self._batches)
        process.batches.mark_restored()
        process.stop()
        self.helper = None
        self.start_helper()
        assert self.helper is not None

    def retire(self) -> None:
        """Run `sfumato helper retire`."""
        assert self.helper is not None
        self.was_forgetful = True
        self.helper.batches.plans.retire(compute_plan_digest(self.plan), now=self.seconds)

    def lose_the_helper(self) -> None:
        """Let the helper be gone for good."""
        self.was_forgetful = self.is_gone = True

    async def close(self) -> None:
        """Remove everything."""
        await self.store.close()
        if self.helper is not None:
            self.helper.stop()
        shutil.rmtree(self.folder)

    # Devices.

    def make_report(self, device: int, slot: int, *, kind: str = "good") -> Report:
        """Return the report of a device about a slot: the same one every time it is asked for."""
        maker = Pair(
            server=None,  # type: ignore[arg-type]
            helper=_Keys(KeyFolder(self.ground.folder / "keys")),  # type: ignore[arg-type]
            plan=self.plan,
            study=self.study,
        )
        made = maker.report(self.ground.devices[device], sequence=slot, slot=slot)
        known = self.reports.get(bytes.fromhex(made.sketch_id))
        if known is not None and kind != "other bytes":
            return known
        ring, n_words = self.plan.ring, self.plan.n_coordinates
        words = read_masked(decode_message(made.message).payload, ring=ring, n_words=n_words)
        mask = ring.subtract(ring.wrap(made.sums), words)
        if kind == "broken":
            made.message = maker.break_seal(made.device, decode_message(made.message))
        if kind == "shifted":
            shift = np.full(n_words, 1 << 30, dtype=np.int64)
            made.message = maker.shift(made.device, made, shift)
            words = ring.add(words, ring.wrap(shift))
        message = decode_message(made.message)
        return Report(
            device=made.device,
            slot=slot,
            sketch_id=message.header.sketch_id,
            digest=compute_report(message.header_bytes),
            message=made.message,
            words=words,
            mask=mask,
        )

    async def upload(self, report: Report) -> bool:
        """Send a report; return whether the leader has it."""
        try:
            await self.services.sketches.receive(self.study, report.sketch_id, report.message)
        except SketchError:
            return False
        except (Killed, asyncio.CancelledError):
            await self.restart_leader()
            return False
        self.reports[report.sketch_id] = report
        return True

    # The leader's worker.

    async def work(self, *, dies_in: int = 0) -> None:
        """Let a worker do all that is due, unless it dies."""
        self.store.dies_in = dies_in
        try:
            await self.services.opener.run_due()
        except Killed:
            await self.restart_leader()
        finally:
            self.store.dies_in = 0

    # What must hold.

    def _note_answer(self, answer: SumAnswer) -> None:
        # The leader, which waits for it, would take a failure for one of its own.
        try:
            self._check_answer(answer)
        except AssertionError as error:
            self._found.append(str(error) or repr(error))

    def _check_answer(self, answer: SumAnswer) -> None:
        batch = answer.batch_id
        if answer.state == "acknowledged":
            assert self.seen.totals.get(batch, answer.body) == answer.body, "two totals"
            return
        assert batch not in self.seen.totals or self.seen.halves[batch] == answer.body
        known = self.seen.halves.setdefault(batch, answer.body)
        assert known == answer.body, "the helper gave two answers for one batch"
        assert self.helper is not None
        with self.helper.database.connect() as connection:
            rows = connection.execute(
                text("SELECT sketch_id FROM reports WHERE batch_id = :b AND state = 'spent'"),
                {"b": batch},
            )
            found = frozenset(bytes(row[0]) for row in rows)
        held = self.seen.members.setdefault(batch, found)
        # Rows of slots that are over are removed.
        assert found in (held, frozenset())
        assert answer.count == len(held)
        for sketch_id in held:
            owner = self.seen.owners.setdefault(sketch_id, batch)
            assert owner == batch, "a report is in the answers for two batches"

    async def list_batches(self) -> list[BatchRecord]:
        """Return all batches of the leader, oldest first."""
        async with self.store.begin() as transaction:
            found = await transaction.list_page(
                BatchRecord, study_id=self.study, after=None, limit=1000
            )
        return sorted(found, key=lambda each: (each.slot, each.part, each.number))

    async def check(self) -> None:
        """Check all that must hold after each step."""
        assert not self._found, self._found
        batches = await self.list_batches()
        rows = await self._read_rows()
        by_batch: dict[bytes, list[str]] = {}
        for sketch_id, batch_id, state, has_payload in rows:
            by_batch.setdefault(batch_id, []).append(state)
            assert has_payload == (state in _LIVE), (sketch_id.hex(), state)
        noises: dict[bytes, bytes] = {}
        counted = np.zeros(self.plan.n_coordinates, dtype=np.int64)
        for batch in batches:
            states = by_batch.get(batch.batch_id, [])
            if batch.state in ("open", "closing"):
                assert batch.n_reports == sum(state in _LIVE for state in states), batch
            else:
                assert not set(states).intersection(_LIVE), batch
            if batch.state == "void":
                assert batch.reason
                # No lost, late or doubled call, no death and no wrong clock costs a report that
                # has enough others beside it.
                is_lost = batch.reason != "test" and states.count("void") >= batch.least_reports
                assert not is_lost or self.was_forgetful, batch
            if batch.sums is not None:
                self._check_total(batch, noises)
            if batch.standing == "counted":
                counted += self._read_total(batch)
        async with self.store.begin() as transaction:
            layout = Layout.of(self.plan)
            found = await sum_sketches(transaction, self.study, Selection(), layout=layout)
        assert found.sums.tolist() == counted.tolist()
        self._check_spent()

    def _check_total(self, batch: BatchRecord, noises: dict[bytes, bytes]) -> None:
        """Check that a total is the exact sum of its reports, and one noise of each server."""
        ring, bound = self.plan.ring, self.plan.mechanism.noise_bound
        assert batch.batch_id in self.seen.halves, "a total without an answer"
        members = [self.reports[each] for each in self.seen.members[batch.batch_id]]
        assert compute_members(each.digest for each in members) == batch.members
        assert len(members) == batch.n_reports
        assert batch.n_records == 2 * len(members)
        half = ring.decode(self.seen.halves[batch.batch_id], n_words=self.plan.n_coordinates)
        helpers = ring.centre(ring.subtract(half, ring.add(*(each.mask for each in members))))
        masked = ring.add(half, *(each.words for each in members))
        total = ring.wrap(self._read_total(batch))
        leaders = ring.centre(ring.subtract(total, masked))
        for noise in (helpers, leaders):
            assert 0 < np.abs(noise).max() <= bound
            owner = noises.setdefault(noise.tobytes(), batch.batch_id + bytes([noise is leaders]))
            assert owner == batch.batch_id + bytes([noise is leaders]), "a noise is used twice"
        if batch.state == "acknowledged":
            shown = self.seen.totals.setdefault(batch.batch_id, batch.sums or b"")
            assert shown == batch.sums, "two totals of one batch were shown"

    def _read_total(self, batch: BatchRecord) -> NDArray[np.int64]:
        words = self.plan.ring.decode(batch.sums or b"", n_words=self.plan.n_coordinates)
        return self.plan.ring.centre(words)

    def _check_spent(self) -> None:
        if self.helper is None:
            return
        with suppress(HelperRestoredError):
            # Whoever was put back while it ran takes nothing.
            self.helper.batches.require_up_to_date()
            with self.helper.database.connect() as connection:
                rows = connection.execute(text("SELECT sketch_id, state, seed FROM reports")).all()
            for row in rows:
                sketch_id = bytes(row.sketch_id)
                assert (row.seed is not None) == (row.state == "accepted")
                if row.state == "spent":
                    self.seen.spent.add(sketch_id)
                else:
                    assert sketch_id not in self.seen.spent, "a spent report is unspent"

    async def _read_rows(self) -> list[tuple[bytes, bytes, str, bool]]:
        async with self.store.begin() as transaction:
            rows = await transaction.connection.execute(
                text("SELECT sketch_id, batch_id, state, payload IS NOT NULL FROM sketches")
            )
            return [(bytes(r[0]), bytes(r[1]), str(r[2]), bool(r[3])) for r in rows]

    # The end: nothing waits for ever.

    async def settle(self) -> None:
        """Let the faults end, and time pass, and operators do what is documented."""
        for clock in self.clocks.values():
            clock.shift = 0.0
        self.wire.fates = []
        await self.restart_leader()
        if self.helper is None or not self._is_up_to_date():
            self.say_restored()
        for call in self.wire.delayed:
            with suppress(Exception):
                await self.wire.deliver(call)
        self.wire.delayed = []
        # Agents send again what a server has forgotten.
        for report in list(self.reports.values()):
            await self.upload(report)
        for _ in range(8):
            self.seconds += 2000.0
            await self.work()
            await self.check()
        batches = await self.list_batches()
        self.seconds = max([self.seconds, *(each.expires for each in batches)]) + PATIENCE_S
        for _ in range(2):
            self.seconds += 400.0
            await self.work()
        await self.check()
        for batch in await self.list_batches():
            if batch.state == "opened":
                assert self.is_gone, batch
                await self.services.batches.give_up(
                    self.study, batch.batch_id, reason="the helper is gone"
                )
        await self.check()
        left = [batch for batch in await self.list_batches() if batch.state not in ENDS]
        assert not left, [(batch.state, batch.problem) for batch in left]
        assert all(state not in _LIVE for _, _, state, _ in await self._read_rows())

    def _is_up_to_date(self) -> bool:
        assert self.helper is not None
        try:
            self.helper.batches.require_up_to_date()
        except HelperRestoredError:
            return False
        return True


ENDS = ("acknowledged", "void")


@dataclass
class _Keys:
    keys: KeyFolder
