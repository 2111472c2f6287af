"""The time, as an argument."""

from __future__ import annotations

import time
from typing import Protocol


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
