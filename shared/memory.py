"""Keeping a long-lived process small: what the C library holds back, given to others."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

_M_ARENA_MAX = -8


def share_one_heap() -> None:
    """Let all threads allocate from one heap; glibc else gives each its own, never given back.

    To be called before the second thread is started. Elsewhere than with glibc nothing happens.
    """
    mallopt = _find("mallopt")
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)


def give_back() -> None:
    """Give free memory back to the system, that of temporary arrays above all."""
    trim = _find("malloc_trim")
    if trim is not None:
        trim(0)


def _find(name: str) -> Callable[..., int] | None:
    # The C library is part of this process already, so nothing is looked for on the disk.
    return getattr(ctypes.CDLL(None), name, None)
