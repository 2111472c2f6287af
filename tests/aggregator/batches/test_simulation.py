"""Whatever happens to two servers: each report counts once, and nothing waits for ever."""

from __future__ import annotations

import asyncio
import inspect
import shutil
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import RULE_MARKER, run_state_machine_as_test
from sqlalchemy import Connection, Row, text

from sfumato.aggregator.base.helper_client import HelperClient
from sfumato.aggregator.resources.batches.record import BatchRecord
from sfumato.aggregator.resources.batches.service.lease import Leased
from sfumato.aggregator.resources.batches.service.opener import BatchOpener
from sfumato.helper.tables import write
from sfumato.shared.privacy.testing import SeededSource
from sfumato.shared.wire.sum_messages import CommitRequest
from tests.aggregator.batches.simulation.rules import SumMachine
from tests.aggregator.batches.simulation.servers import Ground, MortalBatches, make_ground
from tests.aggregator.batches.simulation.world import World
from tests.soak import small_and_soak

FEW_RULES = ("pass_a_window", "work", "back_up", "restore_leader", "send_all_again")


@pytest.fixture(scope="module")
def ground() -> Iterator[Ground]:
    made = asyncio.run(make_ground())
    yield made
    shutil.rmtree(made.folder)


def run(
    make_world: Callable[[], World],
    *,
    n_examples: int,
    rules: tuple[str, ...] | None = None,
    first: int | None = None,
    **changes: Any,
) -> None:
    """Run examples, of some rules alone if they are named."""
    known = [name for name, value in inspect.getmembers(SumMachine) if hasattr(value, RULE_MARKER)]
    hidden = {name: None for name in known if rules is not None and name not in rules}
    kind: Any = type("Machine", (SumMachine,), {"make_world": staticmethod(make_world), **hidden})
    kind = kind if first is None else seed(first)(kind)
    chosen: dict[str, Any] = {
        "max_examples": n_examples,
        "stateful_step_count": 40,
        "derandomize": True,
        "database": None,
        "deadline": None,
        "suppress_health_check": list(HealthCheck),
        # Shrinking an example of so many steps takes minutes: `make soak` does it.
        "phases": [Phase.generate],
    }
    run_state_machine_as_test(kind, settings=settings(**(chosen | changes)))


LONG = {
    "n_examples": 500,
    "stateful_step_count": 80,
    "derandomize": False,
    "phases": [Phase.generate, Phase.shrink],
}
"""Newly drawn each time."""


@small_and_soak("choices", {"n_examples": 3}, LONG)
def test_each_report_counts_once_and_nothing_waits_for_ever(
    choices: dict[str, Any], ground: Ground
) -> None:
    run(lambda: World(ground), **choices)


class ForgetsItsAnswer(MortalBatches):
    """Gives an answer, and keeps the batch as it was before."""

    def commit(self, batch_id: bytes, request: CommitRequest) -> bytes:
        with self.database.connect() as connection:
            held = connection.execute(
                text("SELECT sketch_id, seed FROM reports WHERE seed IS NOT NULL")
            ).all()
        answer = super().commit(batch_id, request)
        with write(self.database) as connection:
            connection.execute(
                text("UPDATE batches SET state = 'open' WHERE batch_id = :batch"),
                {"batch": batch_id},
            )
            for row in held:
                connection.execute(
                    text(
                        "UPDATE reports SET state = 'accepted', seed = :seed "
                        "WHERE sketch_id = :sketch AND batch_id = :batch"
                    ),
                    {"seed": row.seed, "sketch": row.sketch_id, "batch": batch_id},
                )
        return answer


class RepeatsItsNoise(MortalBatches):
    """Draws the same noise for every batch."""

    def _answer(self, connection: Connection, batch: Row[Any], request: CommitRequest) -> None:
        self.source = SeededSource(1)
        super()._answer(connection, batch, request)


class ForgetsWhatIsSpent(MortalBatches):
    """Lets a report that was answered for join another batch."""

    def _answer(self, connection: Connection, batch: Row[Any], request: CommitRequest) -> None:
        super()._answer(connection, batch, request)
        connection.execute(text("DELETE FROM reports WHERE state = 'spent'"))


def show_before_the_helper_has_it(opener: BatchOpener) -> None:
    """Count a total, and give it to the helper only then."""

    async def acknowledge(leased: Leased, helper: HelperClient) -> str:
        async with opener._store.begin() as transaction:
            batch = await transaction.get(BatchRecord, leased.batch_id)
        assert batch is not None
        await opener._count(leased)
        await helper.acknowledge(leased.batch_id, batch.sums or b"")
        return "acknowledged"

    opener._acknowledge = acknowledge  # type: ignore[assignment,method-assign]


@pytest.mark.soak
@pytest.mark.parametrize(
    ("batches", "found"),
    [
        (ForgetsItsAnswer, None),
        (RepeatsItsNoise, "a noise is used twice"),
        (ForgetsWhatIsSpent, None),
    ],
)
def test_a_server_with_a_fault_is_found_out(
    batches: type[MortalBatches], found: str | None, ground: Ground
) -> None:
    with pytest.raises(AssertionError, match=found):
        search(lambda: World(ground, batches=batches))


@pytest.mark.parametrize("is_early", [False, True], ids=["in order", "shown early"])
def test_a_total_that_is_shown_before_the_helper_has_it_is_found_out(
    is_early: bool, ground: Ground
) -> None:
    change = show_before_the_helper_has_it if is_early else lambda opener: None
    kind = type("Machine", (SumMachine,), {"make_world": lambda: World(ground, change=change)})
    with pytest.raises(AssertionError, match="two totals") if is_early else nullcontext():
        lose_an_acknowledgement(kind())


def lose_an_acknowledgement(machine: SumMachine) -> None:
    """Go back to before a batch whose total the helper was never told, and open it again.

    Chance finds these steps too, after a minute.
    """
    machine.back_up("leader")
    machine.pass_a_window(first=0, count=3, fates=["none", "none", "lose request"])
    machine.all_holds()
    machine.restore_leader(picked=0)
    machine.pass_a_window(first=0, count=2, fates=[])
    machine.all_holds()
    machine.teardown()


def search(make_world: Callable[[], World]) -> None:
    """Run many short explorations, for each long one begins with its smallest examples."""
    for first in range(20):
        run(
            make_world,
            n_examples=10,
            rules=FEW_RULES,
            first=first,
            derandomize=False,
            stateful_step_count=20,
        )
