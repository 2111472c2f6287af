import asyncio
import time
from collections.abc import Callable

import pytest

from sfumato.aggregator.resources.sketches.store.entries import in_turns

pytestmark = pytest.mark.anyio


def work(pieces: int, rest: Callable[[], None]) -> int:
    for _ in range(pieces):
        ends = time.perf_counter() + 0.001
        while time.perf_counter() < ends:
            pass
        rest()
    return pieces


async def test_others_have_their_turn_while_something_long_is_computed() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(count())
    assert await in_turns(lambda rest: work(20, rest)) == 20
    other.cancel()
    # Twenty pieces of a millisecond, at most a few between two turns of the other.
    assert turns >= 5


async def test_what_is_short_is_done_at_once() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        turns += 1

    def compute(rest: Callable[[], None]) -> int:
        rest()
        return 3

    other = asyncio.create_task(count())
    assert await in_turns(compute) == 3
    assert turns == 0
    await other


async def test_an_error_of_the_computation_reaches_its_caller() -> None:
    def fail(rest: Callable[[], None]) -> int:
        work(4, rest)
        raise OverflowError("too large")

    with pytest.raises(OverflowError, match="too large"):
        await in_turns(fail)
