"""The SQLite file: who may read it, what survives a power cut, what is overwritten."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from device_agent.store import schema
from device_agent.store.journal import Journal
from device_agent.store.ledger import LedgerSums
from shared.errors import ConfigError, StoreError
from shared.privacy import PrivacyEvent

DATABASE_NAME = "agent.sqlite"

_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    # In WAL mode NORMAL may undo a commit at a power cut; an undone release would be drawn again.
    "PRAGMA synchronous = FULL",
    # Sums of closed windows are overwritten, not only unlinked.
    "PRAGMA secure_delete = ON",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA busy_timeout = 5000",
)


class Connection(sqlite3.Connection):
    """A connection that knows the journal of its folder, and what its ledger amounts to.

    See ``device_agent.store.journal`` and ``device_agent.store.ledger``.
    """

    journal: Journal | None = None
    ledger: LedgerSums | None = None


def check_folder(folder: Path, *, create: bool) -> None:
    """Make sure that the state's folder exists and is closed to others.

    Raises
    ------
    ConfigError
        It is not there, cannot be made, or others may enter it.
    """
    try:
        if create:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = folder.stat().st_mode
    except OSError as error:
        raise ConfigError(
            f"{folder} cannot be used ({error.strerror})",
            field="state_dir",
            fix="run `sfumato-agent init` first" if not create else "name a folder of this user",
        ) from error
    if not stat.S_ISDIR(mode) or mode & 0o077:
        raise ConfigError(
            f"{folder} must be a folder that nobody else can enter",
            field="state_dir",
            fix=f"run `chmod 700 {folder}`",
        )


def create_database(folder: Path) -> Connection:
    """Open the database of a folder, making it first where there is none."""
    path = folder / DATABASE_NAME
    # Made by us, for SQLite would give it the mode that the umask leaves.
    os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    connection = connect(path)
    with _closing_on_error(connection):
        if not _pragma(connection, "user_version"):
            with transaction(connection):
                create_tables(connection)
        require_version(connection, path)
        connection.journal, connection.ledger = Journal(folder), LedgerSums()
    return connection


def create_tables(connection: sqlite3.Connection) -> None:
    """Make the tables and mark the file as an agent's; to be called inside a transaction."""
    for statement in schema.TABLES:
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {schema.VERSION}")


def open_database(folder: Path) -> Connection:
    """Open the database of a folder.

    Raises
    ------
    ConfigError
        There is none.
    StoreError
        It is damaged, of a later version, or of something else.
    """
    path = folder / DATABASE_NAME
    if not path.exists() or not path.stat().st_size:
        raise ConfigError(
            f"{folder} holds no enrolled device", field="state_dir", fix="run `sfumato-agent init`"
        )
    connection = connect(path)
    with _closing_on_error(connection):
        require_version(connection, path)
        connection.journal, connection.ledger = Journal(folder), LedgerSums()
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Run one transaction: all of it happens, or nothing.

    Raises
    ------
    StoreError
        SQLite refused, for instance because the disk is full, or the journal is behind and cannot
        be written; nothing was changed.
    """
    catch_up(connection)
    with translating():
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
    # It is committed, whatever comes of this: nothing is sent until the journal has caught up.
    with suppress(StoreError):
        catch_up(connection)


def note_later(connection: sqlite3.Connection) -> None:
    """Say that the open transaction changes what the journal must say."""
    if isinstance(connection, Connection) and connection.journal is not None:
        connection.journal.is_behind = True


def catch_up(connection: sqlite3.Connection) -> None:
    """Bring the journal up to the database, if it may be behind.

    Raises
    ------
    StoreError
        It cannot be written.
    """
    journal = connection.journal if isinstance(connection, Connection) else None
    if journal is not None and journal.is_behind:
        with translating():
            journal.catch_up(connection)


def sum_ledger(connection: sqlite3.Connection) -> list[PrivacyEvent]:
    """Return every release, those of one stream, plan and cost as one event."""
    ledger = connection.ledger if isinstance(connection, Connection) else None
    with translating():
        return (ledger or LedgerSums()).load(connection)


def truncate_log(connection: sqlite3.Connection) -> None:
    """Move the write-ahead log into the database and empty it, so that no erased sum stays.

    What was committed stays so where this fails, as on a full disk; it is done again behind the
    next transaction that changes a sum, and at the next start.
    """
    with translating(), suppress(sqlite3.OperationalError):
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def connect(path: Path) -> Connection:
    """Open an SQLite file as all of the agent's are opened."""
    with translating():
        connection = sqlite3.connect(path, isolation_level=None, factory=Connection)
        with _closing_on_error(connection):
            connection.row_factory = sqlite3.Row
            for pragma in _PRAGMAS:
                connection.execute(pragma).fetchall()
    return connection


@contextmanager
def _closing_on_error(connection: sqlite3.Connection) -> Iterator[None]:
    try:
        with translating():
            yield
    except BaseException:
        connection.close()
        raise


@contextmanager
def translating() -> Iterator[None]:
    """Turn what SQLite raises into a ``StoreError``."""
    try:
        yield
    except sqlite3.Error as error:
        # SQLite's messages name tables and columns, never contents.
        raise StoreError(
            f"cannot be read or written ({error})",
            field=DATABASE_NAME,
            fix="check the disk; a damaged file is set aside by the next `sfumato-agent once` or "
            "`run`",
        ) from error


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def require_version(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a file that is not an agent's, or of a later version, with a ``StoreError``."""
    if _pragma(connection, "application_id") != schema.APPLICATION_ID:
        raise StoreError(
            "is not the state of an agent", field=str(path), fix="name another state_dir"
        )
    version = _pragma(connection, "user_version")
    if version != schema.VERSION:
        raise StoreError(
            f"is of version {version} and this release knows version {schema.VERSION}",
            field=str(path),
            fix="update this software",
        )
