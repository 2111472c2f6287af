"""How fast records are sketched: nanoseconds a record and feature, beside float32 NumPy.

Run as ``python -m benchmarks.sketching [--quick] [--json]``. One thread, thread CPU time.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks.rows import Row, measure_cpu_seconds, run_benchmark
from shared.core import (
    MaskSchedule,
    Quantiser,
    RadiusLaw,
    SketchAccumulator,
    SketchOperator,
    draw_frequencies,
)

NAME = "sketching"
BASELINE = "chunked float32 NumPy, same run"
SEED = bytes(32)


def make_operator(d: int, m: int, r: int) -> SketchOperator:
    """Make the operator of a plan with d dimensions, m frequencies, r used by each record."""
    quantiser = Quantiser.from_bounds(np.full(d, -4.0), np.full(d, 4.0))
    frequencies = draw_frequencies(
        SEED, n_frequencies=m, law=RadiusLaw(), quantiser=quantiser, scale=np.full(d, 0.5)
    )
    masks = None
    if r < m:
        masks = MaskSchedule.from_seed(SEED, b"b", n_frequencies=m, measurements_per_record=r)
    return SketchOperator(quantiser=quantiser, frequencies=frequencies, masks=masks)


def sketch_in_float32(
    records: NDArray[np.float32], omega: NDArray[np.float32]
) -> NDArray[np.float64]:
    """Average exp(i Omega^T x) in float32, in chunks that stay in cache."""
    rows = max(1, (1 << 17) // omega.shape[1])
    total = np.zeros((2, omega.shape[1]))
    for start in range(0, len(records), rows):
        phase = records[start : start + rows] @ omega
        total[0] += np.cos(phase).sum(axis=0)
        total[1] += np.sin(phase).sum(axis=0)
    return total / len(records)


def sketch_in_integers(operator: SketchOperator, records: NDArray[np.float64]) -> None:
    """Sum the integer sketch of records with the engine that this machine has."""
    SketchAccumulator(operator).add(records)


def measure(quick: bool) -> Iterator[Row]:
    """Yield a row for each engine, size and share of features."""
    runs = 3 if quick else 9
    for d, m in ((2, 200), (10, 1000)) if quick else ((2, 200), (10, 1000), (50, 5000)):
        n = (2_000_000 if quick else 10_000_000) // m
        records = np.random.default_rng(0).normal(size=(n, d))
        whole = make_operator(d, m, m)
        omega = whole.frequencies.to_angular(whole.quantiser).astype(np.float32)
        single = records.astype(np.float32)
        floats = measure_cpu_seconds(partial(sketch_in_float32, single, omega), runs)
        yield _row(f"float32-baseline d={d} m={m}", "ns_per_record_feature", floats / n / m, runs)
        unmasked = 0.0
        for share in (1, 10, 100):
            operator = make_operator(d, m, m // share)
            seconds = measure_cpu_seconds(partial(sketch_in_integers, operator, records), runs)
            unmasked = unmasked or seconds
            case = f"numpy d={d} m={m} alpha={1 / share:g} threads=1"
            yield _row(case, "ns_per_record_feature", seconds / n / m * share, runs)
            if share == 1:
                yield _row(case, "ratio_to_float32", floats / seconds, runs)
            else:
                yield _row(case, "speedup_over_unmasked", unmasked / seconds, runs)


def _row(case: str, figure: str, value: float, runs: int) -> Row:
    in_seconds = figure == "ns_per_record_feature"
    baseline = "alpha=1 in the same run" if figure == "speedup_over_unmasked" else BASELINE
    return Row(
        benchmark=NAME,
        case=case,
        figure=figure,
        value=value * 1e9 if in_seconds else value,
        unit="ns" if in_seconds else "1",
        runs=runs,
        baseline=baseline,
    )


if __name__ == "__main__":
    run_benchmark(NAME, __doc__.splitlines()[0], measure)
