"""Sources on this machine's disks: locked while they are read, and files known by identity.

Two agents that read one source would release the same records under two ledgers. The file or folder
itself is locked, by ``flock`` on a read-only descriptor: that needs no right to write, blocks no
writer, and is apart from the locks of SQLite. The system releases the lock when the process ends.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from sfumato.device_agent.sources.interface import RecordSource
from sfumato.device_agent.sources.known_files import KnownFiles
from sfumato.device_agent.sources.positions import SourceChanges
from sfumato.device_agent.sources.settings import LocalSettings
from sfumato.shared.errors import LedgerError

_held: dict[tuple[int, int], tuple[int, int]] = {}
"""Descriptor and number of users, by device and inode: streams may share a folder or a database."""


class LocalSource(RecordSource):
    """Source on this machine's disks; see ``RecordSource``."""

    chooses = True

    _settings: LocalSettings

    @cached_property
    def _files(self) -> KnownFiles:
        return KnownFiles(self._stream, self._known)

    def take_changes(self) -> SourceChanges:
        """See ``RecordSource``."""
        return self._files.take_changes()

    def _hold_lock(self, path: Path, descriptor: int | None = None) -> None:
        if self._settings.lock:
            note = self._resources.enter_context(shared_lock(path, descriptor))
            if note is not None:
                self.report.note(note)


def _lock(descriptor: int, path: Path) -> str | None:
    """Lock a file or folder until its descriptor, and every copy of that, is closed."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise LedgerError(
            "cannot be read by two sfumato-agents: each record would be released twice",
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


@contextmanager
def shared_lock(path: Path, descriptor: int | None = None) -> Iterator[str | None]:
    """Hold the lock of a file or folder, shared by all streams of this process.

    Streams of several studies may read one file: both releases are counted. The last stream closes
    the one descriptor: closing any descriptor of a database would drop SQLite's own locks on it.

    Parameters
    ----------
    path
        The path, which messages name.
    descriptor
        A descriptor of the file, if it is open: another file may be at the path by now.

    Yields
    ------
    str or None
        A warning for the owner where the file system has no locks.

    Raises
    ------
    LedgerError
        Another process holds it.
    OSError
        The path cannot be opened.
    """
    status = path.stat() if descriptor is None else os.fstat(descriptor)
    key = (status.st_dev, status.st_ino)
    note = None
    if key not in _held:
        held = (
            os.open(path, os.O_RDONLY | os.O_CLOEXEC) if descriptor is None else os.dup(descriptor)
        )
        try:
            note = _lock(held, path)
        except BaseException:
            os.close(held)
            raise
        _held[key] = held, 0
    held, n_users = _held[key]
    _held[key] = held, n_users + 1
    try:
        yield note
    finally:
        held, n_users = _held.pop(key)
        if n_users > 1:
            _held[key] = held, n_users - 1
        else:
            os.close(held)
