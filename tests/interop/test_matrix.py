"""The matrix of clients is complete, its evidence exists, and the page shows it."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from tests.interop.matrix import CLIENTS, PAGE, REFUSED, ROOT, ROWS, YES, Cell, Row, render_page

CELLS = [(row, client, cell) for row in ROWS for client, cell in row.cells.items()]


@cache
def list_tests(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text("utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def test_every_family_of_vectors_is_a_row_and_every_row_knows_every_client() -> None:
    files = {path.stem for path in (ROOT / "tests/vectors").glob("*.json")}
    families = [row.family for row in ROWS if row.family is not None]
    assert len(families) == len(set(families))
    assert set(families) == files
    for row in ROWS:
        assert row.cells.keys() == CLIENTS.keys(), row.name


def find_fault(row: Row, cell: Cell) -> str:
    if cell.state not in (YES, REFUSED):
        return "" if cell.why else "has neither a test nor a reason"
    file, name = cell.test.split("::")
    if name not in list_tests(ROOT / file):
        return f"{cell.test} does not exist"
    text = (ROOT / file).read_text("utf-8")
    reads_it = row.family is None or row.family in text or "FAMILIES_OF_JAVASCRIPT" in text
    return "" if reads_it or cell.state == REFUSED else f"{file} reads other vectors"


def test_a_state_is_shown_by_a_test_that_exists_or_has_a_reason() -> None:
    faults = [(row.name, client, find_fault(row, cell)) for row, client, cell in CELLS]
    assert [fault for fault in faults if fault[-1]] == []


def test_the_page_is_what_the_command_generates() -> None:
    assert PAGE.read_text("utf-8") == render_page(), "run `python -m tests.interop.matrix`"
