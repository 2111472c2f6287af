from pathlib import Path

import numpy as np

from benchmarks.sketching_files import measure_formats, run_command, write_plan


def test_every_format_is_sketched_and_has_every_figure() -> None:
    rows = {(row.case, row.figure): row for row in measure_formats(300, 200, runs=1)}
    for kind, n in (("npy", "3e2"), ("csv", "2e2"), ("parquet", "2e2")):
        case = f"{kind} n={n} d=10 m=1000 threads=2"
        for figure in ("seconds", "cpu_seconds", "rows_per_second", "peak_rss_mb"):
            assert rows[case, figure].value > 0
            assert rows[case.replace("threads=2", "threads=1"), figure].value > 0
        assert rows[case, "thread_scaling"].baseline == "threads=1 in the same run"
    assert len(rows) == 27


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    write_plan(tmp_path / "plan.toml", n_frequencies=2)
    costs = []
    for n in (10**5, 2 * 10**6):
        path = tmp_path / f"{n}.npy"
        with path.open("wb") as file:
            header = {"descr": "<f8", "fortran_order": True, "shape": (n, 10)}
            np.lib.format.write_array_header_1_0(file, header)
            # Zeros that take no room on the disk; reading them takes memory like any others.
            file.truncate(file.tell() + n * 10 * 8)
        costs.append(run_command(path, threads=2))
    # The larger file has 160 MB; the smaller does not fill the batches in flight, of 5 MB each.
    assert costs[1].peak_rss_mb < costs[0].peak_rss_mb + 50
