"""The outbox: signed sketches that wait, were sent, or were set aside. None is ever dropped."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, fields
from itertools import zip_longest

from sfumato.device_agent.store.database import catch_up, passing_transaction, transaction
from sfumato.device_agent.store.ledger import study_of
from sfumato.shared.spending.rows import insert_row

KEEP_SENT_S = 30 * 86400
"""Seconds that sent bytes are kept, in case a server is restored from a backup."""

# Of a sketch that waits: it may be sent now, and its stream is not suspended. One that is held for
# longer than anybody may hold it is due: the clock was set back since.
_DUE = (
    "study = :study AND state = 'waiting' AND (not_before <= :now OR not_before > :now + :longest)"
    " AND stream NOT IN"
    " (SELECT name FROM streams WHERE study = :study AND suspended IS NOT NULL)"
)
# As the index of these rows has it.
_FRESH = "COALESCE(last_attempt, 0) = 0 ORDER BY released_at, rowid"
_TRIED = "COALESCE(last_attempt, 0) > 0 ORDER BY COALESCE(last_attempt, 0), released_at, rowid"


@dataclass(frozen=True, kw_only=True)
class OutboxSketch:
    """A sketch in the outbox, without its bytes; ``n_records`` None if it is secret."""

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
    offered_at: float | None


@dataclass(frozen=True, kw_only=True)
class OutboxCounts:
    """Number of sketches in each state."""

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
    row = {
        "sketch_id": sketch_id,
        "study": study_of(connection),
        "stream": stream,
        "sequence": sequence,
        "n_records": n_records,
        "first_slot": first,
        "last_slot": last,
        "released_at": released_at,
        "n_bytes": len(message),
        "message": message,
        "state": "waiting",
    }
    insert_row(connection, "outbox", row)


def count_sketches(connection: sqlite3.Connection) -> OutboxCounts:
    """Count the sketches by state."""
    rows = connection.execute(
        "SELECT state, COUNT(*) AS n FROM outbox WHERE study = ? GROUP BY state",
        (study_of(connection),),
    )
    counts = dict.fromkeys(("waiting", "sent", "shelved"), 0)
    return OutboxCounts(**counts | {row["state"]: row["n"] for row in rows})


def count_waiting_bytes(connection: sqlite3.Connection) -> int:
    """Sum the bytes of the sketches that wait."""
    row = connection.execute(
        "SELECT COALESCE(SUM(n_bytes), 0) FROM outbox WHERE study = ? AND state = 'waiting'",
        (study_of(connection),),
    ).fetchone()
    return int(row[0])


def list_sketches(connection: sqlite3.Connection, *states: str) -> list[OutboxSketch]:
    """List the sketches in these states, oldest first."""
    marks = ", ".join("?" for _ in states)
    rows = connection.execute(
        f"SELECT * FROM outbox WHERE study = ? AND state IN ({marks}) ORDER BY released_at, rowid",
        (study_of(connection), *states),
    )
    return [_from_row(row) for row in rows]


def due_sketches(
    connection: sqlite3.Connection, *, now: float, longest_hold_s: float
) -> list[OutboxSketch]:
    """List the waiting sketches that may be sent now.

    Those never tried, oldest first, and those tried before, longest ago first, take turns: one that
    got no answer once does not wait behind a whole backlog, and keeps no other waiting.
    """
    values = {"study": study_of(connection), "now": now, "longest": longest_hold_s}
    fresh, tried = (
        connection.execute(f"SELECT * FROM outbox WHERE {_DUE} AND {which}", values).fetchall()
        for which in (_FRESH, _TRIED)
    )
    turns = (row for pair in zip_longest(fresh, tried) for row in pair if row is not None)
    return [_from_row(row) for row in turns]


def first_due(
    connection: sqlite3.Connection, *, now: float, longest_hold_s: float, tried: bool
) -> OutboxSketch | None:
    """Return the next sketch that may be sent now; None if there is none.

    Parameters
    ----------
    tried
        Whether it is the turn of those that were tried before; see :func:`due_sketches`. Where
        there is none of them, it is that of the others.
    """
    values = {"study": study_of(connection), "now": now, "longest": longest_hold_s}
    for which in (_TRIED, _FRESH) if tried else (_FRESH, _TRIED):
        row = connection.execute(
            f"SELECT * FROM outbox WHERE {_DUE} AND {which} LIMIT 1", values
        ).fetchone()
        if row is not None:
            return _from_row(row)
    return None


def find_sketch(
    connection: sqlite3.Connection, stream: str, sequence: int
) -> tuple[OutboxSketch, bytes | None] | None:
    """Find a sketch and its signed bytes, which are gone once it was sent long ago."""
    row = connection.execute(
        "SELECT * FROM outbox WHERE study = ? AND stream = ? AND sequence = ?"
        " ORDER BY rowid DESC LIMIT 1",
        (study_of(connection), stream, sequence),
    ).fetchone()
    return None if row is None else (_from_row(row), row["message"])


def offer_sketch(connection: sqlite3.Connection, sketch_id: bytes, *, now: float) -> bytes:
    """Note that a sketch may be outside from now on, and return its signed bytes.

    Guarantees
    ----------
    Before the bytes are returned it is on the disk that they were offered, and the journal holds
    the release. So whatever a server holds of this device was offered by this ledger, or another
    copy of the state has sent it.

    Raises
    ------
    StoreError
        It cannot be written; the bytes must stay here.
    """
    catch_up(connection)
    row = connection.execute(
        "SELECT message, offered_at FROM outbox WHERE sketch_id = ?", (sketch_id,)
    ).fetchone()
    if row["offered_at"] is None:
        with transaction(connection):
            connection.execute(
                "UPDATE outbox SET offered_at = ? WHERE sketch_id = ?", (now, sketch_id)
            )
    return bytes(row["message"])


def list_unoffered(connection: sqlite3.Connection) -> dict[str, set[int]]:
    """Return, by stream, the numbers of the sketches of which no byte has left the device."""
    found: dict[str, set[int]] = {}
    for row in connection.execute(
        "SELECT stream, sequence FROM outbox WHERE study = ? AND offered_at IS NULL",
        (study_of(connection),),
    ):
        found.setdefault(row["stream"], set()).add(row["sequence"])
    return found


def mark_sent(connection: sqlite3.Connection, sketch_id: bytes, *, now: float) -> None:
    """Note that the server has stored a sketch; where that is lost it is sent again, the same."""
    with passing_transaction(connection):
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
    with passing_transaction(connection):
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


def shelve_waiting(
    connection: sqlite3.Connection, stream: str, *, now: float, problem: str
) -> None:
    """Set aside every waiting sketch of a stream; to be called inside a transaction."""
    connection.execute(
        "UPDATE outbox SET state = 'shelved', problem = ?, last_attempt = ?"
        " WHERE study = ? AND stream = ? AND state = 'waiting'",
        (problem, now, study_of(connection), stream),
    )


def list_acknowledged(connection: sqlite3.Connection) -> list[tuple[str, int, bool]]:
    """Return stream and number of each sketch that was sent, and whether its bytes are kept."""
    rows = connection.execute(
        "SELECT stream, sequence, message IS NOT NULL AS kept FROM outbox"
        " WHERE study = ? AND state = 'sent' ORDER BY stream, sequence",
        (study_of(connection),),
    )
    return [(row["stream"], row["sequence"], bool(row["kept"])) for row in rows]


def send_again(connection: sqlite3.Connection, sketches: Iterable[tuple[str, int]]) -> None:
    """Let sent sketches, given by stream and number, wait again; to be called in a transaction."""
    connection.executemany(
        "UPDATE outbox SET state = 'waiting', not_before = 0, last_attempt = NULL"
        " WHERE study = ? AND stream = ? AND sequence = ? AND state = 'sent'"
        " AND message IS NOT NULL",
        [(study_of(connection), *sketch) for sketch in sketches],
    )


def purge_sent(connection: sqlite3.Connection, *, now: float) -> None:
    """Drop the bytes of sketches that were sent long ago; what they were stays known."""
    old = now - KEEP_SENT_S
    found = connection.execute(
        "SELECT 1 FROM outbox WHERE study = ? AND state = 'sent' AND message IS NOT NULL"
        " AND sent_at < ?",
        (study_of(connection), old),
    ).fetchone()
    if found:
        with transaction(connection):
            connection.execute(
                "UPDATE outbox SET message = NULL"
                " WHERE study = ? AND state = 'sent' AND sent_at < ?",
                (study_of(connection), old),
            )


def _from_row(row: sqlite3.Row) -> OutboxSketch:
    by_time = row["first_slot"] is not None
    plain = {field.name: row[field.name] for field in fields(OutboxSketch) if field.name != "slots"}
    return OutboxSketch(**plain, slots=(row["first_slot"], row["last_slot"]) if by_time else None)
