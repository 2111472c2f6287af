"""Ledger of the device's owner: every release to every study, and the origins of its records.

It is append-only; costs are computed elsewhere.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

from sfumato.shared.privacy import Origin, OriginIndex, PrivacyEvent, Reader
from sfumato.shared.spending.rows import event_to_row, insert_row, read_event, read_origin

_COST = ("study", "stream", "plan_digest", "neighbouring", "epsilon", "delta", "rho", "copy")
_SUMS = (
    f"SELECT {', '.join(_COST)}, MAX(sequence) AS sequence, SUM(count) AS n, MAX(id) AS id"
    f" FROM events NOT INDEXED WHERE id > ? GROUP BY {', '.join(_COST)}"
)


@dataclass(frozen=True, kw_only=True)
class LedgerEntry:
    """One release, and when it happened (seconds since 1970-01-01 UTC)."""

    event: PrivacyEvent
    released_at: float


class LedgerSums:
    """Sums of the ledger: releases of one stream, plan and cost as one event.

    Only rows that were appended since the last call are read, because a device may release for
    years. Nothing is missed: rows of the ledger neither change nor go, and nobody else works on a
    held state.
    """

    def __init__(self) -> None:
        self._last_id = self._last_origin = 0
        self._events: Mapping[tuple[object, ...], PrivacyEvent] = {}
        self._index = OriginIndex()

    def load(self, connection: sqlite3.Connection) -> list[PrivacyEvent]:
        """Return all releases, one event for each study, stream, plan and cost."""
        events, last_id = dict(self._events), self._last_id
        for row in connection.execute(_SUMS, (last_id,)):
            cost = tuple(row[key] for key in _COST)
            n_before = events[cost].count if cost in events else 0
            events[cost] = read_event(row, copy=row["copy"], count=n_before + row["n"])
            last_id = max(last_id, row["id"])
        if not connection.in_transaction:  # what is not committed may be taken back
            self._events, self._last_id = events, last_id
        return list(events.values())

    def find_near(
        self, connection: sqlite3.Connection, reader: Reader, origins: Iterable[Origin]
    ) -> set[Reader]:
        """Return the other streams whose releases may hold the records of one stream.

        Parameters
        ----------
        origins
            What the stream reads now; what it has released from is known.
        """
        return self._load_index(connection).find_near(reader, origins)

    def find_same_people(
        self, connection: sqlite3.Connection, reader: Reader, origins: Iterable[Origin]
    ) -> set[Reader]:
        """Return the other streams that may have released records of the same people."""
        return self._load_index(connection).find_same_people(reader, origins)

    def _load_index(self, connection: sqlite3.Connection) -> OriginIndex:
        index, last_id = self._index, self._last_origin
        if connection.in_transaction:  # what is not committed may be taken back
            index, last_id = OriginIndex(), 0
        for row in connection.execute("SELECT * FROM origins WHERE id > ? ORDER BY id", (last_id,)):
            index.add((row["study"], row["stream"]), read_origin(row))
            last_id = row["id"]
        if index is self._index:
            self._last_origin = last_id
        return index


def study_of(connection: sqlite3.Connection) -> bytes:
    """Return the study of a connection; empty if it works for none."""
    study: bytes = getattr(connection, "study", b"")
    return study


def load_entries(connection: sqlite3.Connection) -> list[LedgerEntry]:
    """Load every release, oldest first."""
    rows = connection.execute("SELECT * FROM events ORDER BY id")
    return [
        LedgerEntry(
            event=read_event(row, copy=row["copy"], count=row["count"]),
            released_at=row["released_at"],
        )
        for row in rows
    ]


def load_copied(connection: sqlite3.Connection) -> dict[str, list[tuple[int, int]]]:
    """Return, by stream, the ranges of numbers that another copy of this state has released."""
    found: dict[str, list[tuple[int, int]]] = {}
    for row in connection.execute(
        "SELECT stream, sequence, count FROM events WHERE study = ? AND copy = 1",
        (study_of(connection),),
    ):
        first = row["sequence"] - row["count"] + 1
        found.setdefault(row["stream"], []).append((first, row["sequence"]))
    return found


def list_sketch_ids(
    connection: sqlite3.Connection,
) -> dict[tuple[bytes, str, int, int], bytes]:
    """Return the identities of known sketches, by study, stream, number and 0 (no copy's)."""
    rows = connection.execute("SELECT study, stream, sequence, sketch_id FROM outbox")
    return {(row["study"], row["stream"], row["sequence"], 0): row["sketch_id"] for row in rows}


def list_origins(connection: sqlite3.Connection, reader: Reader) -> list[Origin]:
    """Return where the released records of a stream came from."""
    rows = connection.execute("SELECT * FROM origins WHERE study = ? AND stream = ?", reader)
    return [read_origin(row) for row in rows]


def append_event(connection: sqlite3.Connection, event: PrivacyEvent, released_at: float) -> None:
    """Append a release; to be called inside a transaction: its own, or the one that learns of it.

    One that another copy of this state has made may stand for several.
    """
    beside = {"released_at": released_at, "count": event.count, "copy": event.copy}
    insert_row(connection, "events", event_to_row(event) | beside)


def append_origins(
    connection: sqlite3.Connection, reader: Reader, origins: Iterable[Origin]
) -> None:
    """Note where a stream's records come from; to be called inside the release transaction only."""
    study, stream = reader
    for origin in origins:
        row = {"study": study, "stream": stream, **asdict(origin)}
        insert_row(connection, "origins", row, verb="INSERT OR IGNORE")
