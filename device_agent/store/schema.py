"""The tables; one file holds all studies that this device is in.

Rows that steer a release carry a seal, the digest of their other values: SQLite itself would not
notice a bit that flipped.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence

APPLICATION_ID = 0x5366_7541
"""Marks the file as an agent's (``SfuA``)."""

VERSION = 2

TABLES = (
    """
    CREATE TABLE meta (
        study BLOB NOT NULL,
        key TEXT NOT NULL,
        value BLOB NOT NULL,
        seal BLOB NOT NULL,
        PRIMARY KEY (study, key)
    )
    """,
    # first_record: the record counter where the open window, or the next one, begins.
    """
    CREATE TABLE streams (
        study BLOB NOT NULL,
        name TEXT NOT NULL,
        next_sequence INTEGER NOT NULL,
        first_record INTEGER NOT NULL,
        floor_slot INTEGER,
        suspended TEXT,
        seal BLOB NOT NULL,
        PRIMARY KEY (study, name)
    )
    """,
    """
    CREATE TABLE positions (
        study BLOB NOT NULL,
        stream TEXT NOT NULL,
        source TEXT NOT NULL,
        place TEXT NOT NULL,
        seal BLOB NOT NULL,
        PRIMARY KEY (study, stream, source)
    )
    """,
    # This table and the next are the only ones whose content is not private by itself.
    """
    CREATE TABLE open_windows (
        study BLOB NOT NULL,
        stream TEXT NOT NULL,
        n_records INTEGER NOT NULL,
        n_unsketchable INTEGER NOT NULL,
        first_slot INTEGER,
        last_slot INTEGER,
        block INTEGER NOT NULL,
        sums BLOB NOT NULL,
        seal BLOB NOT NULL,
        PRIMARY KEY (study, stream)
    )
    """,
    # The same where presence is secret: several slots may wait, for the clock alone closes them.
    """
    CREATE TABLE open_slots (
        study BLOB NOT NULL,
        stream TEXT NOT NULL,
        slot INTEGER NOT NULL,
        n_records INTEGER NOT NULL,
        sums BLOB NOT NULL,
        seal BLOB NOT NULL,
        PRIMARY KEY (study, stream, slot)
    )
    """,
    # copy: 0 for a release of this ledger. 1 for what another copy of this state has released, as
    # the server says: ``count`` sketches, ``sequence`` the last of them.
    """
    CREATE TABLE events (
        id INTEGER PRIMARY KEY,
        study BLOB NOT NULL,
        stream TEXT NOT NULL,
        plan_digest BLOB NOT NULL,
        sequence INTEGER NOT NULL,
        neighbouring TEXT NOT NULL,
        epsilon TEXT NOT NULL,
        delta TEXT NOT NULL,
        rho TEXT,
        released_at REAL NOT NULL,
        count INTEGER NOT NULL DEFAULT 1,
        copy INTEGER NOT NULL DEFAULT 0,
        UNIQUE (study, stream, sequence, copy)
    )
    """,
    # Where the records of a stream come from: what two streams share, both may have released.
    """
    CREATE TABLE origins (
        id INTEGER PRIMARY KEY,
        study BLOB NOT NULL,
        stream TEXT NOT NULL,
        kind TEXT NOT NULL,
        name TEXT NOT NULL,
        part TEXT NOT NULL,
        times TEXT NOT NULL,
        UNIQUE (study, stream, kind, name, part, times)
    )
    """,
    """
    CREATE TRIGGER origins_stay BEFORE DELETE ON origins
    BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END
    """,
    """
    CREATE TRIGGER origins_do_not_change BEFORE UPDATE ON origins
    BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END
    """,
    """
    CREATE TRIGGER events_stay BEFORE DELETE ON events
    BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END
    """,
    """
    CREATE TRIGGER events_do_not_change BEFORE UPDATE ON events
    BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END
    """,
    # n_records is NULL where the number is secret; offered_at before any byte left the device.
    """
    CREATE TABLE outbox (
        sketch_id BLOB PRIMARY KEY,
        study BLOB NOT NULL,
        stream TEXT NOT NULL,
        sequence INTEGER NOT NULL,
        n_records INTEGER,
        first_slot INTEGER,
        last_slot INTEGER,
        released_at REAL NOT NULL,
        n_bytes INTEGER NOT NULL,
        message BLOB,
        state TEXT NOT NULL CHECK (state IN ('waiting', 'sent', 'shelved')),
        problem TEXT,
        attempts INTEGER NOT NULL DEFAULT 0,
        last_attempt REAL,
        not_before REAL NOT NULL DEFAULT 0,
        sent_at REAL,
        offered_at REAL
    )
    """,
    """
    CREATE TABLE study_notice (
        study BLOB PRIMARY KEY,
        state TEXT NOT NULL,
        accept_until REAL,
        etag TEXT NOT NULL,
        next_study BLOB
    )
    """,
    """
    CREATE TABLE agreed_time (
        study BLOB PRIMARY KEY,
        seconds REAL NOT NULL,
        boot TEXT NOT NULL,
        since_boot REAL NOT NULL
    )
    """,
    "CREATE INDEX outbox_by_state ON outbox (study, state, COALESCE(last_attempt, 0), released_at)",
    "CREATE INDEX outbox_by_number ON outbox (study, stream, sequence)",
)

_SEAL_BYTES = 8

_SEALED = {
    "meta": ("study", "key", "value"),
    "streams": ("study", "name", "next_sequence", "first_record", "floor_slot", "suspended"),
    "open_windows": (
        "study", "stream", "n_records", "n_unsketchable", "first_slot", "last_slot",
        "block", "sums",
    ),
    "open_slots": ("study", "stream", "slot", "n_records", "sums"),
    "positions": ("study", "stream", "source", "place"),
}  # fmt: skip
_KEY_LENGTHS = {"meta": 2, "streams": 2, "open_windows": 2, "open_slots": 3, "positions": 3}
"""How many of these columns, the first ones, are the key of a table."""


def compute_seal(*values: bytes | str | int | None) -> bytes:
    """Return the digest of a row's values, 8 bytes."""
    state = hashlib.sha256()
    for value in values:
        data = value if isinstance(value, bytes) else repr(value).encode("utf-8")
        state.update(len(data).to_bytes(8, "little") + data)
    return state.digest()[:_SEAL_BYTES]


def write_sealed(
    connection: sqlite3.Connection,
    table: str,
    rows: Iterable[Sequence[bytes | str | int | None]],
) -> None:
    """Write rows with their seals, in place of those with the same keys.

    Parameters
    ----------
    rows
        Values in the order of the table's columns.
    """
    columns = (*_SEALED[table], "seal")
    key = ", ".join(columns[: _KEY_LENGTHS[table]])
    marks = ", ".join("?" for _ in columns)
    taken = ", ".join(f"{name} = excluded.{name}" for name in columns)
    connection.executemany(
        f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"
        f" ON CONFLICT ({key}) DO UPDATE SET {taken}",
        [(*row, compute_seal(*row)) for row in rows],
    )


def find_broken_seals(connection: sqlite3.Connection) -> Iterator[str]:
    """Yield the tables with a row that does not match its seal."""
    for table, columns in _SEALED.items():
        for row in connection.execute(f"SELECT {', '.join(columns)}, seal FROM {table}"):
            if compute_seal(*row[:-1]) != row[-1]:
                yield table
                break
