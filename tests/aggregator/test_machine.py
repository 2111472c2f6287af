"""Whatever happens, in whatever order: each sketch is in the sum exactly once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.errors import FlakyFailure, FlakyStrategyDefinition
from hypothesis.stateful import run_state_machine_as_test
from sqlalchemy import delete, insert, select

from sfumato.aggregator.records import Selection, SketchRecord
from sfumato.aggregator.services.sketches.writer import Upload, UploadWriter
from sfumato.aggregator.storage import Transaction
from sfumato.aggregator.storage.sums.cells import Cell
from sfumato.aggregator.storage.sums.layout import Layout
from sfumato.aggregator.storage.tables import PENDING_SKETCHES
from tests.aggregator.databases import create_postgres, drop_postgres
from tests.aggregator.machine.harness import Harness
from tests.aggregator.machine.operations import OperationRules
from tests.aggregator.machine.uploads import BatchRules, UploadRules
from tests.aggregator.machine.worlds import KillableStore, Killed, PostgresWorld, SqliteWorld, World
from tests.soak import small_and_soak

R = TypeVar("R")


class ExcludingMachine(UploadRules, OperationRules):
    """Fewer rules, so that devices are excluded and leave more often."""


class Machine(BatchRules, OperationRules):
    """All rules together."""


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


class CountsReplays(Transaction):
    """Does not find again what is merged, and so adds it once more."""

    async def get_many(
        self, kind: type[R], keys: Collection[bytes], *, lock: bool = False
    ) -> Mapping[bytes, R]:
        found = await super().get_many(kind, keys, lock=lock)
        if kind is not SketchRecord:
            return found
        rows = await self.connection.execute(select(PENDING_SKETCHES.c.sketch_id))
        waiting = set(rows.scalars())
        return {key: record for key, record in found.items() if key in waiting}

    async def list_neighbours(self, places: Sequence[tuple[bytes, str, int]]) -> Any:
        return await Transaction(self.connection).list_neighbours(places)

    async def add_sketches(self, sketches: Sequence[tuple[SketchRecord, bytes]]) -> None:
        ids = [record.sketch_id for record, _ in sketches]
        known = await Transaction(self.connection).get_many(SketchRecord, ids)
        fresh = [one for one in sketches if one[0].sketch_id not in known]
        if fresh:
            await super().add_sketches(fresh)
        waiting = [{"sketch_id": r.sketch_id, "study_id": r.study_id} for r, _ in sketches]
        await self.connection.execute(insert(PENDING_SKETCHES).prefix_with("OR IGNORE"), waiting)


class ShowsWhatLeaves(Transaction):
    """Forgets to subtract what cells hold of excluded devices."""

    async def _subtract_leaving(
        self, study_id: bytes, selection: Selection, total: Cell, layout: Layout
    ) -> Cell:
        return total


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
                    await connection.execute(delete(PENDING_SKETCHES))
            raise


# What a fault needs to be found is drawn; one shows in every run that the machine finds any.
@small_and_soak(
    "faults",
    [(make_faulty(CountsReplays), UploadRules, 1)],
    [
        (LosesOnCrash, ExcludingMachine, 0),
        (make_faulty(CountsReplays), UploadRules, 0),
        (make_faulty(ShowsWhatLeaves), ExcludingMachine, 0),
    ],
)
def test_a_store_with_a_fault_is_found_out(
    faults: list[tuple[type[KillableStore], type[Harness], int]],
) -> None:
    for make, rules, soon in faults:
        # A fault that shows only sometimes lets hypothesis draw other steps when it repeats some.
        with pytest.raises((AssertionError, FlakyStrategyDefinition)):
            search_faults(lambda make=make: SqliteWorld(make), rules, soon=soon)  # type: ignore[misc]


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
def test_an_answer_before_the_commit_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(UploadWriter, "_store_batch", answer_early)
    with pytest.raises(AssertionError):
        search_faults(SqliteWorld, BatchRules, soon=0)


LONG = {"n_examples": 200, "stateful_step_count": 100, "derandomize": False}
"""Newly drawn each time."""


@small_and_soak("choices", {"n_examples": 5}, LONG)
def test_each_sketch_is_counted_once_in_sqlite(choices: dict[str, Any]) -> None:
    run_machine(SqliteWorld, **choices)


@small_and_soak("choices", {"n_examples": 2}, LONG)
def test_each_sketch_is_counted_once_in_postgres(choices: dict[str, Any]) -> None:
    drop_postgres(asyncio.run(create_postgres()))  # skips the test where no Postgres answers
    run_machine(PostgresWorld, **choices)
