"""Speed of sketching: nanoseconds per record and feature or value, relative to NumPy.

Run as ``python -m benchmarks.sketching [--quick] [--json]``. Records are float32 in memory. One
thread and thread CPU time, except for the scaling over threads, which is wall-clock time. All
engines of the machine are measured whatever `SFUMATO_ENGINE` is, and pycle's feature map where it
is installed (``pip install pycle==1.2``).
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.rows import Row, measure_in_turn, run_benchmark
from sfumato.shared.core import (
    DimensionEncoding,
    FourierStatistic,
    GridStatistic,
    HistogramStatistic,
    MaskSchedule,
    MomentsStatistic,
    Quantiser,
    RadiusLaw,
    RecordEncoder,
    SketchAccumulator,
    Statistic,
    draw_frequencies,
)
from sfumato.shared.core.engines import SketchEngine, choose_engine, list_engines

NAME = "sketching"
SEED = bytes(32)
SIZES = ((2, 200), (10, 1000), (50, 5000))
FLOAT32 = "chunked float32 NumPy, same run"
FLOAT64 = "chunked float64 NumPy, same run"
# Ratio of float64 to float32 NumPy on another machine (34/1.32, 35/1.52, 37/2.52 ns).
USUAL_FLOAT64_RATIOS = {(2, 200): 25.8, (10, 1000): 23.0, (50, 5000): 14.7}


def make_statistic(d: int, m: int, r: int) -> FourierStatistic:
    """Make the statistic of a plan with d dimensions, m frequencies, r used by each record."""
    quantiser = Quantiser.from_bounds(np.full(d, -4.0), np.full(d, 4.0))
    frequencies = draw_frequencies(
        SEED, n_frequencies=m, law=RadiusLaw(), quantiser=quantiser, scale=np.full(d, 0.5)
    )
    masks = None
    if r < m:
        masks = MaskSchedule.from_seed(SEED, b"b", n_frequencies=m, measurements_per_record=r)
    return FourierStatistic(quantiser=quantiser, frequencies=frequencies, masks=masks)


def sketch_in_floats(
    records: NDArray[np.floating], omega: NDArray[np.floating]
) -> NDArray[np.float64]:
    """Average exp(i Omega^T x) in the given precision, in chunks of 1 MB."""
    rows = max(1, (1 << 20) // (omega.itemsize * omega.shape[1]))
    total = np.zeros((2, omega.shape[1]))
    for start in range(0, len(records), rows):
        phase = records[start : start + rows] @ omega
        total[0] += np.cos(phase).sum(axis=0)
        total[1] += np.sin(phase).sum(axis=0)
    return total / len(records)


def sketch_in_integers(
    engine: SketchEngine, statistic: Statistic, records: NDArray[np.float32]
) -> NDArray[np.int64]:
    """Sum the integer sketch of records."""
    accumulator = SketchAccumulator(statistic, engine=engine)
    accumulator.add(records)
    return accumulator.sums


def measure(quick: bool) -> Iterator[Row]:
    """Yield a row for each engine, size and share of features."""
    runs = 5 if quick else 11
    names = list_engines()
    for d, m in SIZES[:2] if quick else SIZES:
        n = (5_000_000 if quick else 20_000_000) // m
        yield from _measure_unmasked(d, m, n, names, runs)
        # Slow levels add nothing about masks: the fastest and the reference suffice.
        for name in dict.fromkeys((names[0], "numpy")):
            yield from _measure_masks(d, m, n, name, runs)
    yield from _measure_statistics(names[0], runs)
    yield from _measure_threads(10, 1000, names[0], runs)


def _measure_unmasked(d: int, m: int, n: int, names: list[str], runs: int) -> Iterator[Row]:
    records = _make_records(n, d)
    statistic = make_statistic(d, m, m)
    omega = statistic.frequencies.to_angular(statistic.quantiser)
    double = records[: max(1, n // 10)].astype(np.float64)
    works: dict[str, Callable[[], object]] = {
        "float32-baseline": partial(sketch_in_floats, records, omega.astype(np.float32)),
        "float64": partial(sketch_in_floats, double, omega),
    }
    for name in names:
        works[name] = partial(sketch_in_integers, choose_engine(name), statistic, records)
    pycle = _load_pycle()
    if pycle is not None:
        feature_map = pycle.SimpleFeatureMap("ComplexExponential", omega)
        works["pycle 1.2"] = partial(pycle.computeSketch, double, feature_map)
    counts = [len(double) if work in ("float64", "pycle 1.2") else n for work in works]
    seconds = measure_in_turn(list(works.values()), runs)
    each = dict(zip(works, seconds / (np.array(counts)[:, None] * m), strict=True))
    floats = each["float32-baseline"]
    for name, values in each.items():
        case = f"{name} d={d} m={m}"
        if name in names:
            case += " alpha=1 threads=1"
        yield _row(case, "ns_per_record_feature", values * 1e9, "ns", "none")
        if name in names:
            yield _row(case, "ratio_to_float32", floats / values, "1", FLOAT32)
    ratio = each["float64"] / floats
    yield _row(
        f"float32-baseline d={d} m={m}",
        "ratio_to_float64",
        ratio,
        "1",
        _describe_float64(float(np.median(ratio)), USUAL_FLOAT64_RATIOS[d, m]),
    )


def _describe_float64(ratio: float, usual: float) -> str:
    """Describe the baseline's speed relative to where it was first measured."""
    if abs(ratio / usual - 1) <= 0.2:
        return f"{FLOAT64}; within 20 % of {usual}, as elsewhere"
    return f"{FLOAT64}; {usual} elsewhere, where the processor was another (3.7 GHz, Zen 4)"


