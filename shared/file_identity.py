"""Which file a file is, by public facts: never by what it holds, nor by its path.

A file is its inode and the time at which it was made. That stays through renaming and appending;
a copy, or a file that is written anew, has another. Where the file system keeps no time of making,
the number of the device stands in its place, and an inode may be used again when its file is gone.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_AT_FDCWD, _AT_EMPTY_PATH = -100, 0x1000
_STATX_INO, _STATX_BTIME = 0x100, 0x800
_STRUCT_BYTES = 256
_TRIES = 16
_MASK, _INODE, _SECONDS, _NANOSECONDS = slice(0, 4), slice(32, 40), slice(80, 88), slice(88, 92)
_WITH_BIRTH = re.compile(r"file:(\d+):(\d+)")
_WITH_DEVICE = re.compile(r"file:(\d+)/(\d+)")


@dataclass(frozen=True, kw_only=True)
class FileIdentity:
    """Identity of a file.

    Parameters
    ----------
    device, inode
        As ``stat`` gives them.
    birth_ns
        When it was made, ns since 1970-01-01 UTC; None where the file system does not tell.
    """

    device: int
    inode: int
    birth_ns: int | None = None

    @property
    def source(self) -> str:
        """The source of its positions."""
        if self.birth_ns is None:
            return f"file:{self.device}/{self.inode}"
        # Numbers of devices change from one start of the machine to the next.
        return f"file:{self.inode}:{self.birth_ns}"


def identify(file: int | Path) -> FileIdentity:
    """Return the identity of an open file, or of the file at a path; links are followed.

    Raises
    ------
    OSError
        There is none, or it may not be looked at.
    """
    for _ in range(_TRIES):
        status = os.stat(file)
        found = _find_birth(file)
        # Another file may have taken the path between the two calls.
        if found is None or found[0] == status.st_ino:
            birth_ns = None if found is None else found[1]
            return FileIdentity(device=status.st_dev, inode=status.st_ino, birth_ns=birth_ns)
    raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), str(file))


def inode_of(source: str) -> int | None:
    """Return the inode in the source of a file's positions; None if it is no such source."""
    if match := _WITH_BIRTH.fullmatch(source):
        return int(match[1])
    match = _WITH_DEVICE.fullmatch(source)
    return int(match[2]) if match else None


def birth_of(source: str) -> int | None:
    """Return when the file of a source was made, ns; None where that is not known."""
    match = _WITH_BIRTH.fullmatch(source)
    return int(match[2]) if match else None


def device_of(source: str) -> int | None:
    """Return the device of a source whose file has no time of making, else None."""
    match = _WITH_DEVICE.fullmatch(source)
    return int(match[1]) if match else None


def _find_birth(file: int | Path) -> tuple[int, int] | None:
    """Return inode and time of making, or None where nothing tells."""
    statx = _find_statx()
    if statx is None:
        return None
    buffer = ctypes.create_string_buffer(_STRUCT_BYTES)
    mask = _STATX_INO | _STATX_BTIME
    if isinstance(file, int):
        failed = statx(file, b"", _AT_EMPTY_PATH, mask, buffer)
    else:
        failed = statx(_AT_FDCWD, os.fsencode(file), 0, mask, buffer)
    fields = bytes(buffer)
    if failed or not _read(fields[_MASK]) & _STATX_BTIME:
        return None
    birth_ns = _read(fields[_SECONDS]) * 10**9 + _read(fields[_NANOSECONDS])
    return (_read(fields[_INODE]), birth_ns) if birth_ns else None


def _read(field: bytes) -> int:
    return int.from_bytes(field, sys.byteorder)


@cache
def _find_statx() -> Callable[..., int] | None:
    # Python offers no statx before 3.15; ctypes is loaded by NumPy anyway.
    found: Callable[..., int] | None = getattr(ctypes.CDLL(None), "statx", None)
    return found
