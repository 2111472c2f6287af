"""Files and tables are sketched in processes of their own."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks import sketching
from benchmarks.runner import Bench
from benchmarks.sketching_files import measure_file, run_command, write_plan
from benchmarks.sketching_tables import list_installed, measure_engines
from sfumato.shared.core.engines import list_engines


def test_every_engine_is_compared_with_numpy() -> None:
    rows = list(sketching.measure(Bench(quick=True, cases=["d=2 m=200"])))
    ratios = [row.value for row in rows if row.figure == "ratio_to_float32"]
    assert len(ratios) == len(list_engines())
    assert min(ratios) > 0.0


def test_a_file_has_every_figure() -> None:
    rows = {(row.case, row.figure): row for row in measure_file(300, runs=1)}
    assert len(rows) == 10
    assert all(row.value > 0 for row in rows.values())
    scaling = rows["npy n=3e2 d=10 m=1000 threads=2", "thread_scaling"]
    assert scaling.baseline == "threads=1 in the same run"


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    write_plan(tmp_path / "plan.toml", n_frequencies=2)
    peaks = []
    for n in (10**5, 2 * 10**6):
        path = tmp_path / f"{n}.npy"
        with path.open("wb") as file:
            header = {"descr": "<f8", "fortran_order": True, "shape": (n, 10)}
            np.lib.format.write_array_header_1_0(file, header)
            # Zeros that take no room on the disk; reading them takes memory like any others.
            file.truncate(file.tell() + n * 10 * 8)
        peaks.append(run_command(path, threads=2)[2])
    # The larger file has 160 MB; the smaller does not fill the batches in flight, of 5 MB each.
    assert peaks[1] < peaks[0] + 50


def test_every_engine_of_tables_has_its_figures_and_the_same_sum() -> None:
    pytest.importorskip("duckdb")
    rows = list(measure_engines(2000, ["pyarrow", "duckdb"]))
    assert [(row.figure, row.baseline) for row in rows[:3]] == [
        ("seconds", "none"),
        ("peak_rss_mb", "none"),
        ("relative_seconds", "pyarrow in the same run"),
    ]
    assert len(rows) == 6


@pytest.mark.soak  # worker processes and a Java machine
def test_every_cluster_gives_the_same_sum() -> None:
    names = ["pyarrow", *{"dask", "spark"} & set(list_installed())]
    assert len(list(measure_engines(2000, names))) == 3 * len(names)