def _measure_masks(d: int, m: int, n: int, name: str, runs: int) -> Iterator[Row]:
    engine = choose_engine(name)
    # Enough records for each of a hundred groups to fill the lanes, as in a stream.
    counts = {1: n, 10: 1 << 16, 100: 1 << 18}
    records = _make_records(max(counts.values()), d)
    works = [
        partial(sketch_in_integers, engine, make_statistic(d, m, m // share), records[:count])
        for share, count in counts.items()
    ]
    a_record = measure_in_turn(works, runs) / np.array(list(counts.values()))[:, None]
    for share, seconds in list(zip(counts, a_record, strict=True))[1:]:
        case = f"{name} d={d} m={m} alpha={1 / share:g} threads=1"
        yield _row(case, "ns_per_record_feature", seconds * 1e9 * share / m, "ns", "none")
        faster = a_record[0] / seconds
        yield _row(case, "speedup_over_unmasked", faster, "1", "a record at alpha=1, same run")


def _measure_statistics(name: str, runs: int) -> Iterator[Row]:
    """Compare bins, cells and moments with the NumPy engine's."""
    for label, statistic in _make_statistics().items():
        d = statistic.quantiser.n_dimensions
        records = _make_records(1_000_000 // d, d)
        works = [
            partial(sketch_in_integers, choose_engine(engine), statistic, records)
            for engine in (name, "numpy")
        ]
        native, reference = measure_in_turn(works, runs) / records.size
        case = f"{name} {label} d={d} threads=1"
        yield _row(case, "ns_per_value", native * 1e9, "ns", "none")
        yield _row(case, "values_per_second", 1 / native, "1/s", "none")
        yield _row(case, "speedup_over_numpy", reference / native, "1", "NumPy engine, same run")


def _make_statistics() -> dict[str, HistogramStatistic | GridStatistic | MomentsStatistic]:
    box = {d: Quantiser.from_bounds(np.full(d, -4.0), np.full(d, 4.0)) for d in (4, 10)}
    log = RecordEncoder(dimensions=(DimensionEncoding(resolution=1e-6),) * 10)
    wide = Quantiser.from_bounds(*log.transform_bounds([-1e6] * 10, [1e6] * 10))
    bins = (10,) * 10
    return {
        "histogram b=10 linear": HistogramStatistic(quantiser=box[10], bins_log2=bins),
        "histogram b=10 log": HistogramStatistic(quantiser=wide, bins_log2=bins, encoder=log),
        "grid 16 cells": GridStatistic(quantiser=box[4], cells=(16,) * 4),
        "moments R=2643": MomentsStatistic(quantiser=box[10], norm_steps=2643),
    }


def _measure_threads(d: int, m: int, name: str, runs: int) -> Iterator[Row]:
    engine, statistic = choose_engine(name), make_statistic(d, m, m)
    n = 200_000
    records = _make_records(n, d)
    cores = len(os.sched_getaffinity(0))
    sketch = partial(sketch_in_integers, engine, statistic)
    for threads in dict.fromkeys((min(2, cores), cores)):
        with ThreadPoolExecutor(threads) as pool:
            parts = np.array_split(records, threads)
            in_parts = partial(_sketch_in_parts, pool, sketch, parts)
            one, many = measure_in_turn(
                [partial(sketch, records), in_parts], runs, time.perf_counter
            )
        case = f"{name} d={d} m={m} alpha=1 threads={threads}"
        yield _row(case, "thread_scaling", one / many, "1", "one thread, wall clock, same run")


def _sketch_in_parts(
    pool: ThreadPoolExecutor,
    sketch: Callable[[NDArray[np.float32]], NDArray[np.int64]],
    parts: list[NDArray[np.float32]],
) -> NDArray[np.int64]:
    total = sketch(parts[0][:0])
    for part in pool.map(sketch, parts):
        total += part
    return total


def _make_records(n: int, d: int) -> NDArray[np.float32]:
    return np.random.default_rng(0).normal(size=(n, d)).astype(np.float32)


def _load_pycle() -> Any:
    """Return pycle's sketching module if it can be imported; it is not a dependency."""
    try:
        return importlib.import_module("pycle.sketching")
    except ImportError:
        return None


def _row(case: str, figure: str, values: NDArray[np.float64], unit: str, baseline: str) -> Row:
    return Row(NAME, case, figure, float(np.median(values)), unit, len(values), baseline)


if __name__ == "__main__":
    run_benchmark(NAME, __doc__.splitlines()[0], measure)
