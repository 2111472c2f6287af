"""Locks: two agents that read one source would release the same records under two ledgers.

The file or folder itself is locked, by ``flock`` on a read-only descriptor: that needs no right to
write, blocks no writer, and is apart from the locks of SQLite. The system releases the lock when
the process ends.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from shared.errors import LedgerError

_held: dict[tuple[int, int], _Held] = {}
"""By device and inode: streams of one agent may share a folder or a database."""


class _Held:
    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.n_users = 0


def lock_open_file(descriptor: int, path: Path) -> str | None:
    """Lock a file or folder until its descriptor, and every copy of that, is closed.

    Returns
    -------
    str or None
        A warning for the owner, where the file system has no locks.

    Raises
    ------
    LedgerError
        Another process holds it.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise LedgerError(
            "is read by another sfumato-agent: a source must have one reader, or each record is "
            "released twice",
            field=str(path),
            fix="stop the other one, or let one agent read it; where a program that writes it "
            "holds its lock, state lock = false",
        ) from error
    except OSError as error:
        # Network file systems lock nothing through a descriptor that only reads.
        return (
            f"{path} cannot be locked ({error.strerror}): make sure that no other agent reads it, "
            "or its records are released twice"
        )
    return None


class SharedLock:
    """The lock of a file or folder, shared by all streams of this process.

    Streams of several studies may read one file: both releases are counted.

    Parameters
    ----------
    path
        The path, which messages name.
    descriptor
        A descriptor of the file, if it is open: another file may be at the path by now.

    The last stream closes the one descriptor: closing any descriptor of a database would drop
    SQLite's own locks on it.

    Raises
    ------
    LedgerError
        Another process holds it.
    OSError
        The path cannot be opened.
    """

    def __init__(self, path: Path, descriptor: int | None = None) -> None:
        self.note: str | None = None
        """The warning for the owner where it cannot be locked."""
        status = path.stat() if descriptor is None else os.fstat(descriptor)
        self._key = (status.st_dev, status.st_ino)
        held = _held.get(self._key)
        if held is None:
            held = _Held(
                os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                if descriptor is None
                else os.dup(descriptor)
            )
            try:
                self.note = lock_open_file(held.descriptor, path)
            except BaseException:
                os.close(held.descriptor)
                raise
            _held[self._key] = held
        held.n_users += 1
        self._is_open = True

    def close(self) -> None:
        """Release the lock; idempotent."""
        if not self._is_open:
            return
        self._is_open = False
        held = _held[self._key]
        held.n_users -= 1
        if not held.n_users:
            del _held[self._key]
            os.close(held.descriptor)
