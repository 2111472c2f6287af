"""Whatever happens, in whatever order: each sketch is in the sum exactly once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.errors import FlakyFailure, FlakyStrategyDefinition
from hypothesis.stateful import run_state_machine_as_test
from sqlalchemy import delete, insert, select

from sfumato.aggregator.base.sums.cells import Cell
from sfumato.aggregator.base.sums.layout import Layout
from sfumato.aggregator.base.sums.selection import Selection
from sfumato.aggregator.base.transaction import Transaction
from sfumato.aggregator.resources.sketches.record import SketchRecord
from sfumato.aggregator.resources.sketches.service import writer
from sfumato.aggregator.resources.sketches.service.writer import Upload, UploadWriter
from sfumato.aggregator.resources.sketches.store import cells, sketches
from sfumato.aggregator.resources.sketches.store.tables import PENDING_SKETCHES
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


def search_faults(make_world: Callable[[], World], rules: type[Harness]) -> None:
    """Run many short explorations, for each long one begins with its smallest examples.

    An assertion that failed once counts as found: which requests share a batch is for the clock to
    say, and may differ the second time.
    """
    for first in range(40):
        try:
            run_machine(
                make_world, n_examples=12, rules=rules, first=first, phases=[Phase.generate]
            )
        except FlakyFailure as found:
            _, others = found.split(AssertionError)
            if others is not None:
                raise
            raise AssertionError("was found, and not again when repeated") from found


def count_replays(patch: pytest.MonkeyPatch) -> type[KillableStore]:
    """Do not find again what is merged, and so add it once more."""
    get_many, add_sketches = Transaction.get_many, sketches.add_sketches

    async def get_unmerged(
        self: Transaction, kind: type[R], keys: Collection[bytes], *, lock: bool = False
    ) -> Mapping[bytes, R]:
        found = await get_many(self, kind, keys, lock=lock)
        if kind is not SketchRecord:
            return found
        rows = await self.connection.execute(select(PENDING_SKETCHES.c.sketch_id))
        waiting = set(rows.scalars())
        return {key: record for key, record in found.items() if key in waiting}

    async def add_again(
        transaction: Transaction, added: Sequence[tuple[SketchRecord, bytes]]
    ) -> None:
        known = await get_many(transaction, SketchRecord, [r.sketch_id for r, _ in added])
        fresh = [one for one in added if one[0].sketch_id not in known]
        if fresh:
            await add_sketches(transaction, fresh)
        waiting = [{"sketch_id": r.sketch_id, "study_id": r.study_id} for r, _ in added]
        insertion = insert(PENDING_SKETCHES).prefix_with("OR IGNORE")
        await transaction.connection.execute(insertion, waiting)

    patch.setattr(Transaction, "get_many", get_unmerged)
    patch.setattr(writer, "add_sketches", add_again)
    return KillableStore


def show_what_leaves(patch: pytest.MonkeyPatch) -> type[KillableStore]:
    """Forget to subtract what cells hold of excluded devices."""

    async def keep(_: Any, __: bytes, ___: Selection, total: Cell, ____: Layout) -> Cell:
        return total

    patch.setattr(cells, "subtract_leaving", keep)
    return KillableStore


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


def lose_on_crash(_: pytest.MonkeyPatch) -> type[KillableStore]:
    return LosesOnCrash


@pytest.mark.soak
@pytest.mark.parametrize(
    ("plant", "rules"),
    [
        (lose_on_crash, ExcludingMachine),
        (count_replays, UploadRules),
        (show_what_leaves, ExcludingMachine),
    ],
)
def test_a_store_with_a_fault_is_found_out(
    plant: Callable[[pytest.MonkeyPatch], type[KillableStore]],
    rules: type[Harness],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = partial(SqliteWorld, plant(monkeypatch))
    # A fault that shows only sometimes lets hypothesis draw other steps when it repeats some.
    with pytest.raises((AssertionError, FlakyStrategyDefinition)):
        search_faults(world, rules)


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
        search_faults(SqliteWorld, BatchRules)


LONG = {"n_examples": 200, "stateful_step_count": 100, "derandomize": False}
"""Newly drawn each time."""


@small_and_soak("choices", {"n_examples": 3}, LONG)
def test_each_sketch_is_counted_once_in_sqlite(choices: dict[str, Any]) -> None:
    run_machine(SqliteWorld, **choices)


@small_and_soak("choices", {"n_examples": 2}, LONG)
def test_each_sketch_is_counted_once_in_postgres(choices: dict[str, Any]) -> None:
    drop_postgres(asyncio.run(create_postgres()))  # skips the test where no Postgres answers
    run_machine(PostgresWorld, **choices)
