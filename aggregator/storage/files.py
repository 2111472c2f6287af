"""Back up a SQLite database while it is in use."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from sqlalchemy import make_url

from sfumato.shared.errors import ConfigError, StoreError

_PAGES_AT_ONCE = 4096
"""Pages of 4096 bytes between two pauses, in which others write."""
_PAUSE_S = 0.005


def path_of(database_url: str) -> Path:
    """Return the file of a SQLite database.

    Raises
    ------
    ConfigError
        It is another kind of database.
    """
    url = make_url(database_url) if "://" in database_url else None
    if url is None or url.get_backend_name() != "sqlite" or not url.database:
        raise ConfigError(
            "must be a SQLite file",
            field="database",
            fix="back up Postgres with pg_dump, and then see docs/how-to/operations.md",
        )
    return Path(url.database)


def back_up_file(source: Path, target: Path) -> int:
    """Copy a database at one moment to a new file; return its size in bytes.

    Servers may run meanwhile. The file appears whole and checked, or not at all.

    Raises
    ------
    ConfigError
        There is no such database, or the target exists or cannot be written.
    StoreError
        The copy is damaged.
    """
    if not source.is_file():
        raise ConfigError(f"{source} is not a file", field="database", fix="correct the path")
    if target.exists():
        raise ConfigError(f"{target} exists", field="file", fix="name one that does not")
    part = target.with_name(target.name + ".part")
    try:
        # An interrupted run may have left one. Only the owner may read the new one.
        part.unlink(missing_ok=True)
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        _copy(source, part)
        _sync(part)
        # A rename would replace a file that was made meanwhile.
        os.link(part, target)
        _sync(target.parent)
    except (OSError, sqlite3.Error) as error:
        raise ConfigError(
            f"{target} cannot be written ({error})", field="file", fix="name another, or make room"
        ) from error
    finally:
        part.unlink(missing_ok=True)
    return target.stat().st_size


def _copy(source: Path, part: Path) -> None:
    with (
        closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)) as whole,
        closing(sqlite3.connect(part)) as copy,
    ):
        # Outside a transaction, a copy in pieces restarts whenever another process writes.
        whole.execute("BEGIN")
        whole.execute("SELECT count(*) FROM sqlite_master").fetchone()
        whole.backup(copy, pages=_PAGES_AT_ONCE, sleep=_PAUSE_S)
        # A backup in WAL mode would need more than one file.
        copy.execute("PRAGMA journal_mode=DELETE")
        (found,) = copy.execute("PRAGMA quick_check").fetchone()
    if found != "ok":
        raise StoreError(f"is damaged: {found}", field="database", fix="restore an earlier backup")


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
