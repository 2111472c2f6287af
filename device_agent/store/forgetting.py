"""Forgetting a device: everything goes but what it has spent, and how far it has read."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from device_agent.store.database import DATABASE_NAME, Connection, transaction, truncate_log
from device_agent.store.identity import write_meta
from device_agent.store.journal import JOURNAL_NAME
from device_agent.store.key import KEY_NAME

_TOMBSTONE = "forgotten_study"


def erase_device(connection: Connection, study: bytes) -> None:
    """Erase identity, sums and sketches; ledger and positions stay, and which study it was.

    The positions keep a device that enrols here again from sketching the same records again, and
    the ledger keeps what they have cost.
    """
    with transaction(connection):
        for table in ("open_windows", "open_slots", "outbox", "study_notice", "meta"):
            connection.execute(f"DELETE FROM {table}")
        write_meta(connection, [(_TOMBSTONE, study)])
    truncate_log(connection)
    if connection.journal is not None:
        connection.journal.rewrite(connection)


def find_forgotten_study(connection: sqlite3.Connection) -> bytes | None:
    """Return the study that a forgotten device of this folder was in; None if there was none."""
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (_TOMBSTONE,)).fetchone()
    return None if row is None else bytes(row["value"])


def erase_key(folder: Path) -> None:
    """Overwrite the key and remove it; on flash memory the old cells may outlive it.

    So it is with a key that was to follow it, and with one that was being written at a crash.
    """
    for path in sorted(folder.glob(f"{KEY_NAME}*")):
        _erase(path)


def erase_database(folder: Path) -> None:
    """Overwrite database and journal and remove them, ledger and all, also what was set aside."""
    for name in (DATABASE_NAME, JOURNAL_NAME):
        for path in sorted(folder.glob(f"{name}*")):
            _erase(path)


def erase_set_aside(folder: Path) -> None:
    """Overwrite and remove databases that were set aside: they hold sketches, and perhaps a sum."""
    for path in sorted(folder.glob(f"{DATABASE_NAME}.damaged-*")):
        _erase(path)


def _erase(path: Path) -> None:
    try:
        with path.open("r+b") as file:
            file.write(bytes(path.stat().st_size))
            os.fsync(file.fileno())
    except FileNotFoundError:
        return
    path.unlink()
