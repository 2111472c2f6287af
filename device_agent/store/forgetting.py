"""Forget a device: erase all but its spending and its positions."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from device_agent.store.database import DATABASE_NAME, Connection, transaction, truncate_log
from device_agent.store.digest_key import DIGEST_KEY_NAME
from device_agent.store.identity import FORGOTTEN, write_meta
from device_agent.store.journal import JOURNAL_NAME
from device_agent.store.key import KEY_NAME
from device_agent.store.ledger import study_of
from device_agent.store.places import PLACES_NAME


def erase_device(connection: Connection) -> None:
    """Erase identity, sums and sketches in one study; ledger and positions stay.

    The positions keep a device that enrols here again from sketching the same records, and the
    ledger keeps what they have cost.
    """
    with transaction(connection):
        for table in (
            "open_windows",
            "open_slots",
            "outbox",
            "study_notice",
            "agreed_time",
            "meta",
        ):
            connection.execute(f"DELETE FROM {table} WHERE study = ?", (connection.study,))
        write_meta(connection, connection.study, [(FORGOTTEN, "yes")])
    truncate_log(connection)
    if connection.journal is not None:
        connection.journal.rewrite(connection)


def is_forgotten(connection: sqlite3.Connection) -> bool:
    """Return whether a device of this study was forgotten and its ledger is still here."""
    row = connection.execute(
        "SELECT 1 FROM meta WHERE study = ? AND key = ?", (study_of(connection), FORGOTTEN)
    ).fetchone()
    return row is not None


def erase_key(folder: Path) -> None:
    """Overwrite and remove every key and the digest secret; flash memory may keep old cells."""
    for name in (KEY_NAME, DIGEST_KEY_NAME):
        for path in sorted(folder.glob(f"{name}*")):
            _erase(path)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def erase_database(folder: Path) -> None:
    """Overwrite and remove database, journal and ledger, and copies that were set aside."""
    for name in (DATABASE_NAME, JOURNAL_NAME, PLACES_NAME):
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
