import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.packages import PackageUnavailableError
from benchmarks.runner import Bench, Case, find_crossing, make_rows, measure_cases, read_count
from sfumato.shared.errors import ConfigError, SketchError
from tests.forking import Forked

ROOT = Path(__file__).parents[2]


def make_case(name: str, *, quick_runs: int = 0, runs: int = 20) -> Case[int, int]:
    return Case(
        name=name,
        load=lambda seed: seed,
        methods={"sum": lambda data, seed: data + seed, "zero": lambda data, seed: 0},
        summarise=lambda found: [("median", np.median(found)), ("endless", np.inf)],
        runs=runs,
        quick_runs=quick_runs,
    )


CASES = [make_case("a", quick_runs=3), make_case("b"), make_case("private a", runs=5)]


def measure(bench: Bench) -> dict[str, tuple[float, int]]:
    return {row.case: (row.value, row.runs) for row in measure_cases("test", bench, CASES)}


def test_all_cases_run_unless_some_are_named_or_the_run_is_quick() -> None:
    assert len(measure(Bench())) == 6
    assert measure(Bench(quick=True)) == {"a sum": (2002.0, 3), "a zero": (0.0, 3)}
    assert set(measure(Bench(cases=["b", "private a z"]))) == {"b sum", "b zero", "private a zero"}
    assert measure(Bench(cases=["private a sum"], quick=True)) == {"private a sum": (2002.0, 3)}
    assert measure(Bench(cases=["b sum"], seeds=2, first_seed=7)) == {"b sum": (15.0, 2)}


def test_a_part_that_no_case_has_is_refused_with_the_names() -> None:
    bench = Bench(cases=["c"])
    assert measure(bench) == {}
    with pytest.raises(ConfigError, match="a sum; a zero; b sum"):
        bench.require_match()


def test_cases_without_data_and_methods_that_refuse_are_left_out_with_a_word(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refuse(data: int, seed: int) -> int:
        raise SketchError("has no plan", field="sum")

    def load(seed: int) -> int:
        raise PackageUnavailableError("could not be fetched", field="river")

    found = [
        Case(name="c", load=load, methods={"": refuse}, summarise=lambda _: []),
        Case(name="d", load=int, methods={"x": refuse, "y": lambda d, s: 1}, summarise=list_one),
    ]
    rows = list(measure_cases("test", Bench(seeds=1), found))
    assert [row.case for row in rows] == ["d y"]
    told = capsys.readouterr().err
    assert "without c: river: could not be fetched" in told
    assert "without d x, seed 1000: sum: has no plan" in told


def list_one(found: object) -> list[tuple[str, float]]:
    return [("one", 1.0)]


def test_a_figure_has_its_own_unit_and_baseline_or_the_usual_ones() -> None:
    figures = ("a", 1), ("b", 2, "s"), ("c", 3, "B", "other"), ("d", float("nan"))
    rows = list(make_rows("test", "case", figures, runs=3, baseline="usual"))
    assert [(row.unit, row.baseline) for row in rows] == [
        ("1", "usual"),
        ("s", "usual"),
        ("B", "other"),
    ]


def test_a_crossing_is_between_the_points_around_it() -> None:
    points = [(1e-3, 3.0), (1e-2, 1.44), (1e-1, 1.0)]
    assert find_crossing(points, 1.2) == pytest.approx(10**-1.5)
    # A curve that never falls below, or rises again, has none; one that is below has its start.
    assert find_crossing([(1e-3, 1.0), (1e-2, 1.3)], 1.2) is None
    assert find_crossing([(1e-3, 1.1), (1e-2, 1.0)], 1.2) == 1e-3
    assert find_crossing([], 1.2) is None


def test_a_count_is_at_least_one() -> None:
    assert read_count("3") == 3
    for text in ("0", "-1", "x"):
        with pytest.raises(Exception, match="must be a whole number of at least 1"):
            read_count(text)


def test_the_command_prints_one_json_object_a_line_and_a_bar_in_a_terminal(tmp_path: Path) -> None:
    leader, follower = os.openpty()
    command = [sys.executable, "-m", "benchmarks", "--json", "--case", "reported_pilots", "--quick"]
    with (tmp_path / "rows").open("wb") as output:
        process: subprocess.Popen[bytes] = Forked(
            command, cwd=ROOT, stdout=output, stderr=follower, env=os.environ | {"TERM": "xterm"}
        )
        os.close(follower)
        assert process.wait() == 0
    os.close(leader)
    rows = [json.loads(line) for line in (tmp_path / "rows").read_text().splitlines()]
    assert {row["benchmark"] for row in rows} == {"reported_pilots"}
    for row in rows:
        assert list(row) == [
            *("benchmark", "case", "figure", "value", "unit", "runs", "baseline"),
            *("commit", "machine"),
        ]
