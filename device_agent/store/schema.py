"""The tables of version 1."""

from __future__ import annotations

APPLICATION_ID = 0x5366_7541
"""Marks the file as an agent's (``SfuA``)."""

VERSION = 1

TABLES = (
    """
    CREATE TABLE meta (
        key TEXT PRIMARY KEY,
        value BLOB NOT NULL,
        seal BLOB NOT NULL
    )
    """,
    # Rows with a seal carry a digest of their other values; see ``device_agent.store.seals``.
    # first_record: the record counter where the open window, or the next one, begins.
    """
    CREATE TABLE streams (
        name TEXT PRIMARY KEY,
        next_sequence INTEGER NOT NULL,
        first_record INTEGER NOT NULL,
        floor_slot INTEGER,
        suspended TEXT,
        seal BLOB NOT NULL
    )
    """,
    """
    CREATE TABLE positions (
        stream TEXT NOT NULL,
        source TEXT NOT NULL,
        place TEXT NOT NULL,
        seal BLOB NOT NULL,
        PRIMARY KEY (stream, source)
    )
    """,
    # This table and the next are the only ones whose content is not private by itself.
    """
    CREATE TABLE open_windows (
        stream TEXT PRIMARY KEY,
        n_records INTEGER NOT NULL,
        n_unsketchable INTEGER NOT NULL,
        first_slot INTEGER,
        last_slot INTEGER,
        sums BLOB NOT NULL,
        seal BLOB NOT NULL
    )
    """,
    # The same where presence is secret: several slots may wait, for the clock alone closes them.
    """
    CREATE TABLE open_slots (
        stream TEXT NOT NULL,
        slot INTEGER NOT NULL,
        n_records INTEGER NOT NULL,
        sums BLOB NOT NULL,
        seal BLOB NOT NULL,
        PRIMARY KEY (stream, slot)
    )
    """,
    """
    CREATE TABLE events (
        id INTEGER PRIMARY KEY,
        stream TEXT NOT NULL,
        plan_digest BLOB NOT NULL,
        sequence INTEGER NOT NULL,
        epsilon TEXT NOT NULL,
        delta TEXT NOT NULL,
        rho TEXT,
        released_at REAL NOT NULL,
        UNIQUE (stream, sequence)
    )
    """,
    """
    CREATE TRIGGER events_stay BEFORE DELETE ON events
    BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END
    """,
    """
    CREATE TRIGGER events_do_not_change BEFORE UPDATE ON events
    BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END
    """,
    # n_records is NULL where the number is secret.
    """
    CREATE TABLE outbox (
        sketch_id BLOB PRIMARY KEY,
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
        sent_at REAL
    )
    """,
    "CREATE TABLE study_notice (state TEXT NOT NULL, accept_until REAL, etag TEXT NOT NULL)",
    "CREATE INDEX outbox_by_state ON outbox (state, COALESCE(last_attempt, 0), released_at)",
    "CREATE INDEX outbox_by_number ON outbox (stream, sequence)",
)
