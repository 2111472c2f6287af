"""What a long fit does now, shown to whoever waits for it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

_BEFORE = 1.0
_BETWEEN = 5.0
"""Seconds until a step is shown, and between two lines where one cannot replace another."""


def follow_step(step: str, *, verbose: bool) -> Callable[[float], None]:
    """Return what shows the completed share of a step, 0 to 1, on standard error.

    On a terminal, and in a notebook, one line changes; elsewhere a line follows every five seconds.
    Steps of less than a second show nothing.
    """
    started = time.monotonic()
    last, is_shown = started, False
    replaces = sys.stderr.isatty() or "ipykernel" in sys.modules

    def show(share: float) -> None:
        nonlocal last, is_shown
        now = time.monotonic()
        is_due = now - last >= (_BEFORE if replaces or not is_shown else _BETWEEN)
        if not verbose or not (is_due or (is_shown and share >= 1.0)):
            return
        last, is_shown = now, True
        text = f"{step}: {share:4.0%}, {now - started:.0f} s"
        ends = share >= 1.0 or not replaces
        sys.stderr.write(("\r" if replaces else "") + text + ("\n" if ends else ""))
        sys.stderr.flush()

    return show
