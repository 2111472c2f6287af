"""The ledger: what was released, append-only; costs are computed elsewhere."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from shared.privacy import PrivacyEvent

_COST = ("stream", "plan_digest", "epsilon", "delta", "rho")
_SUMS = (
    f"SELECT {', '.join(_COST)}, MAX(sequence) AS sequence, COUNT(*) AS n, MAX(id) AS id"
    f" FROM events WHERE id > ? GROUP BY {', '.join(_COST)}"
)


@dataclass(frozen=True, kw_only=True)
class LedgerEntry:
    """One release, and when it happened (seconds since 1970-01-01 UTC)."""

    event: PrivacyEvent
    released_at: float


class LedgerSums:
    """The ledger of one connection, its releases of one stream, plan and cost taken together.

    Only what was appended since the last time is read: a device that releases for years must not
    read its whole past before each release. Nothing is missed, because rows of the ledger neither
    change nor go, and nobody else works on a state that is held.
    """

    def __init__(self) -> None:
        self._last_id = 0
        self._events: Mapping[tuple[object, ...], PrivacyEvent] = {}

    def load(self, connection: sqlite3.Connection) -> list[PrivacyEvent]:
        """Return all releases, one event for each stream, plan and cost."""
        events, last_id = dict(self._events), self._last_id
        for row in connection.execute(_SUMS, (last_id,)):
            cost = tuple(row[key] for key in _COST)
            n_before = events[cost].count if cost in events else 0
            events[cost] = replace(_to_event(row), count=n_before + row["n"])
            last_id = max(last_id, row["id"])
        if not connection.in_transaction:  # what is not committed may be taken back
            self._events, self._last_id = events, last_id
        return list(events.values())


def load_entries(connection: sqlite3.Connection) -> list[LedgerEntry]:
    """Load every release, oldest first."""
    rows = connection.execute(
        "SELECT stream, plan_digest, sequence, epsilon, delta, rho, released_at"
        " FROM events ORDER BY id"
    )
    return [LedgerEntry(event=_to_event(row), released_at=row["released_at"]) for row in rows]


def _to_event(row: sqlite3.Row) -> PrivacyEvent:
    return PrivacyEvent(
        stream=row["stream"],
        plan_digest=row["plan_digest"],
        sequence=row["sequence"],
        epsilon=Fraction(row["epsilon"]),
        delta=Fraction(row["delta"]),
        rho=None if row["rho"] is None else Fraction(row["rho"]),
    )


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
