"""A file that is read once and must stay as it is meanwhile."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from shared.errors import RecordError


class WatchedFile:
    """A regular file of records, opened for reading, with the size that it has now.

    Raises
    ------
    RecordError
        It cannot be opened, is no regular file, or is empty.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with naming(path):
            # A pipe would block in open() until someone writes to it.
            if not stat.S_ISREG(os.stat(path).st_mode):
                raise RecordError(
                    "is not a regular file", field=str(path), fix="name a file of records"
                )
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            self._at_start = _identify(os.fstat(self._descriptor))
        self.size = os.fstat(self._descriptor).st_size
        if self.size == 0:
            self.close()
            raise RecordError("is empty", field=str(path), fix="name a file that holds records")

    def __enter__(self) -> WatchedFile:
        """Return the file; leaving closes it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the file."""
        self.close()

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

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
                count = os.preadv(self._descriptor, [memory], offset)
            if count == 0:
                raise self.refuse(f"ended at byte {offset}, before its {self.size} bytes were read")
            memory, offset = memory[count:], offset + count

    def require_unchanged(self) -> None:
        """Refuse a file that was changed, or replaced, since it was opened.

        Raises
        ------
        RecordError
            Size, time of change or identity differ.
        """
        with naming(self.path):
            now = {_identify(os.fstat(self._descriptor)), _identify(os.stat(self.path))}
        if now != {self._at_start}:
            raise self.refuse("was changed while it was read")

    def refuse(self, rule: str) -> RecordError:
        """Return the error of a file that changes."""
        return RecordError(
            rule, field=str(self.path), fix="sketch it once nothing writes to it any more"
        )


def _identify(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Turn the system's complaints about a file of records into ours."""
    try:
        yield
    except OSError as error:
        raise RecordError(
            f"cannot be read ({error.strerror or error})",
            field=str(path),
            fix="name a file that exists and that this user may read",
        ) from error
