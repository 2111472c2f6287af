from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from benchmarks import local
from benchmarks.experiments import Bench, Options
from benchmarks.local import METHODS, LocalCase, load_records, measure_cases
from benchmarks.reference import compute_sse

SMALL = LocalCase(n_records=20_000, epsilon=Fraction(8), runs=1, quick_runs=1)


def test_each_method_is_measured_on_the_same_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "list_cases", lambda: (SMALL,))
    monkeypatch.setattr(local, "list_marginal_cases", tuple)
    rows = list(measure_cases(Bench(options=Options(quick=True))))
    quality = {row.case: row.value for row in rows if row.figure == "median_relative_sse"}
    assert list(quality) == [f"{SMALL.name} {name}" for name in METHODS]
    centre = quality.pop(f"{SMALL.name} one centre")
    assert 3 < centre < 6
    # At this n and epsilon the tree is far better than one centre, and the grid has large cells.
    assert 1 < quality[f"{SMALL.name} tree"] < 0.8 * centre
    assert quality[f"{SMALL.name} grid"] < 2 * centre


def test_the_box_is_the_case_s_and_records_end_inside_the_narrow_one() -> None:
    dataset = load_records(SMALL, 1000)
    outside = np.mean(np.any(np.abs(dataset.records) > 10, axis=1))
    assert outside < 0.001
    wide = METHODS["grid"](dataset, replace(SMALL, half_width=40.0), 1000)
    narrow = METHODS["grid"](dataset, SMALL, 1000)
    worse, better = (compute_sse(dataset.records, it.centroids) for it in (wide, narrow))
    assert worse > 2 * better
