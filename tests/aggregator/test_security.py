import ast
import re
from pathlib import Path

import pytest

from tests.aggregator.api.test_access import list_calls

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "explanation" / "security.md").read_text()


def find_tests() -> set[str]:
    """Return the names of all test functions of this project."""
    return {
        node.name
        for path in TESTS.rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    }


def read_controls(section: str) -> list[list[str]]:
    table = PAGE.partition(f"## {section}")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows[1:]]


@pytest.mark.parametrize(("section", "least"), [("Controls", 20), ("Secure sums", 15)])
def test_every_control_of_the_threat_model_names_a_test_that_exists(
    section: str, least: int
) -> None:
    controls, known = read_controls(section), find_tests()
    assert len(controls) > least
    for threat, control, proofs in controls:
        named = re.findall(r"`(test_\w+)`", proofs)
        assert named, (threat, control)
        assert set(named) <= known, set(named) - known


@pytest.mark.parametrize("scope", ["analyst", "operator"])
def test_the_table_says_all_that_a_scope_may_do(scope: str) -> None:
    (may,) = (row[2] for row in read_controls("Who can do what") if row[0] == scope)
    left = []
    for _, path in list_calls(scope):
        last = re.findall(r"/([a-z-]+)", path)[-1]
        if not any(word in may for word in (last.replace("-", " "), last[:-1])):
            left.append(path)
    assert left == []


def test_every_test_of_limits_and_keys_is_named_by_a_control_or_plainly_none() -> None:
    """Keep the page from falling behind: new tests of controls are listed or excused here."""
    excused = {
        "test_a_body_that_says_it_is_not_compressed_is_read",
        "test_parameters_of_a_media_type_do_not_matter",
        "test_every_window_of_a_device_that_was_away_fits_its_burst",
        "test_an_enrol_key_lets_devices_enrol",
        "test_no_call_of_an_operator_that_changes_something_is_left_out",
        "test_what_is_refused_or_changes_nothing_is_not_in_the_audit_log",
        "test_the_audit_log_is_listed_in_pages",
    }
    for name in ("test_limits.py", "test_keys.py"):
        tree = ast.parse((TESTS / "aggregator" / "api" / name).read_text())
        tests = {n.name for n in tree.body if isinstance(n, ast.AsyncFunctionDef | ast.FunctionDef)}
        tests = {test for test in tests if test.startswith("test_")}
        assert {test for test in tests if test not in PAGE} <= excused
