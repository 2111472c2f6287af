"""Engines are compared with NumPy, and tables are sketched in processes of their own."""

import pytest

from benchmarks import sketching
from benchmarks.runner import Bench
from benchmarks.sketching_tables import list_installed, measure_engines
from sfumato.shared.core.engines import list_engines


def test_every_engine_is_compared_with_numpy() -> None:
    rows = list(sketching.measure(Bench(quick=True, cases=["d=2 m=200"])))
    ratios = [row.value for row in rows if row.figure == "ratio_to_float32"]
    assert len(ratios) == len(list_engines())
    assert min(ratios) > 0.0


def test_every_engine_of_tables_has_its_figures_and_the_same_sum() -> None:
    pytest.importorskip("duckdb")
    rows = list(measure_engines(2000, ["pyarrow", "duckdb"]))
    assert [(row.figure, row.baseline) for row in rows[:4]] == [
        ("seconds", "none"),
        ("core_seconds", "none"),
        ("peak_rss_mb", "none"),
        ("relative_core_seconds", "pyarrow in the same run"),
    ]
    assert len(rows) == 8


@pytest.mark.soak  # worker processes and a Java machine
def test_every_cluster_gives_the_same_sum() -> None:
    names = ["pyarrow", *{"dask", "spark"} & set(list_installed())]
    assert len(list(measure_engines(2000, names))) == 4 * len(names)
