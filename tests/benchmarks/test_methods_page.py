"""The page of methods has every class, every case, and tables of one width."""

from __future__ import annotations

import re

from benchmarks.contenders import CONTENDERS
from benchmarks.methods_page import METHODS, write_page
from benchmarks.rows import Row

CASES = {
    "weather n_eps=1e+04": {"compressive": 1.2, "grid": 1.0, "tree": 1.1},
    "d=10 k=10 n_eps=1e+05": {"compressive": 1.0, "grid": 1.3, "tree": 1.1},
    "d=2 k=4 n=2e+04 no scale n_eps=1e+04": {"compressive": 1.1, "grid": 1.0},
    "fleet weather n_eps=3e+04 L=100": {"compressive": 1.1, "grid": 1.2},
    "local d=10 k=10 n=1e+04 eps=1": {"reports": 2.0, "one centre": 3.5},
}


def make_rows() -> list[Row]:
    rows = []
    for case, found in CASES.items():
        for name, sse in found.items():
            for figure, value in (
                ("median_relative_sse", sse),
                ("p90_relative_sse", 1.5 * sse),
                ("cpu", 0.25),
                ("released", 1000.0),
                ("rounds", 2.0),
            ):
                rows.append(Row("methods", f"{case} {name}", figure, value, "1", 3, ""))
    return rows


def test_every_table_has_its_rows() -> None:
    page = write_page([row.to_json() for row in make_rows()], "2026-11-23", "../pictures/x.png")
    assert page.startswith("# Private k-means, method by method\n\nMeasured on 2026-11-23 by")
    assert "![Quality over n epsilon](../pictures/x.png)" in page
    assert "| weather n_eps=1e+04 | grid | 1.00 | 1.20 | 1.20 |" in page
    assert "| grid | 0.25 | 1,000 | 2 | no |" in page
    assert "| compressive | 1.00/1.50 |" in page
    assert "| weather n_eps=3e+04 L=100 | 1.10/1.65 | 1.20/1.80 |" in page
    assert "| d=10 k=10 n=1e+04 eps=1 | 2.00/3.00 | 3.50/5.25 |" in page
    assert "| always grid, a scale | 2 |" in page
    for table in page.split("\n\n"):
        lines = [line for line in table.splitlines() if line.startswith("|")]
        assert len({line.count("|") for line in lines}) <= 1


def test_every_class_that_can_be_used_has_a_row_of_a_contender() -> None:
    from sfumato.analyst import estimators

    classes = {name for name in estimators.__all__ if name.endswith("KMeans")}
    assert {re.split(r"[.(]", method.name)[0] for method in METHODS} == classes
    assert {method.contender for method in METHODS} - {""} <= set(CONTENDERS)


def test_medians_of_many_seeds_stand_beside_a_trial_and_a_star_marks_what_differs() -> None:
    def list_rows(runs: int) -> list[str]:
        case = "d=10 k=10 n_eps=1e+05"
        found = {"compressive": 1.04, "tree": 1.06, "lloyd-published": 1.0}
        rows = [
            Row("methods", f"{case} {name}", "median_relative_sse", sse, "1", runs, "")
            for name, sse in found.items()
        ]
        return [row.to_json() for row in rows]

    page = write_page(list_rows(20), "2026-11-23")
    assert "| d=10 k=10 | compressive | - | - | 1.00, 1.04 | - |" in page
    # Ours may be better than the trial; what is published must be as it was.
    assert "| d=10 k=10 | tree | - | - | 1.00, 1.06 * | - |" in page
    assert "| d=10 k=10 | lloyd-published | - | - | 1.55, 1.00 * | - |" in page
    assert "* `lloyd-published`: one start" in page
    assert "earlier trial" not in write_page(list_rows(5), "2026-11-23")
