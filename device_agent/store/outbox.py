"""The outbox: signed sketches that wait, were sent, or were set aside. None is ever dropped."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from device_agent.store.database import catch_up, transaction

KEEP_SENT_S = 30 * 86400
"""How long sent bytes are kept, for a server that is restored from a backup."""

# As the index of these rows has it.
_TURN = "COALESCE(last_attempt, 0), released_at, rowid"


@dataclass(frozen=True, kw_only=True)
class OutboxSketch:
    """What the outbox knows of a sketch, without its bytes; ``n_records`` None if it is secret."""

    sketch_id: bytes
    stream: str
    sequence: int
    n_records: int | None
    slots: tuple[int, int] | None
    released_at: float
    n_bytes: int
    state: str
    problem: str | None
    attempts: int
    last_attempt: float | None
    sent_at: float | None


@dataclass(frozen=True, kw_only=True)
class OutboxCounts:
    """How many sketches are in each state."""

    waiting: int
    sent: int
    shelved: int


def insert_sketch(
    connection: sqlite3.Connection,
    *,
    sketch_id: bytes,
    stream: str,
    sequence: int,
    n_records: int | None,
    slots: tuple[int, int] | None,
    released_at: float,
    message: bytes,
) -> None:
    """Put a sketch into the outbox; to be called inside the release transaction only."""
    first, last = slots or (None, None)
    connection.execute(
        "INSERT INTO outbox (sketch_id, stream, sequence, n_records, first_slot, last_slot,"
        " released_at, n_bytes, message, state) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'waiting')",
        (sketch_id, stream, sequence, n_records, first, last, released_at, len(message), message),
    )


def count_sketches(connection: sqlite3.Connection) -> OutboxCounts:
    """Count the sketches by state."""
    rows = connection.execute("SELECT state, COUNT(*) AS n FROM outbox GROUP BY state")
    counts = {row["state"]: row["n"] for row in rows}
    return OutboxCounts(
        waiting=counts.get("waiting", 0),
        sent=counts.get("sent", 0),
        shelved=counts.get("shelved", 0),
    )


def count_waiting_bytes(connection: sqlite3.Connection) -> int:
    """Sum the bytes of the sketches that wait."""
    row = connection.execute(
        "SELECT COALESCE(SUM(n_bytes), 0) FROM outbox WHERE state = 'waiting'"
    ).fetchone()
    return int(row[0])


def list_sketches(connection: sqlite3.Connection, *states: str) -> list[OutboxSketch]:
    """List the sketches in these states, oldest first."""
    marks = ", ".join("?" for _ in states)
    rows = connection.execute(
        f"SELECT * FROM outbox WHERE state IN ({marks}) ORDER BY released_at, rowid", states
    )
    return [_from_row(row) for row in rows]


def due_sketches(connection: sqlite3.Connection, *, now: float) -> list[OutboxSketch]:
    """List the waiting sketches that may be sent now, in the order of :func:`first_due`."""
    rows = connection.execute(
        f"SELECT * FROM outbox WHERE state = 'waiting' AND not_before <= ? ORDER BY {_TURN}", (now,)
    )
    return [_from_row(row) for row in rows]


def first_due(
    connection: sqlite3.Connection, *, now: float, longest_hold_s: float
) -> OutboxSketch | None:
    """Return the next sketch that may be sent now; None if there is none.

    It is the oldest that was never tried, or the one tried longest ago: a sketch that never gets
    an answer, for instance because something on the way breaks on it, keeps no other waiting.

    One that is held for longer than anybody may hold it is due: the clock was set back since.
    """
    row = connection.execute(
        "SELECT * FROM outbox WHERE state = 'waiting'"
        f" AND (not_before <= ? OR not_before > ?) ORDER BY {_TURN} LIMIT 1",
        (now, now + longest_hold_s),
    ).fetchone()
    return None if row is None else _from_row(row)


def find_sketch(
    connection: sqlite3.Connection, stream: str, sequence: int
) -> tuple[OutboxSketch, bytes | None] | None:
    """Find a sketch and its signed bytes, which are gone once it was sent long ago."""
    row = connection.execute(
        "SELECT * FROM outbox WHERE stream = ? AND sequence = ? ORDER BY rowid DESC LIMIT 1",
        (stream, sequence),
    ).fetchone()
    return None if row is None else (_from_row(row), row["message"])


def load_message(connection: sqlite3.Connection, sketch_id: bytes) -> bytes:
    """Load the signed bytes of a sketch, to be sent: what the journal lacks must not be.

    Raises
    ------
    StoreError
        The journal cannot be written.
    """
    catch_up(connection)
    row = connection.execute(
        "SELECT message FROM outbox WHERE sketch_id = ?", (sketch_id,)
    ).fetchone()
    return bytes(row["message"])


def mark_sent(connection: sqlite3.Connection, sketch_id: bytes, *, now: float) -> None:
    """Note that the server has stored a sketch."""
    with transaction(connection):
        connection.execute(
            "UPDATE outbox SET state = 'sent', problem = NULL, attempts = attempts + 1,"
            " last_attempt = ?, sent_at = ? WHERE sketch_id = ?",
            (now, now, sketch_id),
        )


def mark_attempt(
    connection: sqlite3.Connection,
    sketch_id: bytes,
    *,
    now: float,
    problem: str,
    not_before: float = 0.0,
) -> None:
    """Note an attempt after which the sketch waits on, at least until ``not_before``."""
    with transaction(connection):
        connection.execute(
            "UPDATE outbox SET problem = ?, attempts = attempts + 1, last_attempt = ?,"
            " not_before = ? WHERE sketch_id = ?",
            (problem, now, not_before, sketch_id),
        )


def mark_shelved(
    connection: sqlite3.Connection, sketch_id: bytes, *, now: float, problem: str
) -> None:
    """Set a refused sketch aside; to be called inside a transaction. Its cost stays spent."""
    connection.execute(
        "UPDATE outbox SET state = 'shelved', problem = ?, attempts = attempts + 1,"
        " last_attempt = ? WHERE sketch_id = ?",
        (problem, now, sketch_id),
    )


def send_again(connection: sqlite3.Connection) -> int:
    """Let every sent sketch whose bytes are kept wait again; to be called in a transaction."""
    done = connection.execute(
        "UPDATE outbox SET state = 'waiting', not_before = 0"
        " WHERE state = 'sent' AND message IS NOT NULL"
    )
    return done.rowcount


def purge_sent(connection: sqlite3.Connection, *, now: float) -> None:
    """Drop the bytes of sketches that were sent long ago; what they were stays known."""
    old = now - KEEP_SENT_S
    found = connection.execute(
        "SELECT 1 FROM outbox WHERE state = 'sent' AND message IS NOT NULL AND sent_at < ?", (old,)
    ).fetchone()
    if found:
        with transaction(connection):
            connection.execute(
                "UPDATE outbox SET message = NULL WHERE state = 'sent' AND sent_at < ?", (old,)
            )


def _from_row(row: sqlite3.Row) -> OutboxSketch:
    by_time = row["first_slot"] is not None
    return OutboxSketch(
        sketch_id=row["sketch_id"],
        stream=row["stream"],
        sequence=row["sequence"],
        n_records=row["n_records"],
        slots=(row["first_slot"], row["last_slot"]) if by_time else None,
        released_at=row["released_at"],
        n_bytes=row["n_bytes"],
        state=row["state"],
        problem=row["problem"],
        attempts=row["attempts"],
        last_attempt=row["last_attempt"],
        sent_at=row["sent_at"],
    )
