"""Speed of sketching tables from Arrow, DuckDB, Polars, Dask and Spark.

Run as ``python -m benchmarks.sketching_tables [--quick] [--json]``. The records lie in twenty
Parquet files. Every figure is of a fresh process, including the start of the interpreter, imports
and the engine. All sums must be equal bit for bit, or the benchmark fails. Engines that are not
installed are left out. ``seconds`` are wall-clock time; those of ``dask`` and ``spark`` have two
workers, the others one process. A hundred million records, on clusters alone, need 4 GB of disk.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.runner import Bench, Row, make_rows, run
from sfumato.analyst.sketching.datasets import sketch_dataset
from sfumato.analyst.sketching.sketch_file import SketchFile
from sfumato.shared.plan import Dimension, PlanSpec, SketchPlan, WindowRule, create_plan

NAME = "sketching_tables"
D, M = 10, 1000
_N_FILES = 20
_BASELINE = "pyarrow"
_WORKERS = 2
_CLUSTERS = ("dask", "spark")


def measure(bench: Bench) -> Iterator[Row]:
    """Yield the figures of each engine; those of the baseline, which is the first, always."""
    names = [name for name in list_installed() if name == _BASELINE or bench.includes(name)]
    yield from measure_engines(10**6 if bench.quick else 10**7, names)
    if not bench.quick:
        clusters = [name for name in names if name in _CLUSTERS]
        yield from measure_engines(10**8, [_BASELINE, *clusters])


def list_installed() -> list[str]:
    """Return the engines that can be measured here; the baseline is the first."""
    modules = {"duckdb": "duckdb", "polars": "polars", "dask": "distributed", "spark": "pyspark"}
    found = [name for name, module in modules.items() if importlib.util.find_spec(module)]
    return [_BASELINE, "dataset", *found]


def measure_engines(n: int, names: list[str]) -> Iterator[Row]:
    """Yield the figures of some engines over ``n`` records; the first is the baseline.

    Raises
    ------
    RuntimeError
        The sum of an engine is not that of the first.
    """
    with tempfile.TemporaryDirectory(prefix="sketching-tables-") as name:
        folder = Path(name)
        _write_files(folder / "records", n)
        expected, single = "", 0.0
        for engine in names:
            seconds, peak, digest = _run(engine, folder)
            expected, single = expected or digest, single or seconds
            if digest != expected:
                raise RuntimeError(f"the sum of {engine} differs from that of {names[0]}")
            cores = _WORKERS if engine in _CLUSTERS else 1
            figures = (
                ("seconds", seconds, "s"),
                ("core_seconds", cores * seconds, "s"),
                ("peak_rss_mb", peak, "MiB"),
                (
                    "relative_core_seconds",
                    cores * seconds / single,
                    "1",
                    f"{names[0]} in the same run",
                ),
            )
            yield from make_rows(NAME, f"{engine} n={n:.0e} d={D} m={M}", figures)


def _write_files(folder: Path, n: int) -> None:
    arrow: Any = importlib.import_module("pyarrow")
    parquet: Any = importlib.import_module("pyarrow.parquet")
    folder.mkdir()
    generator = np.random.default_rng(0)
    names = [f"x{i}" for i in range(D)]
    for number in range(_N_FILES):
        records = generator.standard_normal((n // _N_FILES, D), dtype=np.float32)
        table = arrow.table([arrow.array(column) for column in records.T], names=names)
        parquet.write_table(table, folder / f"{number:02}.parquet", compression="none")


def _run(engine: str, folder: Path) -> tuple[float, float, str]:
    """Sketch in a fresh process; return how long all of it took, its memory, and the digest."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "benchmarks.sketching_tables", "--engine", engine, str(folder)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    seconds = time.perf_counter() - start
    peak, digest = json.loads(done.stdout.splitlines()[-1])
    return seconds, peak, digest


