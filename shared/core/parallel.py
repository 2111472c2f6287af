"""Sketch batches on several threads into one exact sum."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import TypeVar

from sfumato.shared.core.engines import SketchEngine
from sfumato.shared.core.records import Records
from sfumato.shared.core.sketch import SketchAccumulator
from sfumato.shared.core.statistics import Statistic
from sfumato.shared.errors import ConfigError

Item = TypeVar("Item")
Result = TypeVar("Result")

_AHEAD = 2
"""Items taken beyond one per thread, so that no thread waits for the next item."""


def map_in_order(
    work: Callable[[Item], Result], items: Iterable[Item], *, n_threads: int
) -> Generator[Result, None, None]:
    """Yield ``work(item)`` of each item in order, computed by a pool of threads.

    Items are taken on the caller's thread, at most ``n_threads + 2`` ahead of what was yielded.

    Guarantees
    ----------
    An exception of ``items`` or of ``work`` is raised here, and then nothing runs any more; the
    same holds when the generator is closed.

    Raises
    ------
    ConfigError
        ``n_threads`` is less than 1.
    """
    if n_threads < 1:
        raise ConfigError("must be at least 1", field="threads", fix="use the number of cores")
    in_flight: deque[Future[Result]] = deque()
    pool = ThreadPoolExecutor(n_threads, thread_name_prefix="sketch")
    try:
        for item in items:
            in_flight.append(pool.submit(work, item))
            if len(in_flight) >= n_threads + _AHEAD:
                yield in_flight.popleft().result()
        while in_flight:
            yield in_flight.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def sketch_batches(
    statistic: Statistic,
    batches: Iterable[Records],
    *,
    n_threads: int,
    engine: SketchEngine | None = None,
    first_record: int = 0,
    on_progress: Callable[[int], None] | None = None,
) -> SketchAccumulator:
    """Sum the features of all records of some batches, on several threads.

    Parameters
    ----------
    statistic
        The definition.
    batches
        Records in the order of the stream, each batch as ``SketchAccumulator.add`` takes it. A
        batch must not change after it is handed over.
    n_threads
        Threads that sketch; the kernel releases the interpreter lock. Changes no result.
    engine
        How to compute; changes no result.
    first_record
        The stream's record counter at the first record.
    on_progress
        Called on the caller's thread with the number of records summed so far.

    Guarantees
    ----------
    The sum is that of one accumulator over the same records, bit for bit, for any number of threads
    and any split into batches, with and without masks. At most ``n_threads + 2`` batches are held.
    An exception of ``batches`` or of one batch stops everything, and nothing is returned.
    """
    total = SketchAccumulator(statistic, first_record=first_record, engine=engine)

    def sketch(numbered: tuple[int, Records]) -> SketchAccumulator:
        counter, records = numbered
        part = SketchAccumulator(statistic, first_record=counter, engine=engine)
        part.add(records)
        return part

    numbered = _number(batches, first_record)
    with closing(map_in_order(sketch, numbered, n_threads=n_threads)) as parts:
        for part in parts:
            total.merge(part)
            if on_progress is not None:
                on_progress(total.n_records)
    return total


def _number(batches: Iterable[Records], first_record: int) -> Iterator[tuple[int, Records]]:
    """Yield each batch with the counter of its first record, which determines the masks."""
    counter = first_record
    for batch in batches:
        yield counter, batch
        counter += len(batch)
