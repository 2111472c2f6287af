"""A source is read by one agent at a time: two would release the same records under two ledgers.

What is locked is the file or folder itself, by ``flock`` on a descriptor that can only read: that
needs no right to write, keeps no writer from writing, and is apart from the locks of SQLite. The
system lets go of it when the process ends, however it ends.
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
        What to tell the owner where the file system knows no locks.

    Raises
    ------
    LedgerError
        Another process holds it.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise LedgerError(
            "is read by another sfumato-agent or stream, which releases its records: a source has "
            "one reader, or each record is released twice",
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
    """The lock of a file or folder, which all streams of this process hold together.

    Streams of several studies may read one file: both releases are counted.

    Parameters
    ----------
    path
        Where it is, and what messages call it.
    descriptor
        Of the file, if it is open: what is at the path may be another by now.

    Its descriptor is one for all of them, and is closed by the last: to close any descriptor of a
    database would take from this process the locks that SQLite has on it.

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
        """Let go of it; again is harmless."""
        if not self._is_open:
            return
        self._is_open = False
        held = _held[self._key]
        held.n_users -= 1
        if not held.n_users:
            del _held[self._key]
            os.close(held.descriptor)
