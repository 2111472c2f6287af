import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from sfumato.aggregator.base.group_commit import Batcher

pytestmark = pytest.mark.anyio


class Recorder:
    """Doubles numbers, a batch at a time; negative ones are errors of their own."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.gate = asyncio.Event()
        self.fails = False

    async def work(self, items: Sequence[int]) -> Sequence[int | Exception]:
        self.batches.append(list(items))
        await self.gate.wait()
        if self.fails:
            raise OSError("all")
        return [ValueError(item) if item < 0 else 2 * item for item in items]


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


async def test_what_comes_while_a_batch_is_worked_on_is_the_next(recorder: Recorder) -> None:
    batcher = Batcher[int, int](recorder.work, most=3, key=lambda item: item)
    first = asyncio.create_task(batcher.submit(1))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    others = [asyncio.create_task(batcher.submit(item)) for item in (2, 3, 4, 5)]
    await asyncio.sleep(0)
    recorder.gate.set()
    assert await asyncio.gather(first, *others) == [2, 4, 6, 8, 10]
    assert recorder.batches == [[1], [2, 3, 4], [5]]


async def test_items_with_one_key_are_in_different_batches_and_in_order(
    recorder: Recorder,
) -> None:
    recorder.gate.set()
    batcher = Batcher[int, int](recorder.work, most=10, key=lambda item: item % 10)
    await asyncio.gather(*(batcher.submit(item) for item in (1, 11, 2, 21, 12)))
    assert recorder.batches == [[1, 2], [11, 12], [21]]


async def test_an_error_is_that_of_its_item_or_of_all(recorder: Recorder) -> None:
    recorder.gate.set()
    batcher = Batcher[int, int](recorder.work, most=10, key=lambda item: item)
    answers = await asyncio.gather(
        *(batcher.submit(item) for item in (1, -1, 2)), return_exceptions=True
    )
    assert [answers[0], answers[2]] == [2, 4]
    assert isinstance(answers[1], ValueError)
    recorder.fails = True
    answers = await asyncio.gather(
        *(batcher.submit(item) for item in (1, 2)), return_exceptions=True
    )
    assert all(isinstance(answer, OSError) for answer in answers)
    recorder.fails = False
    assert await batcher.submit(3) == 6


async def test_nobody_waits_for_results_that_are_missing() -> None:
    async def work(items: Sequence[int]) -> Sequence[int | Exception]:
        return items[1:]

    batcher = Batcher[int, int](work, most=3, key=lambda item: item)
    results = await asyncio.gather(*map(batcher.submit, (1, 2)), return_exceptions=True)
    assert [str(result) for result in results] == ["1 result(s) for a batch of 2"] * 2


async def test_a_caller_that_leaves_takes_nobody_along(recorder: Recorder) -> None:
    batcher = Batcher[int, int](recorder.work, most=10, key=lambda item: item)
    leaving, staying = (asyncio.create_task(batcher.submit(item)) for item in (1, 2))
    await asyncio.sleep(0)
    leaving.cancel()
    recorder.gate.set()
    assert await staying == 4
    assert recorder.batches == [[1, 2]]


class Stopped(BaseException):
    """Signal of the end of the process, which is no exception of the work."""


async def test_nobody_waits_for_a_batch_that_was_stopped() -> None:
    working: list[asyncio.Task[Any] | None] = []

    async def stop(_items: Sequence[int]) -> Sequence[int | Exception]:
        working.append(asyncio.current_task())
        raise Stopped

    batcher = Batcher[int, int](stop, most=1, key=lambda item: item)
    answers = (batcher.submit(item) for item in (1, 2))
    for answer in await asyncio.gather(*answers, return_exceptions=True):
        assert isinstance(answer, asyncio.CancelledError)
    (task,) = working
    assert task is not None
    assert isinstance(task.exception(), Stopped)


async def test_a_batch_of_several_is_followed_by_a_rest_and_who_comes_alone_by_none(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    rests: list[float] = []
    sleep = asyncio.sleep

    async def rest(seconds: float) -> None:
        rests.append(seconds)
        await sleep(0)

    batcher = Batcher[int, int](recorder.work, most=10, key=lambda item: item)
    recorder.gate.set()
    monkeypatch.setattr("sfumato.aggregator.base.group_commit.asyncio.sleep", rest)
    assert await batcher.submit(1) == 2
    assert rests == []
    assert list(await asyncio.gather(batcher.submit(2), batcher.submit(3))) == [4, 6]
    await sleep(0)
    (seconds,) = rests
    assert 0 <= seconds <= 0.02