def _make_plan() -> SketchPlan:
    most = 100_000_000
    return create_plan(
        PlanSpec(
            dimensions=tuple(
                Dimension(name=f"x{i}", unit="1", lower=-6.0, upper=6.0, scale=0.5)
                for i in range(D)
            ),
            n_frequencies=M,
            seed="benchmark of sketching files",
            epsilon=Fraction(1),
            window=WindowRule(kind="count", length=most),
            most_records=most,
        )
    )


def _sketch_batches(folder: Path, plan: SketchPlan) -> SketchFile:
    parquet: Any = importlib.import_module("pyarrow.parquet")
    batches = (
        batch
        for path in sorted(folder.iterdir())
        for batch in parquet.ParquetFile(path).iter_batches(use_threads=False)
    )
    return sketch_dataset(batches, plan, exact=True, n_threads=1)


def _sketch_dataset(folder: Path, plan: SketchPlan) -> SketchFile:
    datasets: Any = importlib.import_module("pyarrow.dataset")
    return sketch_dataset(datasets.dataset(folder), plan, exact=True, n_threads=1)


def _sketch_duckdb(folder: Path, plan: SketchPlan) -> SketchFile:
    duckdb: Any = importlib.import_module("duckdb")
    with duckdb.connect(config={"threads": 1}) as connection:
        relation = connection.sql(f"SELECT * FROM '{folder}/*.parquet'")
        return sketch_dataset(relation, plan, exact=True, n_threads=1)


def _sketch_polars(folder: Path, plan: SketchPlan) -> SketchFile:
    polars: Any = importlib.import_module("polars")
    batches = polars.scan_parquet(folder / "*.parquet").collect_batches()
    return sketch_dataset(batches, plan, exact=True, n_threads=1)


def _sketch_dask(folder: Path, plan: SketchPlan) -> SketchFile:
    distributed: Any = importlib.import_module("distributed")
    frames: Any = importlib.import_module("dask.dataframe")
    clusters: Any = importlib.import_module("sfumato.analyst.sketching.dask")
    with distributed.Client(
        n_workers=_WORKERS, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
    ):
        frame = frames.read_parquet(folder, aggregate_files=False)
        sketch: SketchFile = clusters.sketch_dask(frame, plan, exact=True)
    return sketch


def _sketch_spark(folder: Path, plan: SketchPlan) -> SketchFile:
    sql: Any = importlib.import_module("pyspark.sql")
    clusters: Any = importlib.import_module("sfumato.analyst.sketching.spark")
    builder = sql.SparkSession.builder.master(f"local[{_WORKERS}]")
    settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1"}
    # Otherwise its workers are the first Python on the path, which may have no pyarrow.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = builder.config(map=settings).getOrCreate()
    try:
        sketch: SketchFile = clusters.sketch_spark(
            session.read.parquet(str(folder)), plan, exact=True
        )
    finally:
        session.stop()
    return sketch


_ENGINES: Mapping[str, Callable[[Path, SketchPlan], SketchFile]] = {
    _BASELINE: _sketch_batches,
    "dataset": _sketch_dataset,
    "duckdb": _sketch_duckdb,
    "polars": _sketch_polars,
    "dask": _sketch_dask,
    "spark": _sketch_spark,
}


def _sketch_with(engine: str, folder: Path) -> None:
    sketch = _ENGINES[engine](folder / "records", _make_plan())
    digest = hashlib.sha256(sketch.sums.tobytes()).hexdigest()
    sys.stdout.write(json.dumps([_find_peak(), digest]) + os.linesep)


def _find_peak() -> float:
    """Return the most memory that this process held, in MiB.

    On Linux ``getrusage`` counts that of the process before ``exec`` too, which wrote the records.
    """
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        resource: Any = importlib.import_module("resource")
        return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) / 2**20
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 2**10


if __name__ == "__main__":
    if sys.argv[1:2] == ["--engine"]:
        _sketch_with(sys.argv[2], Path(sys.argv[3]))
    else:
        run(NAME, __doc__, measure)
