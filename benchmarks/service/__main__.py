"""The command ``python -m benchmarks.service``, and its cases."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks.runner import Bench, Row, run
from benchmarks.service import __doc__ as doc
from benchmarks.service.databases import POSTGRES, is_postgres_there
from benchmarks.service.sizing import measure_sizing
from benchmarks.service.snapshots import SHAPES, measure_snapshots
from benchmarks.service.uploads import (
    NAME,
    measure_idle,
    measure_outage,
    measure_phones,
    measure_recovery,
    measure_uploads,
)


def measure(bench: Bench) -> Iterator[Row]:
    """Yield the rows of the requested cases; without Postgres, of those on SQLite."""
    quick, has_postgres = bench.quick, is_postgres_there()
    if not has_postgres:
        print(f"no Postgres answers at {POSTGRES}: its cases are left out", file=sys.stderr)
    sizes = {name: shape for name, shape in SHAPES.items() if not quick or name != "1e6"}
    measures: dict[str, Callable[[str, Path], Iterator[Row]]] = {
        "uploads": partial(measure_uploads, seconds=4.0 if quick else 20.0, runs=1 if quick else 3),
        "snapshot": partial(measure_snapshots, sizes=sizes, runs=50 if quick else 200),
        "outage": partial(measure_outage, devices=1000 if quick else 10_000, connections=200),
        "phones": partial(measure_phones, devices=2000 if quick else 100_000),
        "killed": partial(measure_recovery, runs=1 if quick else 5),
        "idle": measure_idle,
        "sizing": partial(measure_sizing, n=1000 if quick else 10_000),
    }
    for name, each in measures.items():
        for kind in ("sqlite", "postgres"):
            if bench.includes(f"{name} {kind}") and (has_postgres or kind == "sqlite"):
                with tempfile.TemporaryDirectory() as folder:
                    yield from each(kind, Path(folder))


if __name__ == "__main__":
    run(NAME, doc, measure)
