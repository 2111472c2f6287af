"""The clock, and waiting for the end of a program."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import Protocol


async def wait_for_stop(stop: asyncio.Event, seconds: float) -> None:
    """Wait until ``stop`` is set, at most some seconds."""
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)


def show_utc(seconds: float) -> str:
    """Write a time for people: weekday, date and time of UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%A %Y-%m-%d %H:%M UTC")


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
