"""The SQLite file: its permissions, its durability, its overwriting of erased rows."""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sfumato.device_agent.store import schema
from sfumato.device_agent.store.disk import describe_failure
from sfumato.device_agent.store.journal import Journal, open_journal
from sfumato.device_agent.store.ledger import LedgerSums
from sfumato.shared.errors import ConfigError, StoreError
from sfumato.shared.privacy import Origin, PrivacyEvent, Reader

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
    """Connection that works for one study of a folder, with the folder's journal and ledger."""

    study: bytes = b""
    """The study that identity, streams, positions and sketches belong to; all share the ledger."""
    folder: Path | None = None
    journal: Journal | None = None
    ledger: LedgerSums | None = None

    def close(self) -> None:
        """Close the connection; the journal of a folder goes with the last of its connections."""
        self.journal = None
        super().close()


def check_folder(folder: Path, *, create: bool) -> None:
    """Check that the state's folder exists and is closed to others.

    Raises
    ------
    ConfigError
        It is missing, cannot be made, or others may enter it.
    """
    try:
        if create:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = folder.stat().st_mode
    except OSError as error:
        if create and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise describe_failure(
                error, folder=folder.parent, field="state_dir", fix="free space"
            ) from error
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


def create_database(folder: Path, study: bytes = b"") -> Connection:
    """Open the database of a folder for a study; make it first if it is missing."""
    path = folder / DATABASE_NAME
    try:
        # Made by us, for SQLite would give it the mode that the umask leaves.
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise describe_failure(
            error, folder=folder, field=str(path), fix="name a folder of this user"
        ) from error
    connection = connect(path)
    with _closing_on_error(connection):
        if not _pragma(connection, "user_version"):
            with transaction(connection):
                create_tables(connection)
        require_version(connection, path)
        _attach(connection, folder, study)
    return connection


def _attach(connection: Connection, folder: Path, study: bytes) -> None:
    connection.study = study
    connection.journal, connection.ledger = open_journal(folder), LedgerSums()


def create_tables(connection: sqlite3.Connection) -> None:
    """Make the tables and mark the file as an agent's; to be called inside a transaction."""
    for statement in schema.TABLES:
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {schema.VERSION}")


def open_database(folder: Path, study: bytes = b"") -> Connection:
    """Open the database of a folder for a study.

    Raises
    ------
    ConfigError
        The folder has none.
    StoreError
        The database is damaged, of a later version, or of another program.
    """
    path = folder / DATABASE_NAME
    if not path.exists() or not path.stat().st_size:
        raise ConfigError(
            f"{folder} must hold an enrolled device",
            field="state_dir",
            fix="run `sfumato-agent init`",
        )
    connection = connect(path)
    with _closing_on_error(connection):
        require_version(connection, path)
        _attach(connection, folder, study)
    return connection


@contextmanager
def passing_transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Run one transaction that a power cut may undo; the next full transaction makes it durable."""
    connection.execute("PRAGMA synchronous = NORMAL")
    try:
        with transaction(connection):
            yield
    finally:
        # Inside a transaction, which stays open only if SQLite cannot even roll back, it is refused
        # and would hide the error. No other transaction begins on such a connection.
        if not connection.in_transaction:
            connection.execute("PRAGMA synchronous = FULL")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Run one transaction: all of it happens, or nothing.

    Raises
    ------
    StoreError
        SQLite refused, for instance because the disk is full, or the journal cannot be written;
        nothing was changed.
    """
    catch_up(connection)
    with translating(_folder_of(connection)):
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
    """Mark the journal as behind, because the open transaction changes what it must hold."""
    if isinstance(connection, Connection) and connection.journal is not None:
        connection.journal.is_behind = True


def catch_up(connection: sqlite3.Connection) -> None:
    """Bring the journal up to the database; raises ``StoreError`` if it cannot be written."""
    journal = connection.journal if isinstance(connection, Connection) else None
    if journal is not None and journal.is_behind:
        with translating(_folder_of(connection)):
            journal.catch_up(connection)


def sum_ledger(connection: sqlite3.Connection) -> list[PrivacyEvent]:
    """Return every release to every study, those of one stream, plan and cost as one event."""
    ledger = connection.ledger if isinstance(connection, Connection) else None
    with translating(_folder_of(connection)):
        return (ledger or LedgerSums()).load(connection)


def find_near(
    connection: sqlite3.Connection, reader: Reader, origins: Iterable[Origin]
) -> set[Reader]:
    """Return the other streams whose releases may hold the records that a stream reads."""
    ledger = connection.ledger if isinstance(connection, Connection) else None
    with translating():
        return (ledger or LedgerSums()).find_near(connection, reader, origins)


def find_same_people(
    connection: sqlite3.Connection, reader: Reader, origins: Iterable[Origin]
) -> set[Reader]:
    """Return the other streams whose releases may hold records of the same people."""
    ledger = connection.ledger if isinstance(connection, Connection) else None
    with translating():
        return (ledger or LedgerSums()).find_same_people(connection, reader, origins)


def truncate_log(connection: sqlite3.Connection) -> None:
    """Checkpoint the write-ahead log and empty it, so that no erased sum stays.

    A failure, as on a full disk, loses no commit; it is repeated after the next transaction that
    changes a sum, and at the next start.
    """
    with translating(), suppress(sqlite3.OperationalError):
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def connect(path: Path, *, has_threads: bool = False) -> Connection:
    """Open an SQLite file with the agent's settings.

    Parameters
    ----------
    has_threads
        Whether several threads use the connection, one at a time.
    """
    with translating(path.parent):
        connection = sqlite3.connect(
            path, isolation_level=None, factory=Connection, check_same_thread=not has_threads
        )
        connection.folder = path.parent
        with _closing_on_error(connection):
            connection.row_factory, connection.text_factory = sqlite3.Row, decode_text
            for pragma in _PRAGMAS:
                connection.execute(pragma).fetchall()
    return connection


def decode_text(data: bytes) -> str:
    """Return a text of a database; damaged bytes are seen, and end no reading.

    Python's own error would show the text, which may be a path or a label.
    """
    return data.decode("utf-8", "replace")


@contextmanager
def _closing_on_error(connection: sqlite3.Connection) -> Iterator[None]:
    try:
        with translating(_folder_of(connection)):
            yield
    except BaseException:
        connection.close()
        raise


def _folder_of(connection: sqlite3.Connection) -> Path | None:
    return connection.folder if isinstance(connection, Connection) else None


@contextmanager
def translating(folder: Path | None = None) -> Iterator[None]:
    """Translate SQLite's errors into ``StoreError``, or ``DiskError`` if they may pass."""
    try:
        yield
    except sqlite3.Error as error:
        # SQLite's messages name tables and columns, never contents.
        raise describe_failure(
            error,
            folder=folder,
            field=DATABASE_NAME,
            fix="check the disk; a damaged file is set aside by the next `sfumato-agent once` or "
            "`run`",
        ) from error


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def require_version(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a file of another program or version, with a ``StoreError``."""
    if _pragma(connection, "application_id") != schema.APPLICATION_ID:
        raise StoreError(
            "must be the state of an agent", field=str(path), fix="name another state_dir"
        )
    version = _pragma(connection, "user_version")
    if version != schema.VERSION:
        raise StoreError(
            f"must be of version {schema.VERSION}, and is of version {version}",
            field=str(path),
            fix="update this software"
            if version > schema.VERSION
            else "send what waits with the release that made it; nothing was changed",
        )
