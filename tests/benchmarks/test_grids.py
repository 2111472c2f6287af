from dataclasses import replace

import numpy as np
import pytest

from benchmarks import grids
from benchmarks.datasets import Mixture
from benchmarks.experiments import Bench, Options
from benchmarks.grids import GridCase, count_cells, list_cases, measure_cases

SMALL = GridCase(
    source=Mixture(n_dimensions=2, n_clusters=3, n_records=5000),
    n_epsilon=20_000,
    n_sketches=3,
    runs=1,
    quick_runs=1,
)


def test_names_are_unique_and_quick_runs_are_few() -> None:
    cases = list_cases()
    assert len({case.name for case in cases}) == len(cases)
    assert sum(case.quick_runs for case in cases) <= 4


def test_both_methods_are_measured_on_the_same_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grids, "list_cases", lambda: (SMALL,))
    rows = list(measure_cases(Bench(options=Options(quick=True))))
    quality = {row.case: row.value for row in rows if row.figure == "median_relative_sse"}
    assert list(quality) == [f"{SMALL.name} {name}" for name in ("grid", "fourier")]
    assert all(0.99 < value < 1.5 for value in quality.values())


def test_a_wider_box_holds_the_same_records_in_fewer_cells() -> None:
    narrow, wide = SMALL.load(1000), replace(SMALL, box=3.0).load(1000)
    np.testing.assert_array_equal(narrow.records, wide.records)
    counts = [count_cells(dataset.records, dataset, (20, 20)) for dataset in (narrow, wide)]
    assert [int(c.sum()) for c in counts] == [5000, 5000]
    assert np.count_nonzero(counts[1]) < np.count_nonzero(counts[0])
    assert counts[0][-1] == 0
