"""The clocks that windows are closed by: the device's, the server's, and what is certain without.

Nobody sets the time since the machine was started, so it carries on what device and server have
agreed on: a time that has come for certain, whatever either clock says later. By it a clock that
went wrong is told from one that is right, and without the server no clock that jumps ahead decides
what is spent.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from device_agent.store import AgreedTime, load_agreed_time, save_agreed_time
from shared.errors import StoreError, TransportError
from shared.wire import CLOCK_LEEWAY_S

_BELIEVED_S = 86400.0
"""Clocks drift apart; within a day by seconds."""
_SAVE_S = 3600.0
_OLDER_THAN_THIS = 1_672_531_200.0
"""2023-01-01: no clock that says less is right."""
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, kw_only=True)
class Clocks:
    """The time by several clocks; seconds since 1970-01-01 UTC.

    Parameters
    ----------
    device
        This machine's clock.
    server
        The server's time, if it answered; or the time that both agreed on less than a day ago,
        carried on.
    certain
        A time that has come for certain: what both agreed on once, and how long the machine has
        run since. If they never agreed, a day before this software was made.
    is_exact
        Whether the machine was not started again since, so that ``certain`` is the time itself.
    """

    device: float
    server: float | None = None
    certain: float = _OLDER_THAN_THIS
    is_exact: bool = False

    @property
    def agree(self) -> bool:
        """True if they differ by no more than the leeway, or if only one is known."""
        return self.server is None or abs(self.device - self.server) <= CLOCK_LEEWAY_S

    @property
    def latest_believable(self) -> float:
        """The time beyond which no record is believed: the earlier of the clocks that may be right.

        A clock that is behind what is certain says nothing.
        """
        may_be_right = [now for now in self.known if now >= self.certain - CLOCK_LEEWAY_S]
        if self.agree:
            may_be_right = may_be_right[:1]
        return max(min(may_be_right, default=self.certain), self.certain)

    @property
    def known(self) -> list[float]:
        """The clocks that say something: the device's, and the server's if it does."""
        return [self.device] if self.server is None else [self.device, self.server]

    @property
    def closing(self) -> list[float]:
        """The clocks that must all agree that a slot is over."""
        return self.known

    @property
    def spending(self) -> list[float]:
        """The clocks that must all agree where time alone spends.

        Without the server it is the time that is certain, however far the device's clock goes.
        """
        return [self.device, self.certain if self.server is None else self.server]

    @property
    def earliest(self) -> float:
        """A time that has come by every clock."""
        return min(self.spending)


class ServerClock:
    """Estimate of the time between the server's answers, and after a new start."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._answered: tuple[float, float] | None = None
        self._agreed = load_agreed_time(connection)

    def note(self, server_time: float, device: float) -> Clocks:
        """Note an answer that came just now, and return the clocks by it."""
        before = self.read(device)
        self._answered = server_time, _boot_time()
        clocks = Clocks(
            device=device, server=server_time, certain=before.certain, is_exact=before.is_exact
        )
        if clocks.agree:
            self._save(min(clocks.known), before.certain)
        return clocks

    def read(self, device: float) -> Clocks:
        """Return the clocks now; an answer of more than a day ago says nothing any more."""
        certain, is_exact = self._find_certain()
        server = None
        if self._answered is not None:
            server_time, then = self._answered
            passed = _boot_time() - then
            server = server_time + passed if passed <= _BELIEVED_S else None
        elif self._agreed is not None and is_exact:
            passed = _boot_time() - self._agreed.since_boot
            server = certain if passed <= _BELIEVED_S else None
        return Clocks(device=device, server=server, certain=certain, is_exact=is_exact)

    def keep(self) -> None:
        """Save the time that is certain now, for a start of the machine that is to come."""
        if self._agreed is not None:
            self._save(self._find_certain()[0], None)

    def _find_certain(self) -> tuple[float, bool]:
        agreed, now = self._agreed, _boot_time()
        if agreed is None:
            return _OLDER_THAN_THIS, False
        boot = _boot_id()
        is_exact = bool(boot) and boot == agreed.boot and now >= agreed.since_boot
        # Where nobody says which start this is, the machine may have run all the while.
        has_restarted = now < agreed.since_boot or (bool(boot) and boot != agreed.boot)
        passed = now if has_restarted else now - agreed.since_boot
        return agreed.seconds + passed, is_exact

    def _save(self, seconds: float, known: float | None) -> None:
        """Save a time that has come; not each time, for disks wear out by it."""
        now = AgreedTime(seconds=seconds, boot=_boot_id(), since_boot=_boot_time())
        before, self._agreed = self._agreed, now
        if before is not None and known is not None:
            is_recent = before.boot == now.boot and now.since_boot - before.since_boot < _SAVE_S
            if is_recent and abs(seconds - known) <= CLOCK_LEEWAY_S:
                self._agreed = before
                return
        with suppress(StoreError):  # on a full disk: after a later answer
            save_agreed_time(self._connection, now)


def _boot_time() -> float:
    # Unlike the monotonic clock it goes on while the machine sleeps.
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def describe_difference(clocks: Clocks) -> str:
    """Describe by how much the clocks differ, which one is wrong if known, and the fix."""
    server = clocks.server or 0.0
    off = clocks.device - server
    order = "ahead of" if off > 0 else "behind"
    return (
        f"clock: this device ({format_time(clocks.device)}) is {abs(off):.0f} s {order} the server "
        f"({format_time(server)}), so no window is closed by the clock. {_judge(clocks)}"
    )


def describe_uncertain(clocks: Clocks) -> str:
    """Describe that time alone spends nothing while it is uncertain."""
    if clocks.certain <= _OLDER_THAN_THIS:
        known = "This device and the server have never agreed on the time"
    else:
        known = f"It is certain that {format_time(clocks.certain)} has come"
    return (
        f"clock: this device says {format_time(clocks.device)}, and the server does not answer. "
        f"{known}, and no slot after that is released before the server confirms the time"
    )


def describe_unasked(error: TransportError) -> str:
    """Describe the consequences of a request that the server did not answer."""
    return (
        f"{error}. Without the server it cannot be checked whether this device was cloned or "
        "restored from a backup"
    )


def _judge(clocks: Clocks) -> str:
    certain, server = clocks.certain, clocks.server or 0.0
    is_device_off, is_server_off = (
        clock < certain - CLOCK_LEEWAY_S or (clocks.is_exact and clock > certain + CLOCK_LEEWAY_S)
        for clock in (clocks.device, server)
    )
    if is_device_off and not is_server_off:
        return "The device's clock is wrong, by the time that has passed: set this machine's clock"
    if is_server_off and not is_device_off:
        return "The server's clock is wrong, by the time that has passed: tell the study's operator"
    return (
        "Either may be wrong: compare with a third clock, then set this machine's, or tell the "
        "study's operator"
    )


def format_time(seconds: float) -> str:
    """Write a time as RFC 3339 UTC, also one that a clock is wrong by."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return f"{seconds:.0f} s after 1970"
