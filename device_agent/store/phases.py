"""The studies of a campaign in their order, as the device has joined them."""

from __future__ import annotations

import sqlite3

from sfumato.device_agent.store.database import note_later, transaction
from sfumato.device_agent.store.identity import write_meta

_NEXT = "next"


def load_next(connection: sqlite3.Connection, study: bytes) -> bytes | None:
    """Return the study that follows one; None before the device went on."""
    row = connection.execute(
        "SELECT value FROM meta WHERE study = ? AND key = ?", (study, _NEXT)
    ).fetchone()
    return None if row is None else bytes(row["value"])


def find_first(connection: sqlite3.Connection, study: bytes) -> bytes:
    """Return the identity of the device in the study of its campaign that it joined first."""
    before: bytes | None = study
    while before is not None:
        study = before
        row = connection.execute(
            "SELECT study FROM meta WHERE key = ? AND value = ?", (_NEXT, study)
        ).fetchone()
        before = None if row is None else bytes(row["study"])
    row = connection.execute(
        "SELECT value FROM meta WHERE study = ? AND key = 'device'", (study,)
    ).fetchone()
    return bytes(row["value"])


def pin_next(connection: sqlite3.Connection, study: bytes, following: bytes) -> None:
    """Note the study that follows one, and erase what is open of its windows."""
    with transaction(connection):
        note_later(connection)
        for table in ("open_windows", "open_slots"):
            connection.execute(f"DELETE FROM {table} WHERE study = ?", (study,))
        write_meta(connection, study, [(_NEXT, following)])
