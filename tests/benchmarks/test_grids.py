import pytest

from benchmarks import grids
from benchmarks.datasets import Mixture
from benchmarks.experiments import Bench, Options
from benchmarks.grids import GridCase, measure_cases

SMALL = GridCase(
    source=Mixture(n_dimensions=2, n_clusters=3, n_records=5000),
    n_epsilon=20_000,
    n_sketches=3,
    runs=1,
    quick_runs=1,
)


def test_both_methods_are_measured_on_the_same_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grids, "list_cases", lambda: (SMALL,))
    rows = list(measure_cases(Bench(options=Options(quick=True))))
    quality = {row.case: row.value for row in rows if row.figure == "median_relative_sse"}
    assert list(quality) == [f"{SMALL.name} {name}" for name in ("grid", "fourier")]
    assert all(0.99 < value < 1.5 for value in quality.values())
