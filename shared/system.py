"""The operating system: random generator, modes of files, memory of the C library."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_M_ARENA_MAX = -8


class SystemSource:
    """``os.urandom``, the only source of privacy noise in the product.

    Unbuffered: nothing is kept that a fork or a crash could replay.
    """

    def draw_bytes(self, count: int) -> bytes:
        """Return ``count`` bytes of the operating system's generator."""
        return os.urandom(count)


def describe_readers(path: Path) -> str | None:
    """Return a warning if other users of this machine may read a file, with the fix."""
    try:
        is_open = os.name == "posix" and path.stat().st_mode & 0o077
    except OSError:  # there is none
        return None
    if not is_open:
        return None
    return f"{path}: others on this machine can read its secrets. Run `chmod 600 {path}*`"


def share_one_heap() -> None:
    """Let all threads allocate from one heap; glibc otherwise keeps one for each, and its memory.

    Call it before the second thread starts. Without glibc it does nothing.
    """
    mallopt = _find("mallopt")
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)


def count_cores() -> int:
    """Return the number of cores that this process may use, which a container can limit."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS, Windows
        return os.cpu_count() or 1


def give_back() -> None:
    """Return free memory to the system, above all that of temporary arrays."""
    trim = _find("malloc_trim")
    if trim is not None:
        trim(0)


def _find(name: str) -> Callable[..., int] | None:
    # The C library is part of this process already, so the disk is not searched.
    with suppress(TypeError):  # Windows
        return getattr(ctypes.CDLL(None), name, None)
    return None
