"""The ledger: what was released, append-only; costs are computed elsewhere."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from fractions import Fraction

from shared.privacy import PrivacyEvent


@dataclass(frozen=True, kw_only=True)
class LedgerEntry:
    """One release, and when it happened (seconds since 1970-01-01 UTC)."""

    event: PrivacyEvent
    released_at: float


def load_entries(connection: sqlite3.Connection) -> list[LedgerEntry]:
    """Load every release, oldest first."""
    rows = connection.execute(
        "SELECT stream, plan_digest, sequence, epsilon, delta, rho, released_at"
        " FROM events ORDER BY id"
    )
    return [
        LedgerEntry(
            event=PrivacyEvent(
                stream=row["stream"],
                plan_digest=row["plan_digest"],
                sequence=row["sequence"],
                epsilon=Fraction(row["epsilon"]),
                delta=Fraction(row["delta"]),
                rho=None if row["rho"] is None else Fraction(row["rho"]),
            ),
            released_at=row["released_at"],
        )
        for row in rows
    ]


def append_event(connection: sqlite3.Connection, event: PrivacyEvent, released_at: float) -> None:
    """Append a release; to be called inside the release transaction only."""
    connection.execute(
        "INSERT INTO events (stream, plan_digest, sequence, epsilon, delta, rho, released_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            event.stream,
            event.plan_digest,
            event.sequence,
            str(event.epsilon),
            str(event.delta),
            None if event.rho is None else str(event.rho),
            released_at,
        ),
    )
