"""Refuse statements that read a large table from end to end: the test that sends one fails.

SQLite plans by its indexes alone here, so a small table is planned as a large one. Postgres plans
by statistics, so each statement is planned where they are those of large tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, event
from sqlalchemy.engine import Engine

from tests.aggregator.plans import Planner, is_planner, list_scanned

LARGE = frozenset({"sketches", "devices", "retired_keys", "cells", "batches", "audit_entries"})
"""Tables that grow with devices or with time; pending sketches are gone once they are merged."""
_MEANT = (
    # Whole tables are counted by tests.
    "SELECT count(*) AS count_1 FROM",
    # A scrape of the metrics counts in an index.
    "SELECT batches.state, count(*)",
    # Tests damage these.
    "UPDATE cells SET sums=? WHERE cells.level = ?",
    "UPDATE audit_entries",
    "DELETE FROM audit_entries",
)
_STATEMENT = "sfumato_statement"
_PLANNED: set[str] = set()
_WATCHED = False
_PLANNER: Planner | None = None


@contextmanager
def watch(planner: Planner | None) -> Iterator[None]:
    """Watch the statements of a block, on Postgres too if there is a planner."""
    global _PLANNER, _WATCHED  # noqa: PLW0603 - the event is of all engines
    _WATCHED, _PLANNER = True, planner
    try:
        yield
    finally:
        _WATCHED = False


@event.listens_for(Engine, "before_execute")
def keep_statement(
    connection: Connection, statement: Any, rows: Any, values: Any, options: Any
) -> None:
    """Keep a statement in the form that every dialect can be written from."""
    connection.info[_STATEMENT] = statement, values


@event.listens_for(Engine, "before_cursor_execute")
def refuse_scans(
    connection: Connection, cursor: Any, statement: str, parameters: Any, _: object, many: bool
) -> None:
    """Plan each watched statement once for each database."""
    kept = connection.info.pop(_STATEMENT, None)
    if not _WATCHED or many or statement in _PLANNED or is_planner(connection):
        return
    _PLANNED.add(statement)
    text = " ".join(statement.split())
    if not text.startswith(("SELECT", "WITH", "UPDATE", "DELETE")) or text.startswith(_MEANT):
        return
    # A page follows an index, and ends.
    if connection.dialect.name == "sqlite" and " LIMIT " not in text:
        _refuse(_list_scanned_by_sqlite(connection, statement, parameters), text)
    if _PLANNER is not None and kept is not None:
        _refuse(list_scanned(_PLANNER.plan(*kept), LARGE), text)


def _list_scanned_by_sqlite(connection: Connection, statement: str, parameters: Any) -> list[str]:
    planned = connection.connection.cursor()
    try:
        planned.execute(f"EXPLAIN QUERY PLAN {statement}", parameters or ())
        scans = [row[3].split() for row in planned.fetchall() if row[3].startswith("SCAN ")]
    finally:
        planned.close()
    return [words[1] for words in scans if words[1] in LARGE]


def _refuse(scanned: list[str], text: str) -> None:
    assert not scanned, f"reads all of {', '.join(scanned)}: {text}"
