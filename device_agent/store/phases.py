"""The studies of a campaign in their order, as the device has joined them."""

from __future__ import annotations

import sqlite3

from sfumato.device_agent.store.identity import NEXT


def load_next(connection: sqlite3.Connection, study: bytes) -> bytes | None:
    """Return the study that follows one; None before the device went on."""
    row = connection.execute(
        "SELECT value FROM meta WHERE study = ? AND key = ?", (study, NEXT)
    ).fetchone()
    return None if row is None else bytes(row["value"])


def load_previous(connection: sqlite3.Connection, study: bytes) -> bytes | None:
    """Return the study that one follows; None of the first."""
    row = connection.execute(
        "SELECT study FROM meta WHERE key = ? AND value = ?", (NEXT, study)
    ).fetchone()
    return None if row is None else bytes(row["study"])


def find_first(connection: sqlite3.Connection, study: bytes) -> bytes:
    """Return the identity of the device in the study of its campaign that it joined first."""
    while (before := load_previous(connection, study)) is not None:
        study = before
    row = connection.execute(
        "SELECT value FROM meta WHERE study = ? AND key = 'device'", (study,)
    ).fetchone()
    return bytes(row["value"])
