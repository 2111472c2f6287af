"""Refuse statements that read a large table from end to end: the test that sends one fails.

SQLite plans by its indexes alone here, so a small table is planned as a large one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, event
from sqlalchemy.engine import Engine

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
_PLANNED: set[str] = set()
_WATCHED = False


@contextmanager
def watch() -> Iterator[None]:
    """Watch the statements of a block."""
    global _WATCHED  # noqa: PLW0603 - the event is of all engines
    _WATCHED = True
    try:
        yield
    finally:
        _WATCHED = False


def list_scanned(steps: list[str]) -> list[str]:
    """Return the large tables that a plan of SQLite scans."""
    scans = [step.split() for step in steps if step.startswith("SCAN ")]
    return [words[1] for words in scans if words[1] in LARGE]


@event.listens_for(Engine, "before_cursor_execute")
def refuse_scans(
    connection: Connection, cursor: Any, statement: str, parameters: Any, _: object, many: bool
) -> None:
    """Plan each watched statement once."""
    if not _WATCHED or connection.dialect.name != "sqlite" or many or statement in _PLANNED:
        return
    _PLANNED.add(statement)
    text = " ".join(statement.split())
    # A page follows an index, and ends.
    if not text.startswith(("SELECT", "WITH", "UPDATE", "DELETE")) or " LIMIT " in text:
        return
    if text.startswith(_MEANT):
        return
    planned = connection.connection.cursor()
    try:
        planned.execute(f"EXPLAIN QUERY PLAN {statement}", parameters or ())
        scanned = list_scanned([row[3] for row in planned.fetchall()])
    finally:
        planned.close()
    assert not scanned, f"reads all of {', '.join(scanned)}: {text}"
