"""Files that are on the disk, whole, once a call returns; or not there, whatever happens."""

from __future__ import annotations

import errno
import os
from pathlib import Path

_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
# Windows has none of the first two, and writes lines of its own without the third.
_CAREFUL = sum(getattr(os, name, 0) for name in ("O_CLOEXEC", "O_NOFOLLOW", "O_BINARY"))
_ANEW = os.O_CREAT | os.O_WRONLY | _CAREFUL


def replace_file(path: Path, data: bytes, *, part: str = "part", mode: int = 0o600) -> None:
    """Replace a file by one of a mode.

    Raises
    ------
    OSError
        It cannot be written; the old file is unchanged.
    """
    written = path.with_name(f"{path.name}.{part}")
    _write(written, os.O_TRUNC, data, mode)
    os.replace(written, path)
    sync_folder(path.parent)


def write_new_file(path: Path, data: bytes) -> None:
    """Write a file that only its owner can read, never over another.

    Raises
    ------
    OSError
        It is there already, or cannot be written; then nothing of it stays.
    """
    _write(path, os.O_EXCL, data, 0o600)


def place_file(path: Path, data: bytes) -> None:
    """Write a new file under another name, and give it its own when it is whole.

    Raises
    ------
    OSError
        It is there already, and stays as it was; or it cannot be written.
    """
    part = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    write_new_file(part, data)
    try:
        # Unlike a renaming, a link never replaces.
        os.link(part, path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # A file system without links, such as a memory stick's.
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from error
        os.rename(part, path)
    finally:
        part.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Wait until the names of a folder's files are on the disk; Windows has no call for that."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    directory = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def write_all(file: int, data: bytes) -> None:
    """Write all bytes at the place of an open file, and sync it; one call may write a part."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]
    os.fsync(file)


def _write(path: Path, how: int, data: bytes, mode: int) -> None:
    file = os.open(path, _ANEW | how, 0o600)
    try:
        if hasattr(os, "fchmod"):
            os.fchmod(file, mode)
        write_all(file, data)
    except BaseException:
        # Closed first: Windows deletes no open file.
        os.close(file)
        path.unlink()
        raise
    os.close(file)
