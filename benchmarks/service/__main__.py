"""The command ``python -m benchmarks.service``, and its cases."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks.rows import Row, create_parser, print_rows
from benchmarks.service.crowd import measure_crowd
from benchmarks.service.databases import POSTGRES, is_postgres_there
from benchmarks.service.snapshots import SHAPES, measure_snapshots
from benchmarks.service.uploads import (
    NAME,
    measure_idle,
    measure_outage,
    measure_phones,
    measure_recovery,
    measure_uploads,
)

Measurement = Callable[[Path, bool], Iterator[Row]]


def _uploads(kind: str, replicas: int, folder: Path, quick: bool) -> Iterator[Row]:
    seconds, runs = (4.0, 1) if quick else (20.0, 3)
    return measure_uploads(kind, folder, replicas=replicas, seconds=seconds, runs=runs)


def _snapshots(kind: str, folder: Path, quick: bool) -> Iterator[Row]:
    sizes = {name: shape for name, shape in SHAPES.items() if not quick or name != "1e6"}
    return measure_snapshots(kind, folder, sizes, runs=50 if quick else 200)


def _outage(kind: str, folder: Path, quick: bool) -> Iterator[Row]:
    devices = 1000 if quick else 10_000
    return measure_outage(kind, folder, devices=devices, connections=200)


def _phones(kind: str, folder: Path, quick: bool) -> Iterator[Row]:
    return measure_phones(kind, folder, devices=2000 if quick else 100_000)


def _recovery(kind: str, folder: Path, quick: bool) -> Iterator[Row]:
    return measure_recovery(kind, folder, runs=1 if quick else 5)


def _idle(kind: str, folder: Path, quick: bool) -> Iterator[Row]:
    return measure_idle(kind, folder)


def _crowd(kind: str, folder: Path, quick: bool) -> Iterator[Row]:
    return measure_crowd(kind, folder, n=500 if quick else 5000)


CASES: dict[str, Measurement] = {
    "sqlite": partial(_uploads, "sqlite", 1),
    "postgres replicas=2": partial(_uploads, "postgres", 2),
    "snapshot": partial(_snapshots, "sqlite"),
    "snapshot postgres": partial(_snapshots, "postgres"),
    "outage sqlite": partial(_outage, "sqlite"),
    "outage postgres": partial(_outage, "postgres"),
    "phones sqlite": partial(_phones, "sqlite"),
    "phones postgres": partial(_phones, "postgres"),
    "killed sqlite": partial(_recovery, "sqlite"),
    "killed postgres": partial(_recovery, "postgres"),
    "idle sqlite": partial(_idle, "sqlite"),
    "idle postgres": partial(_idle, "postgres"),
    "crowd sqlite": partial(_crowd, "sqlite"),
    "crowd postgres": partial(_crowd, "postgres"),
}


def measure(quick: bool, *, only: str = "") -> Iterator[Row]:
    """Yield the rows of the case named ``only``, else of all cases with it in their name."""
    chosen = [only] if only in CASES else [name for name in CASES if only in name]
    if not only and not is_postgres_there():
        print(f"no Postgres answers at {POSTGRES}: its cases are left out", file=sys.stderr)
        chosen = [name for name in chosen if "postgres" not in name]
    for name in chosen:
        with tempfile.TemporaryDirectory() as folder:
            yield from CASES[name](Path(folder), quick)


def main() -> None:
    """Read the options and print rows."""
    parser = create_parser(NAME, "Measure the aggregator as a service.")
    parser.add_argument(
        "--case", default="", metavar="TEXT", help=f"cases with TEXT in their name: {list(CASES)}"
    )
    options = parser.parse_args()
    print_rows(measure(options.quick, only=options.case), as_json=options.json)


if __name__ == "__main__":
    main()
