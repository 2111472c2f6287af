"""The matrix of clients is complete, its evidence exists, and the page shows it."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

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


@pytest.mark.parametrize(
    ("row", "cell"),
    [pytest.param(row, cell, id=f"{row.name}, {client}") for row, client, cell in CELLS],
)
def test_a_state_is_shown_by_a_test_that_exists_or_has_a_reason(row: Row, cell: Cell) -> None:
    if cell.state not in (YES, REFUSED):
        assert cell.why
        return
    file, name = cell.test.split("::")
    assert name in list_tests(ROOT / file)
    if row.family is not None and cell.state == YES:
        text = (ROOT / file).read_text("utf-8")
        assert row.family in text or "FAMILIES_OF_JAVASCRIPT" in text, "reads other vectors"


def test_the_page_is_what_the_command_generates() -> None:
    assert PAGE.read_text("utf-8") == render_page(), "run `python -m tests.interop.matrix`"
