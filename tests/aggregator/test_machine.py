"""Whatever happens, in whatever order: each sketch is in the sum exactly once."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from typing import Any
from unittest.mock import ANY as ALWAYS

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.errors import FlakyFailure, FlakyStrategyDefinition
from hypothesis.stateful import RULE_MARKER, run_state_machine_as_test
from sqlalchemy import delete, insert, select, update

from sfumato.aggregator.job_records import JobRecord
from sfumato.aggregator.records import ExcludedSketches, RetiredKeyRecord, Selection, SketchRecord
from sfumato.aggregator.services.sketches.storing import Upload, UploadWriter
from sfumato.aggregator.storage import Transaction
from sfumato.aggregator.storage.models import Device, LeavingDevice, PendingSketch, Sketch
from sfumato.aggregator.storage.sums.cells import Cell
from sfumato.aggregator.storage.sums.layout import Layout
from sfumato.aggregator.storage.sums.leaving import Removal
from tests.aggregator.databases import open_postgres
from tests.aggregator.machine.batches import BatchRules
from tests.aggregator.machine.decodes import DecodeRules
from tests.aggregator.machine.guests import GuestRules
from tests.aggregator.machine.harness import STREAMS, Harness
from tests.aggregator.machine.keys import KeyRules
from tests.aggregator.machine.operations import OperationRules
from tests.aggregator.machine.replicas import PLANS
from tests.aggregator.machine.uploads import UploadRules
from tests.aggregator.machine.worlds import KillableStore, Killed, PostgresWorld, SqliteWorld, World
from tests.soak import small_and_soak


class DecodingMachine(UploadRules, OperationRules, DecodeRules):
    """Fewer rules, so that decodes are seen through more often."""


class ExcludingMachine(UploadRules, OperationRules):
    """Fewer rules, so that devices are excluded and leave more often."""


class KeyMachine(UploadRules, KeyRules):
    """Fewer rules, so that keys are changed more often."""


class GuestMachine(UploadRules, GuestRules):
    """Fewer rules, so that studies are withdrawn more often."""


class BatchMachine(BatchRules):
    """Fewer rules, so that uploads meet more often."""


class Machine(BatchRules, KeyRules, OperationRules, GuestRules, DecodeRules):
    """All rules together."""


def keep_rules(rules: type[Harness], *names: str) -> type[Harness]:
    """Return a machine with these of its rules alone."""
    known = [name for name, value in inspect.getmembers(rules) if hasattr(value, RULE_MARKER)]
    assert set(names) <= set(known)
    return type(rules.__name__, (rules,), {name: None for name in known if name not in names})


LeaseMachine = keep_rules(
    DecodingMachine, "enrol", "release", "send", "pass_a_window", "ask", "take", "answer",
    "let_time_pass",
)  # fmt: skip
"""So few rules that leases run out often."""


def run_machine(
    make_world: Callable[[], World],
    *,
    n_examples: int,
    rules: type[Harness] = Machine,
    first: int | None = None,
    **changes: Any,
) -> None:
    """Run examples over a kind of world."""
    kind = type("MachineOver", (rules,), {"make_world": staticmethod(make_world)})
    kind = kind if first is None else seed(first)(kind)
    chosen: dict[str, Any] = {
        "max_examples": n_examples,
        "stateful_step_count": 60,
        "derandomize": True,
        "database": None,
        "deadline": None,
        "suppress_health_check": list(HealthCheck),
    }
    run_state_machine_as_test(kind, settings=settings(**(chosen | changes)))


def search_faults(make_world: Callable[[], World], rules: type[Harness], *, soon: int) -> None:
    """Run many short explorations, for each long one begins with its smallest examples.

    The one of the seed ``soon`` is run before all others. An assertion that failed once counts as
    found: which requests share a batch is for the clock to say, and may differ the second time.
    """
    for first in [soon, *range(40)]:
        try:
            run_machine(
                make_world, n_examples=12, rules=rules, first=first, phases=[Phase.generate]
            )
        except FlakyFailure as found:
            _, others = found.split(AssertionError)
            if others is not None:
                raise
            raise AssertionError("was found, and not again when repeated") from found


def require_postgres() -> None:
    """Skip the test where no Postgres answers."""

    async def look() -> None:
        async with open_postgres():
            return

    asyncio.run(look())


class CountsReplays(Transaction):
    """Does not find again what is merged, and so adds it once more."""

    async def get_sketches(self, sketch_ids: Collection[bytes]) -> Mapping[bytes, SketchRecord]:
        found = await super().get_sketches(sketch_ids)
        rows = await self.connection.execute(select(PendingSketch.sketch_id))
        waiting = set(rows.scalars())
        return {key: record for key, record in found.items() if key in waiting}

    async def list_neighbours(self, places: Sequence[tuple[bytes, str, int]]) -> Any:
        return await Transaction(self.connection).list_neighbours(places)

    async def add_sketches(self, sketches: Sequence[tuple[SketchRecord, bytes]]) -> None:
        known = await Transaction(self.connection).get_sketches([r.sketch_id for r, _ in sketches])
        fresh = [one for one in sketches if one[0].sketch_id not in known]
        if fresh:
            await super().add_sketches(fresh)
        waiting = [{"sketch_id": r.sketch_id, "study_id": r.study_id} for r, _ in sketches]
        await self.connection.execute(insert(PendingSketch).prefix_with("OR IGNORE"), waiting)


class ForgetsExclusion(Transaction):
    """Marks a device, and leaves its sketches in the sums."""

    async def exclude_device(
        self, device_id: bytes, *, now: float, reason: str
    ) -> ExcludedSketches | None:
        marked = update(Device).where(Device.device_id == device_id)
        await self.connection.execute(marked.values(excluded=now, reason=reason))
        return await self.count_excluded(device_id)


class ShowsWhatLeaves(Transaction):
    """Forgets to subtract what cells hold of excluded devices."""

    async def _subtract_leaving(
        self, study_id: bytes, selection: Selection, total: Cell, layout: Layout
    ) -> Cell:
        return total


class DropsWhatLeaves(Transaction):
    """Drops old payloads that are to be subtracted still."""

    async def drop_payloads(self, *, received_before: float, most: int) -> int:
        leaving = Sketch.device_id.in_(select(LeavingDevice.device_id))
        old = update(Sketch).where(Sketch.received < received_before, leaving)
        await self.connection.execute(old.values(payload=None))
        return await super().drop_payloads(received_before=received_before, most=most)


class ForgetsTheRest(Transaction):
    """Takes one batch out, and believes that it was all."""

    async def apply_removal(self, prepared: Removal) -> int:
        n_removed = await super().apply_removal(prepared)
        await self.connection.execute(delete(LeavingDevice))
        return n_removed


class DropsWhatWaits(Transaction):
    """Drops the payloads of sketches that are in no cell yet."""

    async def drop_payloads(self, *, received_before: float, most: int) -> int:
        await super().drop_payloads(received_before=received_before, most=most)
        await self.connection.execute(delete(PendingSketch))
        return 0


class StoresLateAnswers(Transaction):
    """Lets a worker answer that lost its lease."""

    async def finish_job(
        self, kind: type[JobRecord], job_id: bytes, token: bytes, **ended: Any
    ) -> bool:
        job = await self.get_job(kind, job_id)
        held = token if job is None else job.lease_token or token
        return await super().finish_job(kind, job_id, held, **ended)


class TrustsOtherBytes(Transaction):
    """Takes whatever comes under a known identity for the same sketch."""

    async def get_sketches(self, sketch_ids: Collection[bytes]) -> Mapping[bytes, SketchRecord]:
        found = await super().get_sketches(sketch_ids)
        return {key: _Agreeable(**asdict(record)) for key, record in found.items()}


class ForgetsMarks(Transaction):
    """Lets a retired key verify whatever it signs."""

    async def list_retired_keys(self, device_id: bytes) -> Sequence[RetiredKeyRecord]:
        known = await super().list_retired_keys(device_id)
        everything = dict.fromkeys(STREAMS, 1 << 40)
        return [replace(key, last_sequences=everything) for key in known]


class KeepsWithdrawn(Transaction):
    """Removes nothing of what a withdrawn study held."""

    async def purge_withdrawn(self, *, most: int) -> int:
        return 0


class _Agreeable(SketchRecord):
    """Says that it has any payload and any header."""

    def __getattribute__(self, name: str) -> Any:
        return ALWAYS if name in ("payload_digest", "header") else super().__getattribute__(name)


def make_faulty(kind: type[Transaction]) -> type[KillableStore]:
    """Return a store whose transactions have a fault."""

    class FaultyStore(KillableStore):
        @asynccontextmanager
        async def begin(self, *, write: bool = False) -> AsyncIterator[Transaction]:
            async with super().begin(write=write) as transaction:
                yield kind(transaction.connection)

    return FaultyStore


class LosesOnCrash(KillableStore):
    """Takes back rows after a crash, and forgets what waited for a cell."""

    @asynccontextmanager
    async def begin(self, *, write: bool = False) -> AsyncIterator[Transaction]:
        was_dead = self.is_dead
        try:
            async with super().begin(write=write) as transaction:
                yield transaction
        except Killed:
            if not was_dead:
                async with self.engine.begin() as connection:
                    await connection.execute(delete(PendingSketch))
            raise


# What a fault needs to be found is drawn; one shows in every run that the machine finds any.
@small_and_soak(
    "faults",
    [(make_faulty(CountsReplays), UploadRules, 1)],
    [
        (LosesOnCrash, DecodingMachine, 0),
        (make_faulty(CountsReplays), UploadRules, 0),
        (make_faulty(ForgetsExclusion), DecodingMachine, 0),
        (make_faulty(ShowsWhatLeaves), ExcludingMachine, 0),
        (make_faulty(DropsWhatLeaves), ExcludingMachine, 0),
        (make_faulty(ForgetsTheRest), ExcludingMachine, 0),
        (make_faulty(DropsWhatWaits), DecodingMachine, 0),
        (make_faulty(StoresLateAnswers), LeaseMachine, 0),
        (make_faulty(TrustsOtherBytes), UploadRules, 0),
        (make_faulty(ForgetsMarks), KeyMachine, 0),
        (make_faulty(KeepsWithdrawn), GuestMachine, 0),
    ],
)
def test_a_store_with_a_fault_is_found_out(
    faults: list[tuple[type[KillableStore], type[Harness], int]],
) -> None:
    for make, rules, soon in faults:
        # A fault that shows only sometimes lets hypothesis draw other steps when it repeats some.
        with pytest.raises((AssertionError, FlakyStrategyDefinition)):
            search_faults(lambda make=make: SqliteWorld(make), rules, soon=soon)  # type: ignore[misc]


async def refuse_together(
    self: UploadWriter, uploads: Sequence[Upload]
) -> Sequence[bool | Exception]:
    """Let one refusal be that of the whole batch."""
    async with self._store.begin(write=True) as transaction:
        judged = await self._store_all(transaction, uploads)
        for verdict in judged:
            if isinstance(verdict, Exception):
                raise verdict
    return judged


async def answer_early(self: UploadWriter, uploads: Sequence[Upload]) -> Sequence[bool | Exception]:
    """Answer what the transaction would have stored, though it was never committed."""
    judged: Sequence[bool | Exception] | None = None
    try:
        async with self._store.begin(write=True) as transaction:
            judged = await self._store_all(transaction, uploads)
    except Killed:
        if judged is None:
            raise
    return judged


@pytest.mark.soak
@pytest.mark.parametrize("fault", [refuse_together, answer_early])
def test_a_fault_of_group_commits_is_found_out(
    fault: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(UploadWriter, "_store_batch", fault)
    with pytest.raises(AssertionError):
        search_faults(SqliteWorld, BatchMachine, soon=0)


LONG = {"n_examples": 200, "stateful_step_count": 100, "derandomize": False}
"""Newly drawn each time."""


@small_and_soak("choices", {"n_examples": 5}, LONG)
def test_each_sketch_is_counted_once_in_sqlite(choices: dict[str, Any]) -> None:
    run_machine(SqliteWorld, **choices)


@small_and_soak("choices", {"n_examples": 2, "stateful_step_count": 40}, LONG)
@pytest.mark.parametrize("statistic", ["histogram", "grid", "moments"])
def test_so_it_is_under_every_other_statistic(statistic: str, choices: dict[str, Any]) -> None:
    rules = type("OtherMachine", (ExcludingMachine,), {"plan": PLANS[statistic]})
    run_machine(SqliteWorld, rules=rules, **choices)


@small_and_soak("choices", {"n_examples": 2}, LONG)
def test_each_sketch_is_counted_once_in_postgres(choices: dict[str, Any]) -> None:
    require_postgres()
    run_machine(PostgresWorld, **choices)
