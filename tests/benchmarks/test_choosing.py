"""The table behind the choice of a method: what it is fitted to, and its regret elsewhere."""

from __future__ import annotations

import math

import pytest

from benchmarks.choosing import (
    add_to_table,
    fit_table,
    format_table,
    measure_regret,
    read_trials,
)
from benchmarks.runner import Row

DELTA = "-delta=1e-6"
REACHED: dict[str, dict[str, float]] = {
    "weather n_eps=1e+04": {"compressive": 1.2, "grid": 1.0, "tree": 1.1},
    "d=4 k=5 n_eps=1e+04": {"compressive": 1.5, "grid": 1.0, f"compressive{DELTA}": 1.1},
    "d=4 k=5 stretched n=2e+04 n_eps=1e+04": {"compressive": 1.3, "grid": 1.2, "tree": 1.0},
    "d=4 k=5 no scale n_eps=1e+04": {"compressive": 1.4, "grid": 1.1, f"cover{DELTA}": 1.05},
    "d=4 k=5 wide n_eps=1e+04": {"compressive": 9.0},
    "fleet d=4 k=5 n_eps=1e+04 L=10": {"compressive": 9.0},
}


def make_rows(figure: str = "median_relative_sse") -> list[Row]:
    return [
        Row("methods", f"{case} {name}", figure, sse, "1", 3, "")
        for case, found in REACHED.items()
        for name, sse in found.items()
    ]


def test_rows_of_curators_in_narrow_boxes_are_read() -> None:
    trials = read_trials([*make_rows(), *make_rows("cpu")])
    assert [(trial.source, trial.knows_scale) for trial in trials] == [
        ("d=4 k=5", False),
        ("d=4 k=5", True),
        ("d=4 k=5 stretched n=2e+04", True),
        ("weather", True),
    ]
    assert {trial.strength for trial in trials} == {2000}
    assert {trial.n_dimensions for trial in trials} == {4}


def test_a_row_of_the_table_is_the_geometric_mean_over_sets() -> None:
    without, known = fit_table(read_trials(make_rows()))
    assert (known.knows_scale, known.n_dimensions, known.strength) == (True, 4, 3200)
    assert known.expected["grid"] == pytest.approx(1.2 ** (1 / 3))
    assert known.expected["tree"] == pytest.approx(math.sqrt(1.1))
    assert known.expected["compressive with delta"] == pytest.approx(1.1)
    assert without.expected["cover"] == pytest.approx(1.05)


def test_a_table_is_written_as_a_module_that_can_be_read() -> None:
    table = fit_table(read_trials(make_rows()))
    read: dict[str, object] = {}
    exec(format_table(table), read)
    rows, columns = read["ROWS"], read["COLUMNS"]
    assert isinstance(rows, tuple)
    assert isinstance(columns, tuple)
    knows_scale, d, strength, figures = rows[1]
    assert (knows_scale, d, strength) == (True, 4, 3200.0)
    assert dict(zip(columns, figures, strict=True))["grid"] == pytest.approx(1.06, abs=0.01)
    # What was not measured is 0.
    assert dict(zip(columns, figures, strict=True))["cover"] == 0.0


def test_a_method_is_added_to_a_table_that_keeps_the_rest() -> None:
    table = fit_table(read_trials(make_rows()))
    known = table[1]
    found = [
        Row("methods", f"{case} split{DELTA}", "median_relative_sse", 1.01, "1", 3, "")
        for case in ("d=4 k=5 n_eps=1e+04", "d=64 k=5 n_eps=1e+04")
    ]
    added = add_to_table(fit_table(read_trials(found)), table)
    # A row of split cells alone would tell those without a delta nothing.
    assert [row.n_dimensions for row in added] == [4, 4]
    assert added[0] == table[0]
    assert dict(added[1].expected) == {**known.expected, "split": pytest.approx(1.01)}


def test_regret_is_that_of_a_table_without_the_set() -> None:
    found = {(row.case, row.figure): row.value for row in measure_regret(read_trials(make_rows()))}
    # Two sets each say what to use on the third: the grid on the stretched one, where the tree is
    # better by 1.2; the tree, as on that one, on weather, where the grid is better by 1.1; and the
    # grid on the round one, which is right.
    assert found["choice, a scale", "worst_regret"] == pytest.approx(1.2)
    assert found["choice, a scale", "mean_regret"] == pytest.approx(1.32 ** (1 / 3))
    assert found["always compressive, a scale", "worst_regret"] == pytest.approx(1.5)
    assert found["always compressive, a scale, delta", "worst_regret"] == pytest.approx(1.3)
