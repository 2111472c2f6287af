"""Fleets and phones beside the curator's methods, and the picture of all."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from benchmarks import method_fleets
from benchmarks.datasets import Mixture
from benchmarks.experiments import Bench, Options
from benchmarks.grids import GridCase
from benchmarks.local import LocalCase
from benchmarks.method_fleets import (
    FleetCase,
    PhoneCase,
    measure_fleets,
)
from benchmarks.method_pictures import collect_fleets, collect_sets, draw_methods
from benchmarks.rows import Row

SMALL = FleetCase(
    grid=GridCase(
        source=Mixture(n_dimensions=2, n_clusters=3, n_records=4000),
        n_epsilon=40_000,
        n_sketches=5,
    ),
    runs=1,
)
PHONES = PhoneCase(phones=LocalCase(n_records=1000, epsilon=Fraction(3)), runs=1)


def test_methods_that_need_no_curator_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(method_fleets, "list_fleet_cases", lambda: (SMALL, PHONES))
    # Without reports of phases, which take a second.
    options = Options(cases=("fleet", "grid", "tree", "one centre"))
    rows = list(measure_fleets(Bench(options=options)))
    medians = {row.case: row.value for row in rows if row.figure == "median_relative_sse"}
    fleet = "fleet d=2 k=3 n_eps=4e+04 L=5"
    assert set(medians) == {
        *(f"{fleet} {name}" for name in ("compressive", "whole", "grid")),
        *(f"{PHONES.name} {name}" for name in ("grid", "tree", "one centre")),
    }
    assert min(medians.values()) > 0.99
    assert medians[f"{fleet} compressive"] < 1.3


def test_panels_are_those_of_sets_and_of_fleets(tmp_path: Path) -> None:
    rows = [
        Row("methods", f"{case} {name}", "median_relative_sse", y, "1", 1, "")
        for case, y in (
            ("weather n_eps=1e+03", 1.5),
            ("weather n_eps=1e+04", 1.1),
            ("d=2 k=4 stretched n=2e+04 n_eps=1e+03", 1.3),
            ("weather no scale n_eps=1e+03", 1.3),
            ("fleet weather n_eps=3e+04 L=1", 1.0),
            ("fleet weather n_eps=3e+04 L=100", 1.4),
            ("local n=1e+04 eps=1", 4.0),
        )
        for name in ("compressive", "grid")
    ]
    sets, fleets = collect_sets(rows, "median_relative_sse"), collect_fleets(rows)
    assert list(sets) == ["weather"]
    assert sets["weather"]["grid"] == [(1000, 1.5), (10_000, 1.1)]
    assert fleets["weather n_eps=3e+04"]["grid"] == [(1, 1.0), (100, 1.4)]
    draw_methods(rows, tmp_path / "methods.png")
    assert (tmp_path / "methods.png").stat().st_size > 10_000
