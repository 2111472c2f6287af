"""Rows of the SQLite files that ledgers are kept in: written by name, and read back."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from sfumato.shared.privacy import Origin, PrivacyEvent

_AS_THEY_ARE = ("study", "stream", "plan_digest", "sequence", "neighbouring")


def insert_row(
    connection: sqlite3.Connection,
    table: str,
    row: Mapping[str, Any],
    *,
    verb: str = "INSERT",
    conflict: str = "",
) -> None:
    """Insert a row, given by the names of its columns; ``conflict`` says what else may be done."""
    marks = ", ".join("?" for _ in row)
    connection.execute(
        f"{verb} INTO {table} ({', '.join(row)}) VALUES ({marks}) {conflict}", tuple(row.values())
    )


def event_to_row(event: PrivacyEvent) -> dict[str, Any]:
    """Return the columns of a release; exact numbers are text."""
    return {
        **{name: getattr(event, name) for name in _AS_THEY_ARE},
        "epsilon": str(event.epsilon),
        "delta": str(event.delta),
        "rho": None if event.rho is None else str(event.rho),
    }


def read_event(row: sqlite3.Row, **more: Any) -> PrivacyEvent:
    """Return the release of a row; ``more`` are members that the row has not, or others.

    Raises
    ------
    ValueError, TypeError, ArithmeticError, PrivacyError
        No release has written the row.
    """
    exact = {name: Fraction(row[name]) for name in ("epsilon", "delta")}
    rho = None if row["rho"] is None else Fraction(row["rho"])
    members = {name: row[name] for name in _AS_THEY_ARE} | exact | {"rho": rho} | more
    return PrivacyEvent(**members)


def read_origin(row: sqlite3.Row) -> Origin:
    """Return the origin of a row."""
    return Origin(kind=row["kind"], name=row["name"], part=row["part"], times=row["times"])
