from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from benchmarks.experiments import Bench, Options
from benchmarks.figures import draw_fleets
from benchmarks.fleets import FleetCase, _run, choose_design
from benchmarks.rows import Row

SMALL = FleetCase(n_records=20_000, n_sketches=50, epsilon=Fraction(5), runs=1)


def test_the_planner_splits_for_a_fleet_and_not_for_one_sketch() -> None:
    case = replace(SMALL, n_records=10**6, n_sketches=1000, epsilon=Fraction(1, 10))
    split, whole, one = (choose_design(case, form) for form in ("split", "whole", "one"))
    assert split.is_split
    assert [whole.is_split, one.is_split] == [False, False]
    assert split.sketch_bytes < whole.sketch_bytes


def test_a_small_fleet_is_sketched_and_decoded() -> None:
    chosen = choose_design(SMALL, "split")
    bench = Bench(options=Options(first_seed=1000))
    (quality,) = _run(bench, SMALL, "split", chosen)
    assert 0.99 < quality < 1.5


def test_the_picture_has_both_curves(tmp_path: Path) -> None:
    rows = [
        Row(
            "fleets", f"n=1e+06 L={size} eps=0.1 alike {form}", "median_relative_sse", y, "1", 1, ""
        )
        for size, form, y in ((1, "one", 1.0), (1000, "split", 1.02), (1000, "whole", 3.5))
    ]
    draw_fleets(rows, tmp_path / "fleets.png")
    assert (tmp_path / "fleets.png").stat().st_size > 10_000
