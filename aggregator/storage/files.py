"""Backing up a SQLite database while it is in use, and putting a backup in its place."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from sqlalchemy import make_url

from shared.errors import ConfigError, StoreError

_PAGES_AT_ONCE = 4096
"""Number of pages, of 4096 bytes, between pauses: writers get in there."""
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
            "is not a SQLite file",
            field="database",
            fix="back up Postgres with pg_dump, and then see docs/how-to/operations.md",
        )
    return Path(url.database)


def back_up_file(source: Path, target: Path) -> int:
    """Copy a database, as it is at one moment, to a new file; return its bytes.

    Servers may go on meanwhile. The file appears whole and checked, or not at all.

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
        # What an interrupted run left; only its owner may read what is written now.
        part.unlink(missing_ok=True)
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        _copy(source, part)
        _sync(part)
        # Not a rename, which would replace a file that came to be meanwhile.
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
        # A copy in pieces begins anew when another process writes; in one transaction it need not.
        whole.execute("BEGIN")
        whole.execute("SELECT count(*) FROM sqlite_master").fetchone()
        whole.backup(copy, pages=_PAGES_AT_ONCE, sleep=_PAUSE_S)
        # One file: a backup in WAL mode would leave others beside it.
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
