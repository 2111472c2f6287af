from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from benchmarks import methods
from benchmarks.contenders import CONTENDERS, SKETCH
from benchmarks.datasets import Dataset
from benchmarks.experiments import Bench, Options
from benchmarks.method_pictures import draw_methods
from benchmarks.methods import MethodCase, Shape, measure_cases

SMALL = (
    MethodCase(
        source=Shape(n_dimensions=2, n_clusters=3, n_records=4000),
        n_epsilon=4_000,
        runs=1,
        quick_runs=1,
    ),
    MethodCase(
        source=Shape(n_dimensions=2, n_clusters=3, n_records=4000),
        n_epsilon=40_000,
        runs=1,
        quick_runs=1,
    ),
)


def test_all_methods_are_measured_and_drawn_and_each_case_as_soon_as_it_is_known(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(methods, "list_cases", lambda: SMALL)
    kept = {name: CONTENDERS[name] for name in (SKETCH, "grid", "tree", "lloyd-published")}
    monkeypatch.setattr(methods, "CONTENDERS", kept)
    loaded: list[int] = []
    load = MethodCase.load

    def note(case: MethodCase, seed: int) -> Dataset:
        loaded.append(case.n_epsilon)
        return load(case, seed)

    monkeypatch.setattr(MethodCase, "load", note)
    measured = measure_cases(Bench(options=Options(quick=True, cases=("n=4e+03",))))
    first = next(measured)
    # A run of hours that is stopped keeps what it has measured.
    assert set(loaded) == {4_000}
    rows = [first, *measured]
    assert set(loaded) == {4_000, 40_000}
    medians = {row.case: row.value for row in rows if row.figure == "median_relative_sse"}
    assert len(medians) == 8
    assert all(value > 0.99 for value in medians.values())
    assert min(medians.values()) < 1.5
    draw_methods(rows, tmp_path / "methods.png")
    assert (tmp_path / "methods.png").stat().st_size > 10_000


def test_every_contender_spends_all_of_epsilon() -> None:
    dataset = Shape(n_dimensions=2, n_clusters=3, n_records=2000).load(1)
    for name, contender in CONTENDERS.items():
        if not name.startswith(SKETCH):
            run = contender(dataset, Fraction(8), 1, 1.0)
            assert run.spent == 8, name
            assert run.centroids.shape == (3, 2)
            assert run.n_bytes > 0
