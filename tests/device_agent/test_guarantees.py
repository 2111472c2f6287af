"""The page of guarantees names tests that exist."""

import ast
import re
from pathlib import Path

_PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "guarantees.md"
_ROW = re.compile(r"^\| (?P<rule>.+) \| `(?P<path>[\w./]+)::(?P<test>\w+)` \|$")


def find_rows(text: str) -> list[tuple[str, str, str]]:
    rows: list[str] = []
    is_inside = False
    for line in text.splitlines():
        is_inside = line == "| rule | test |" or (is_inside and line.startswith("|"))
        if is_inside and line.startswith("| ") and line != "| rule | test |":
            rows.append(line)
    matches = [_ROW.match(row) for row in rows]
    assert None not in matches, rows[matches.index(None)]
    return [(m["rule"], m["path"], m["test"]) for m in matches if m]


def find_tests(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_each_guarantee_names_a_test_that_exists() -> None:
    rows = find_rows(_PAGE.read_text(encoding="utf-8"))
    assert len(rows) > 40
    for rule, path, test in rows:
        assert test in find_tests(Path(__file__).parent / path), rule


def test_a_guarantee_without_its_test_is_noticed() -> None:
    page = "| rule | test |\n|---|---|\n| a rule | `test_guarantees.py::test_that_nobody_wrote` |"
    ((_, path, test),) = find_rows(page)
    assert test not in find_tests(Path(__file__).parent / path)
