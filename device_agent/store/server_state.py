"""Last known state of the server, for a start without it: the study's state and the agreed time."""

from __future__ import annotations

import sqlite3
from dataclasses import asdict, dataclass

from sfumato.device_agent.store.database import transaction
from sfumato.device_agent.store.ledger import study_of
from sfumato.shared.spending.rows import insert_row


@dataclass(frozen=True, kw_only=True)
class StudyNotice:
    """State of a study.

    Parameters
    ----------
    state
        ``open``, ``closed`` or ``withdrawn``.
    accept_until
        End of the time in which a closed study takes sketches that were released before; seconds
        since 1970-01-01 UTC.
    etag
        ETag for the next poll; empty to get the whole answer.
    next_study
        The study of the next phase of its campaign, once it is published.
    """

    state: str = "open"
    accept_until: float | None = None
    etag: str = ""
    next_study: bytes | None = None

    @property
    def may_release(self) -> bool:
        """True if a sketch that is released now is of use."""
        return self.state == "open"

    def takes_sketches(self, now: float) -> bool:
        """Return whether the server would take a sketch that was released before."""
        if self.state == "closed":
            return self.accept_until is not None and now < self.accept_until
        return self.state == "open"

    def describe(self) -> str:
        """Describe the consequences for the device."""
        if self.state == "open":
            return "the study is open"
        waits = "; what waits is kept, and nothing is spent"
        if self.state == "withdrawn":
            return f"the study was withdrawn for good: nothing is read or released{waits}"
        return f"the study is closed: nothing is read or released until it is opened again{waits}"


def load_notice(connection: sqlite3.Connection) -> StudyNotice:
    """Load the notice; a study without one counts as open."""
    row = connection.execute(
        "SELECT state, accept_until, etag, next_study FROM study_notice WHERE study = ?",
        (study_of(connection),),
    ).fetchone()
    if row is None:
        return StudyNotice()
    return StudyNotice(**dict(row))


def save_notice(connection: sqlite3.Connection, notice: StudyNotice) -> None:
    """Replace the notice."""
    with transaction(connection):
        row = {"study": study_of(connection), **asdict(notice)}
        insert_row(connection, "study_notice", row, verb="INSERT OR REPLACE")


@dataclass(frozen=True, kw_only=True)
class AgreedTime:
    """A time that has come, and the machine's uptime then.

    Parameters
    ----------
    seconds
        Seconds since 1970-01-01 UTC.
    boot
        Identity of the machine's start; empty if the system has none.
    since_boot
        Seconds since that start.
    """

    seconds: float
    boot: str
    since_boot: float


def load_agreed_time(connection: sqlite3.Connection) -> AgreedTime | None:
    """Load the agreed time; None if device and server never agreed."""
    row = connection.execute(
        "SELECT seconds, boot, since_boot FROM agreed_time WHERE study = ?",
        (study_of(connection),),
    ).fetchone()
    return None if row is None else AgreedTime(**dict(row))


def save_agreed_time(connection: sqlite3.Connection, agreed: AgreedTime) -> None:
    """Replace the agreed time."""
    with transaction(connection):
        row = {"study": study_of(connection), **asdict(agreed)}
        insert_row(connection, "agreed_time", row, verb="INSERT OR REPLACE")
