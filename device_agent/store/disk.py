"""Files of the state: locked by one agent, with errors that say if they may pass."""

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sfumato.shared.errors import DiskError, LedgerError, StoreError

_FULL = (errno.ENOSPC, errno.EDQUOT)
_PASSING = (errno.EIO, errno.EROFS, errno.EBUSY, errno.ENFILE, errno.EMFILE)
_SQLITE_PASSING = (
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
)
_LEAST_FREE = 1 << 16
LOCK_NAME = "lock"


def describe_failure(
    error: OSError | sqlite3.Error, *, folder: Path | None, field: str, fix: str
) -> StoreError:
    """Return the error for a file that could not be read or written.

    Parameters
    ----------
    folder
        The folder of the file, whose free space is looked up; None if it is not known.
    field, fix
        The name of the file, and the fix if the disk is not at fault.

    Returns
    -------
    StoreError
        A ``DiskError`` if the same may succeed later.
    """
    text = error.strerror if isinstance(error, OSError) else str(error)
    if not _may_pass(error):
        return StoreError(f"cannot be read or written ({text})", field=field, fix=fix)
    if not _is_full(error, folder):
        fix = "check that the disk is sound and writable, then try again; nothing is lost"
        return DiskError(f"cannot be written now ({text})", field=field, fix=fix)
    where = "" if folder is None else f" of {folder}"
    return DiskError(
        f"cannot be written: the disk is full ({text})",
        field=field,
        fix=f"free space on the disk{where}; then the agent continues, and nothing is lost",
    )


def _may_pass(error: OSError | sqlite3.Error) -> bool:
    if isinstance(error, OSError):
        return error.errno in (*_FULL, *_PASSING)
    # The lower byte is the error, the others say more of it.
    return getattr(error, "sqlite_errorcode", -1) & 0xFF in _SQLITE_PASSING or "full" in str(error)


def _is_full(error: OSError | sqlite3.Error, folder: Path | None) -> bool:
    if "full" in str(error) or (isinstance(error, OSError) and error.errno in _FULL):
        return True
    # SQLite calls it an I/O error where it was its log that did not fit.
    try:
        found = os.statvfs(folder) if folder is not None else None
    except OSError:
        return False
    return found is not None and found.f_bavail * found.f_frsize < _LEAST_FREE


@contextmanager
def naming_file(
    path: Path, *, fix: str = "make its folder writable for this user"
) -> Iterator[None]:
    """Translate system errors about a file of the state into ``StoreError``."""
    try:
        yield
    except OSError as error:
        raise describe_failure(error, folder=path.parent, field=str(path), fix=fix) from error


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; the system lets go of it when the process ends, however it ends.

    Raises
    ------
    LedgerError
        Another process holds it.
    StoreError
        It cannot be made.
    """
    with naming_file(folder / LOCK_NAME):
        file = os.open(folder / LOCK_NAME, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LedgerError(
                f"{folder} cannot be used by two sfumato-agents at once",
                field="state_dir",
                fix="wait until the other one has ended, or stop it",
            ) from error
        yield
    finally:
        os.close(file)
