"""Run every benchmark: ``python -m benchmarks [--quick] [--json] [--case MODULE]``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module

from benchmarks.packages import PackageUnavailableError
from benchmarks.runner import Bench, Row, run

NAMES = (
    *("sketching", "sketching_tables", "decoding", "calibration", "fleets"),
    *("grids", "local", "methods", "paper", "secure_sum", "honesty", "real_sets", "insight"),
    *("synthesis", "digits", "utility", "components", "cover", "estimator", "agent"),
    *("reported_pilots", "peers", "service.__main__", "looks", "verdicts"),
)


def measure(bench: Bench) -> Iterator[Row]:
    """Yield the rows of every benchmark in turn, of those named by their modules."""
    for name in NAMES:
        if bench.includes(name):
            try:
                own = replace(bench, cases=(), own={})
                yield from import_module(f"benchmarks.{name}").measure(own)
            except PackageUnavailableError as error:
                bench.leave_out(name, error)


if __name__ == "__main__":
    run("__main__", __doc__, measure)
