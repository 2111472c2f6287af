"""Speed of sketching a file of records, end to end, and memory.

Run as ``python -m benchmarks.sketching_files [--quick] [--json]``. Every figure is of fresh
processes that run ``sfumato sketch`` on an ``.npy`` file, including the start of the interpreter
and imports. ``seconds`` are wall-clock time; ``cpu_seconds`` depend less on other work on the
machine. Runs with one thread and with two take turns, so that other work slows both alike.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.runner import Bench, Figure, Row, make_rows, run

NAME = "sketching_files"
D, M = 10, 1000
_CHUNK_RECORDS = 1 << 17
_COMMAND = "import sys; from sfumato.shared.command import main; sys.exit(main())"
# Kilobytes on Linux, bytes on macOS.
UNIT = 2**20 if sys.platform == "darwin" else 2**10
_PLAN = """
n_frequencies = {}
seed = "benchmark of sketching files"
epsilon = "1"
most_records = 100000000

[window]
kind = "count"
length = 100000000
"""
_DIMENSION = """
[[dimensions]]
name = "x{}"
unit = "1"
lower = -6.0
upper = 6.0
scale = 0.5
"""

Cost = tuple[float, float, float]
"""Wall-clock and processor seconds of one run, and the largest resident memory in MiB."""


def measure(bench: Bench) -> Iterator[Row]:
    """Yield the figures of a file."""
    yield from measure_file(10**6 if bench.quick else 10**7, bench.count_runs(3, 1))


def measure_file(n: int, runs: int) -> Iterator[Row]:
    """Yield the figures of ``n`` records, with one thread and with two."""
    costs: dict[int, list[Cost]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory(prefix="sketching-files-") as name:
        path = Path(name) / "records.npy"
        write_plan(Path(name) / "plan.toml", n_frequencies=M)
        _write_records(path, n)
        for _ in range(runs):
            for threads, found in costs.items():
                found.append(run_command(path, threads))
    single, _, _ = np.median(costs[1], axis=0)
    for threads, found in costs.items():
        seconds, cpu_seconds, _ = np.median(found, axis=0)
        figures: list[Figure] = [
            ("seconds", seconds, "s"),
            ("cpu_seconds", cpu_seconds, "s"),
            ("rows_per_second", n / seconds, "1/s"),
            ("peak_rss_mb", max(peak for _, _, peak in found), "MiB"),
            ("thread_scaling", single / seconds, "1", "threads=1 in the same run"),
        ]
        case = f"npy n={f'{n:.0e}'.replace('e+0', 'e')} d={D} m={M} threads={threads}"
        yield from make_rows(NAME, case, figures, runs=runs)


def write_plan(path: Path, *, n_frequencies: int) -> None:
    """Write the specification of a plan for the records of this benchmark."""
    dimensions = "".join(_DIMENSION.format(i) for i in range(D))
    path.write_text(_PLAN.format(n_frequencies) + dimensions, encoding="utf-8")


def run_command(path: Path, threads: int) -> Cost:
    """Sketch a file in a fresh process, by the plan beside it, and return the cost."""
    output = path.with_suffix(".sketch")
    output.unlink(missing_ok=True)
    plan = path.with_name("plan.toml")
    options = ["--plan", str(plan), "--threads", str(threads), "-o", str(output), "--json"]
    start = time.perf_counter()
    child = os.posix_spawn(
        sys.executable,
        [sys.executable, "-c", _COMMAND, "sketch", str(path), *options],
        os.environ,
        # Standard output is the benchmark's own.
        file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)],
    )
    _, status, usage = os.wait4(child, 0)
    seconds = time.perf_counter() - start
    if status != 0:
        raise RuntimeError(f"`sfumato sketch` failed on {path}")
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / UNIT


def _write_records(path: Path, n: int) -> None:
    """Write in chunks, so that it takes no more memory than sketching does."""
    header, generator = (
        {"descr": "<f8", "fortran_order": False, "shape": (n, D)},
        np.random.default_rng(0),
    )
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, n, _CHUNK_RECORDS):
            chunk = generator.normal(size=(min(_CHUNK_RECORDS, n - start), D))
            file.write(chunk.astype("<f8").tobytes())


if __name__ == "__main__":
    run(NAME, __doc__, measure)
