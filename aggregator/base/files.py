"""Back up a SQLite database while it is in use."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

from sqlalchemy import make_url

from sfumato.aggregator.base.engine import is_damage
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


async def back_up_file(
    source: Path, target: Path, *, check: Callable[[Path], Awaitable[None]]
) -> int:
    """Copy a database at one moment to a new file; return its size in bytes.

    Servers may run meanwhile. The file appears whole and checked, or not at all.

    Parameters
    ----------
    check
        Checks the copy before it gets its name; it may change it, and raises if it is damaged.

    Raises
    ------
    ConfigError
        There is no such database, or the target exists or cannot be written.
    StoreError
        The database is damaged.
    """
    if not source.is_file():
        raise ConfigError(f"{source} is not a file", field="database", fix="correct the path")
    if target.exists():
        raise ConfigError(f"{target} exists", field="file", fix="name one that does not")
    part = target.with_name(target.name + ".part")
    try:
        # An interrupted run may have left one. Only the owner may read the new one.
        _remove(part)
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        _copy(source, part)
        await check(part)
        with closing(sqlite3.connect(part)) as copy:
            # A backup in WAL mode would need more than one file.
            copy.execute("PRAGMA journal_mode=DELETE")
        _sync(part)
        # A rename would replace a file that was made meanwhile.
        os.link(part, target)
        _sync(target.parent)
    except (OSError, sqlite3.Error, UnicodeDecodeError) as error:
        if is_damage(error):
            raise describe_damage(source, str(error)) from error
        raise ConfigError(
            f"{target} cannot be written ({error})", field="file", fix="name another, or make room"
        ) from error
    finally:
        _remove(part)
    return target.stat().st_size


def describe_damage(source: Path, damage: str) -> StoreError:
    """Return the error that names a damaged database, or a damaged backup."""
    return StoreError(
        f"{source} is damaged: {damage}; nothing was written",
        field="database",
        fix="use an earlier backup; `sfumato check-store --database FILE` lists every fault",
    )


def _copy(source: Path, part: Path) -> None:
    with (
        closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)) as whole,
        closing(sqlite3.connect(part)) as copy,
    ):
        # Outside a transaction, a copy in pieces restarts whenever another process writes.
        whole.execute("BEGIN")
        whole.execute("SELECT count(*) FROM sqlite_master").fetchone()
        whole.backup(copy, pages=_PAGES_AT_ONCE, sleep=_PAUSE_S)
        (found,) = copy.execute("PRAGMA integrity_check(1)").fetchone()
    if found != "ok":
        raise describe_damage(source, found)


def _remove(part: Path) -> None:
    for end in ("", "-wal", "-shm"):
        part.with_name(part.name + end).unlink(missing_ok=True)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
