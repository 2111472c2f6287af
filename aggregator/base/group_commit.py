"""Group commit: run the items of many callers, such as uploads, in one batch."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

_LONGEST_REST_S = 0.02


class Batcher(Generic[T, R]):
    """Gathers the items that arrive during a batch into the next batch.

    After a batch of several it pauses as long as that took, at most 20 ms: a small batch costs
    almost as much as a large one, and back to back they would leave no time for anything else. A
    single item is served at once.

    Parameters
    ----------
    work
        Runs a batch, and returns the result or the error of each item. An error that it raises is
        that of all items.
    most
        The largest number of items in a batch.
    key
        Items with equal keys never share a batch.
    """

    def __init__(
        self,
        work: Callable[[Sequence[T]], Awaitable[Sequence[R | Exception]]],
        *,
        most: int,
        key: Callable[[T], Hashable],
    ) -> None:
        self._work = work
        self._most = most
        self._key = key
        self._waiting: list[tuple[T, asyncio.Future[R]]] = []
        self._task: asyncio.Task[None] | None = None

    async def submit(self, item: T) -> R:
        """Return the result for an item; it is run even if the caller is cancelled."""
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        return await future

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._waiting:
                batch = self._take()
                start = loop.time()
                await self._run_batch(batch)
                if len(batch) > 1:
                    await asyncio.sleep(min(loop.time() - start, _LONGEST_REST_S))
        finally:
            self._task = None
            for _, future in self._waiting:
                future.cancel()
            self._waiting.clear()

    def _take(self) -> list[tuple[T, asyncio.Future[R]]]:
        """Take the first items with different keys; the rest keeps its order."""
        taken: dict[Hashable, tuple[T, asyncio.Future[R]]] = {}
        left = []
        for entry in self._waiting:
            key = self._key(entry[0])
            if len(taken) < self._most and key not in taken:
                taken[key] = entry
            else:
                left.append(entry)
        self._waiting = left
        return list(taken.values())

    async def _run_batch(self, batch: list[tuple[T, asyncio.Future[R]]]) -> None:
        results: Sequence[R | Exception]
        try:
            results = await self._work([item for item, _ in batch])
            if len(results) != len(batch):
                raise ValueError(f"{len(results)} result(s) for a batch of {len(batch)}")
        except Exception as error:
            results = [error] * len(batch)
        except BaseException:
            # The server stops; callers of this batch would wait for ever.
            for _, future in batch:
                future.cancel()
            raise
        for (_, future), result in zip(batch, results, strict=True):
            if future.done():
                continue
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)
