"""Clocks that close windows: the device's, the server's, and the certain time.

Device and server agree on a time; the machine's uptime, which nobody can set, carries it on. So a
wrong clock is told from a right one, and without the server no clock that jumps ahead spends.
"""

from __future__ import annotations

from dataclasses import dataclass

from sfumato.shared.wire import CLOCK_LEEWAY_S, format_time

OLDER_THAN_THIS = 1_672_531_200.0
"""2023-01-01: no clock that says less is right."""
UNCONFIRMED_S = 30 * 86400.0
"""How far beyond the certain time a clock is believed without the server."""


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
    certain: float = OLDER_THAN_THIS
    is_exact: bool = False

    @property
    def agree(self) -> bool:
        """True if they differ by no more than the leeway, or if only one is known."""
        return self.server is None or abs(self.device - self.server) <= CLOCK_LEEWAY_S

    @property
    def may_close(self) -> bool:
        """True if windows may close by the clock.

        The clocks agree; without the server, the device's is not far beyond what is certain.
        """
        if self.server is not None or self.certain <= OLDER_THAN_THIS:
            return self.agree
        return self.device <= self.certain + UNCONFIRMED_S

    @property
    def latest_believable(self) -> float:
        """The time beyond which no record is believed: the earlier of the clocks that may be right.

        A clock that is behind what is certain says nothing, nor one that is far beyond it without
        the server.
        """
        if self.server is None and not self.may_close:
            return self.certain
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


def describe_difference(clocks: Clocks) -> str:
    """Describe by how much the clocks differ, which one is wrong if known, and the fix."""
    if clocks.server is None:
        days = (clocks.device - clocks.certain) / 86400
        return (
            f"clock: this device says {format_time(clocks.device)}, {days:.0f} days after the last "
            f"time that is certain ({format_time(clocks.certain)}), and the server does not "
            "answer, so no window is closed by the clock. If that time is wrong, set this "
            "machine's clock; if it is right, connect this machine to the server"
        )
    server = clocks.server
    off = clocks.device - server
    order = "ahead of" if off > 0 else "behind"
    return (
        f"clock: this device ({format_time(clocks.device)}) is {abs(off):.0f} s {order} the server "
        f"({format_time(server)}), so no window is closed by the clock. {_judge(clocks)}"
    )


def describe_uncertain(clocks: Clocks) -> str:
    """Describe that time alone spends nothing while it is uncertain."""
    if clocks.certain <= OLDER_THAN_THIS:
        known = "This device and the server have never agreed on the time"
    else:
        known = f"It is certain that {format_time(clocks.certain)} has come"
    return (
        f"clock: this device says {format_time(clocks.device)}, and the server does not answer. "
        f"{known}, and no slot after that is released before the server confirms the time"
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
