"""Speed of sketching: nanoseconds per record and feature, relative to NumPy.

Run as ``python -m benchmarks.sketching [--quick] [--json]``. Records are float32 in memory. One
thread and thread CPU time, except for the scaling over threads, which is wall-clock time. All
engines of the machine are measured whatever `SFUMATO_ENGINE` is.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks.runner import Bench, Figure, Row, make_rows, measure_in_turn, run
from sfumato.shared.arrays import Floats, Integers
from sfumato.shared.core import (
    FourierStatistic,
    MaskSchedule,
    Quantiser,
    RadiusLaw,
    SketchAccumulator,
    draw_frequencies,
)
from sfumato.shared.core.engines import SketchEngine, choose_engine, list_engines

NAME = "sketching"
_SEED = bytes(32)
_SIZES = ((2, 200), (10, 1000), (50, 5000))
_FLOAT32 = "chunked float32 NumPy, same run"


def make_statistic(d: int, m: int, r: int) -> FourierStatistic:
    """Make the statistic of a plan with d dimensions, m frequencies, r used by each record."""
    quantiser = Quantiser.from_bounds(np.full(d, -4.0), np.full(d, 4.0))
    frequencies = draw_frequencies(
        _SEED, n_frequencies=m, law=RadiusLaw(), quantiser=quantiser, scale=np.full(d, 0.5)
    )
    masks = None
    if r < m:
        masks = MaskSchedule.from_seed(_SEED, b"b", n_frequencies=m, measurements_per_record=r)
    return FourierStatistic(quantiser=quantiser, frequencies=frequencies, masks=masks)


def sketch_in_floats(records: NDArray[np.float32], omega: NDArray[np.float32]) -> Floats:
    """Average exp(i Omega^T x), in chunks of 1 MB."""
    rows = max(1, (1 << 20) // (omega.itemsize * omega.shape[1]))
    total = np.zeros((2, omega.shape[1]))
    for start in range(0, len(records), rows):
        phase = records[start : start + rows] @ omega
        total[0] += np.cos(phase).sum(axis=0)
        total[1] += np.sin(phase).sum(axis=0)
    return total / len(records)


def sketch_in_integers(
    engine: SketchEngine, statistic: FourierStatistic, records: NDArray[np.float32]
) -> Integers:
    """Sum the integer sketch of records."""
    accumulator = SketchAccumulator(statistic, engine=engine)
    accumulator.add(records)
    return accumulator.sums


def measure(bench: Bench) -> Iterator[Row]:
    """Yield a row for each engine, size and share of features."""
    runs, names = 5 if bench.quick else 11, list_engines()
    for d, m in _SIZES:
        if bench.includes(f"d={d} m={m}", in_quick=(d, m) != _SIZES[-1]):
            n = (5_000_000 if bench.quick else 20_000_000) // m
            yield from _measure_unmasked(d, m, n, names, runs)
            # Slow levels add nothing about masks: the fastest and the reference suffice.
            for name in dict.fromkeys((names[0], "numpy")):
                yield from _measure_masks(d, m, n, name, runs)
    if bench.includes("threads"):
        yield from _measure_threads(10, 1000, names[0], runs)


def _measure_unmasked(d: int, m: int, n: int, names: list[str], runs: int) -> Iterator[Row]:
    records, statistic = _make_records(n, d), make_statistic(d, m, m)
    omega = statistic.frequencies.to_angular(statistic.quantiser).astype(np.float32)
    works: list[Callable[[], object]] = [partial(sketch_in_floats, records, omega)]
    works += [
        partial(sketch_in_integers, choose_engine(name), statistic, records) for name in names
    ]
    floats, *each = measure_in_turn(works, runs) / (n * m)
    yield from _rows(f"float32-baseline d={d} m={m}", _per_feature(floats))
    for name, values in zip(names, each, strict=True):
        ratio = ("ratio_to_float32", np.median(floats / values), "1", _FLOAT32)
        yield from _rows(
            f"{name} d={d} m={m} alpha=1 threads=1", _per_feature(values), ratio, runs=runs
        )


def _measure_masks(d: int, m: int, n: int, name: str, runs: int) -> Iterator[Row]:
    engine = choose_engine(name)
    # Enough records for each of a hundred groups to fill the lanes, as in a stream.
    counts = {1: n, 10: 1 << 16, 100: 1 << 18}
    records = _make_records(max(counts.values()), d)
    works = [
        partial(sketch_in_integers, engine, make_statistic(d, m, m // share), records[:count])
        for share, count in counts.items()
    ]
    plain, *masked = measure_in_turn(works, runs) / np.array(list(counts.values()))[:, None]
    for share, seconds in zip((10, 100), masked, strict=True):
        beside = "a record at alpha=1, same run"
        faster = ("speedup_over_unmasked", np.median(plain / seconds), "1", beside)
        case = f"{name} d={d} m={m} alpha={1 / share:g} threads=1"
        yield from _rows(case, _per_feature(seconds * share / m), faster, runs=runs)


def _measure_threads(d: int, m: int, name: str, runs: int) -> Iterator[Row]:
    records = _make_records(200_000, d)
    sketch = partial(sketch_in_integers, choose_engine(name), make_statistic(d, m, m))
    cores = len(os.sched_getaffinity(0))
    for threads in dict.fromkeys((min(2, cores), cores)):
        parts = np.array_split(records, threads)
        with ThreadPoolExecutor(threads) as pool:
            in_parts = partial(lambda pool, parts: sum(pool.map(sketch, parts)), pool, parts)
            works: list[Callable[[], object]] = [partial(sketch, records), in_parts]
            one, many = measure_in_turn(works, runs, time.perf_counter)
        beside = "one thread, wall clock, same run"
        scaling = ("thread_scaling", np.median(one / many), "1", beside)
        yield from _rows(f"{name} d={d} m={m} alpha=1 threads={threads}", scaling, runs=runs)


def _per_feature(seconds: Floats) -> Figure:
    return "ns_per_record_feature", np.median(seconds) * 1e9, "ns"


def _make_records(n: int, d: int) -> NDArray[np.float32]:
    return np.random.default_rng(0).normal(size=(n, d)).astype(np.float32)


def _rows(case: str, *figures: Figure, runs: int = 1) -> Iterator[Row]:
    yield from make_rows(NAME, case, figures, runs=runs)


if __name__ == "__main__":
    run(NAME, __doc__, measure)
