"""Open files of records."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from threading import Lock
from typing import IO, Any

from sfumato.shared.errors import RecordError


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Map ``OSError`` to a ``RecordError`` that names the file."""
    try:
        yield
    except OSError as error:
        raise RecordError(
            f"cannot be read ({error.strerror or error})",
            field=str(path),
            fix="name a file that exists and that this user may read",
        ) from error


def open_regular(path: Path) -> FileIO:
    """Open a file for reading; refuse pipes, folders and the like."""
    # A pipe would block here until someone writes to it.
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise RecordError("is not a regular file", field=str(path), fix="name a file of records")
    return open(path, "rb", buffering=0)


class WatchedFile:
    """A regular file of records that is read once, and must stay as it is meanwhile.

    Raises
    ------
    RecordError
        It cannot be opened, is no regular file, or is empty.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._turn = path, Lock()
        with naming(path):
            self._file = open_regular(path)
            self._source: Any = self._file  # of the bytes that are read
            self._at_start = _identify(os.fstat(self.fileno()))
        self.size = os.fstat(self.fileno()).st_size
        if self.size == 0:
            self.close()
            raise RecordError("is empty", field=str(path), fix="name a file that holds records")

    def __enter__(self) -> WatchedFile:
        """Return the file; leaving closes it."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the file."""
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._source.close()
        self._file.close()

    def replace(self, make: Callable[[FileIO], IO[bytes]]) -> None:
        """Read from now on what is made of the file; ``size`` is that of this."""
        with naming(self.path):
            self._source = make(self._file)
            self.size = os.fstat(self._source.fileno()).st_size

    def fileno(self) -> int:
        """Return its descriptor."""
        return self._file.fileno()

    def fill(self, memory: memoryview, offset: int) -> None:
        """Fill ``memory`` with the bytes from ``offset`` on.

        Plain reads into memory of our own: pages of a map would count as resident, and a file that
        shrinks under a map kills the process.

        Raises
        ------
        RecordError
            The file ends before, or the disk fails.
        """
        memory = memory.cast("B")
        while memory:
            with naming(self.path):
                count = self._read_at(memory, offset)
            if count == 0:
                raise self._refuse(
                    f"ended at byte {offset}, before its {self.size} bytes were read"
                )
            memory, offset = memory[count:], offset + count

    def _read_at(self, memory: memoryview, offset: int) -> int:
        if hasattr(os, "preadv"):
            return os.preadv(self._source.fileno(), [memory], offset)
        # Windows: a place that all threads share.
        with self._turn:
            self._source.seek(offset)
            return int(self._source.readinto(memory))

    def read(self, n_bytes: int, offset: int = 0) -> bytes:
        """Return so many bytes from ``offset`` on, or all that are left."""
        piece = bytearray(max(0, min(n_bytes, self.size - offset)))
        self.fill(memoryview(piece), offset)
        return bytes(piece)

    def chunks(self, n_bytes: int, offset: int = 0) -> Iterator[bytes]:
        """Yield all bytes from ``offset`` on, so many at a time."""
        for start in range(offset, self.size, n_bytes):
            yield self.read(n_bytes, start)

    def require_unchanged(self) -> None:
        """Refuse a file that was changed, or replaced, since it was opened.

        Raises
        ------
        RecordError
            Size, time of change or identity differ.
        """
        with naming(self.path):
            now = {_identify(os.fstat(self.fileno())), _identify(os.stat(self.path))}
        if now != {self._at_start}:
            raise self._refuse("was changed while it was read")

    def _refuse(self, rule: str) -> RecordError:
        return RecordError(
            rule, field=str(self.path), fix="read it once nothing writes to it any more"
        )


def _identify(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
