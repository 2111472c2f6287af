"""Run every benchmark: ``python -m benchmarks [--quick] [--json]``."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import (
    agent,
    calibration,
    components,
    cover,
    decoding,
    digits,
    estimator,
    fleets,
    generative,
    grids,
    honesty,
    insight,
    law_grid,
    local,
    methods,
    noise,
    paper,
    real_sets,
    secure_sum,
    sketching,
    sketching_files,
    sketching_tables,
    synthesis,
    utility,
)
from benchmarks.rows import Row, run_benchmark
from benchmarks.service import __main__ as service


def measure(quick: bool) -> Iterator[Row]:
    """Yield the rows of every benchmark in turn."""
    modules = (
        sketching,
        sketching_files,
        sketching_tables,
        noise,
        decoding,
        calibration,
        fleets,
        grids,
        law_grid,
        local,
        methods,
        paper,
        secure_sum,
        honesty,
        real_sets,
        insight,
        synthesis,
        digits,
        generative,
        utility,
        components,
        cover,
        estimator,
        agent,
        service,
    )
    for module in modules:
        yield from module.measure(quick)


if __name__ == "__main__":
    run_benchmark("__main__", "Run every benchmark.", measure)
