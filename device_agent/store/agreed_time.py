"""The last time on which device and server agreed, so that a start without the server knows it."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from device_agent.store.database import transaction
from device_agent.store.ledger import study_of


@dataclass(frozen=True, kw_only=True)
class AgreedTime:
    """A time that has come, and how long the machine had run by then.

    Parameters
    ----------
    seconds
        Seconds since 1970-01-01 UTC.
    boot
        Which start of the machine; empty where the system does not say.
    since_boot
        Seconds since that start.
    """

    seconds: float
    boot: str
    since_boot: float


def load_agreed_time(connection: sqlite3.Connection) -> AgreedTime | None:
    """Load it; None where device and server never agreed."""
    row = connection.execute(
        "SELECT seconds, boot, since_boot FROM agreed_time WHERE study = ?",
        (study_of(connection),),
    ).fetchone()
    return None if row is None else AgreedTime(**dict(row))


def save_agreed_time(connection: sqlite3.Connection, agreed: AgreedTime) -> None:
    """Save it in the place of the one before."""
    with transaction(connection):
        connection.execute(
            "INSERT OR REPLACE INTO agreed_time (study, seconds, boot, since_boot)"
            " VALUES (?, ?, ?, ?)",
            (study_of(connection), agreed.seconds, agreed.boot, agreed.since_boot),
        )
