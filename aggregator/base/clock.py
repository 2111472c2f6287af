"""The clock, and waiting for the end of a program."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Protocol


async def wait_for_stop(stop: asyncio.Event, seconds: float) -> None:
    """Wait until ``stop`` is set, at most some seconds."""
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> float:
        """Return the seconds since 1970-01-01 UTC."""
        ...


class SystemClock:
    """The clock of this machine."""

    def now(self) -> float:
        """Return the seconds since 1970-01-01 UTC."""
        return time.time()
