"""Identity of a file by public facts: never its content, nor its path.

The identity is the inode with the file's birth time. It survives renaming and appending; a copy or
a rewritten file has another. Where the file system keeps no birth time, the number of the device
replaces it, and the inode may be reused after the file is deleted.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress
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
        As ``stat`` reports them.
    birth_ns
        Birth time, ns since 1970-01-01 UTC; None where the file system keeps none.
    """

    device: int
    inode: int
    birth_ns: int | None = None

    @property
    def source(self) -> str:
        """Name of the file as the source of stream positions."""
        if self.birth_ns is None:
            return f"file:{self.device}/{self.inode}"
        # Device numbers change when the machine restarts.
        return f"file:{self.inode}:{self.birth_ns}"


def identify(file: int | Path) -> FileIdentity:
    """Return the identity of an open file, or of the file at a path; links are followed.

    Raises
    ------
    OSError
        The file does not exist, or may not be inspected.
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
    """Return the inode in a file's source name; None for other sources."""
    if match := _WITH_BIRTH.fullmatch(source):
        return int(match[1])
    match = _WITH_DEVICE.fullmatch(source)
    return int(match[2]) if match else None


def birth_of(source: str) -> int | None:
    """Return the birth time in a file's source name, ns; None if there is none."""
    match = _WITH_BIRTH.fullmatch(source)
    return int(match[2]) if match else None


def device_of(source: str) -> int | None:
    """Return the device in the source name of a file without birth time, else None."""
    match = _WITH_DEVICE.fullmatch(source)
    return int(match[1]) if match else None


def _find_birth(file: int | Path) -> tuple[int, int] | None:
    """Return inode and birth time, or None where the file system keeps none."""
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
    with suppress(TypeError):  # Windows
        found: Callable[..., int] | None = getattr(ctypes.CDLL(None), "statx", None)
        return found
    return None
