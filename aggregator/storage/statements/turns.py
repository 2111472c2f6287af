"""Long computations beside those who wait for an answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy.util import await_, greenlet_spawn

T = TypeVar("T")

_SLICE_S = 0.002
_REST = 3.0


async def in_turns(compute: Callable[[Callable[[], None]], T]) -> T:
    """Run a computation in the event loop, for a quarter of the time and a few ms at once.

    Not in a thread: NumPy lets go of the interpreter at each of its steps, and to get it back from
    a busy event loop takes up to five milliseconds, as it takes the loop to get it from NumPy.

    Parameters
    ----------
    compute
        Calls its argument between pieces of its work.
    """
    since, slice_s = time.perf_counter(), _SLICE_S

    def rest() -> None:
        nonlocal since, slice_s
        worked = time.perf_counter() - since
        if worked < slice_s:
            return
        await_(asyncio.sleep(_REST * worked))
        rested = time.perf_counter() - since - worked
        # Where the others took longer than that, it may as well, lest it never keep up with them.
        since, slice_s = time.perf_counter(), max(_SLICE_S, rested / _REST)

    return await greenlet_spawn(compute, rest)
