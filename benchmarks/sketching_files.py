"""Speed of sketching files of records, end to end, and memory.

Run as ``python -m benchmarks.sketching_files [--quick] [--json]``. Every figure is of fresh
processes that run ``sfumato sketch``, including the start of the interpreter and imports.
``seconds`` are wall-clock time; ``cpu_seconds`` depend less on other work on the machine. Runs with
one thread and with two take turns.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.rows import Row, run_benchmark

NAME = "sketching_files"
_D, _M = 10, 1000
_CHUNK_RECORDS = 1 << 17
_COMMAND = "import sys; from sfumato.shared.command import main; sys.exit(main())"

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


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Cost of one run: wall-clock and processor seconds, and the largest resident memory."""

    seconds: float
    cpu_seconds: float
    peak_rss_mb: float


def measure(quick: bool) -> Iterator[Row]:
    """Yield the figures of each format."""
    yield from measure_formats(10**6 if quick else 10**7, 10**6, runs=1 if quick else 3)


def measure_formats(n_npy: int, n_other: int, *, runs: int) -> Iterator[Row]:
    """Yield the figures of an ``.npy`` file of some records, and of the other formats.

    The files lie in a temporary folder, one at a time.
    """
    with tempfile.TemporaryDirectory(prefix="sketching-files-") as name:
        folder = Path(name)
        write_plan(folder / "plan.toml", n_frequencies=_M)
        for suffix, n, write in _list_formats(n_npy, n_other):
            path = folder / f"records.{suffix}"
            write(path, n)
            yield from _rows(f"{suffix} n={_show(n)} d={_D} m={_M}", n, _run_in_turn(path, runs))
            path.unlink()


def _run_in_turn(path: Path, runs: int) -> dict[int, list[Cost]]:
    """Run with one thread and with two in turn, so that other work slows both alike."""
    costs: dict[int, list[Cost]] = {1: [], 2: []}
    for _ in range(runs):
        for threads, found in costs.items():
            found.append(run_command(path, threads))
    return costs


def write_plan(path: Path, *, n_frequencies: int) -> None:
    """Write the specification of a plan for the records of this benchmark."""
    dimensions = "".join(_DIMENSION.format(i) for i in range(_D))
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
    # Kilobytes on Linux, bytes on macOS.
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return Cost(
        seconds=seconds,
        cpu_seconds=usage.ru_utime + usage.ru_stime,
        peak_rss_mb=usage.ru_maxrss / unit,
    )


def _rows(case: str, n: int, costs: dict[int, list[Cost]]) -> Iterator[Row]:
    single = np.median([cost.seconds for cost in costs[1]])
    for threads, found in costs.items():
        seconds = float(np.median([cost.seconds for cost in found]))
        figures = [
            ("seconds", seconds, "s", "none"),
            ("cpu_seconds", float(np.median([cost.cpu_seconds for cost in found])), "s", "none"),
            ("rows_per_second", n / seconds, "1/s", "none"),
            ("peak_rss_mb", max(cost.peak_rss_mb for cost in found), "MiB", "none"),
        ]
        if threads > 1:
            scaling = float(single / seconds)
            figures.append(("thread_scaling", scaling, "1", "threads=1 in the same run"))
        for figure, value, unit, baseline in figures:
            yield Row(
                benchmark=NAME,
                case=f"{case} threads={threads}",
                figure=figure,
                value=value,
                unit=unit,
                runs=len(found),
                baseline=baseline,
            )


def _list_formats(
    n_npy: int, n_other: int
) -> Iterator[tuple[str, int, Callable[[Path, int], None]]]:
    yield "npy", n_npy, _write_npy
    yield "csv", n_other, _write_csv
    if importlib.util.find_spec("pyarrow") is not None:
        yield "parquet", n_other, _write_parquet


def _draw(n: int) -> Iterator[NDArray[np.float64]]:
    """Yield n records in chunks, so that writing a file takes no more memory than sketching it."""
    generator = np.random.default_rng(0)
    for start in range(0, n, _CHUNK_RECORDS):
        yield generator.normal(size=(min(_CHUNK_RECORDS, n - start), _D))


def _write_npy(path: Path, n: int) -> None:
    header = {"descr": "<f8", "fortran_order": False, "shape": (n, _D)}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for chunk in _draw(n):
            file.write(chunk.astype("<f8").tobytes())


def _write_csv(path: Path, n: int) -> None:
    with path.open("w", encoding="ascii") as file:
        print(*(f"x{i}" for i in range(_D)), sep=",", file=file)
        for chunk in _draw(n):
            file.writelines(",".join(map(repr, row)) + "\n" for row in chunk.tolist())


def _write_parquet(path: Path, n: int) -> None:
    arrow: Any = importlib.import_module("pyarrow")
    parquet: Any = importlib.import_module("pyarrow.parquet")
    names = [f"x{i}" for i in range(_D)]
    schema = arrow.schema([(name, arrow.float64()) for name in names])
    with parquet.ParquetWriter(path, schema) as writer:
        for chunk in _draw(n):
            columns = [arrow.array(column) for column in chunk.T]
            writer.write_table(arrow.table(columns, names=names))


def _show(n: int) -> str:
    return f"{n:.0e}".replace("e+0", "e")


if __name__ == "__main__":
    run_benchmark(NAME, __doc__.splitlines()[0], measure)
