"""Estimate of the server's time between its answers and after a restart; see ``Clocks``."""

from __future__ import annotations

import sqlite3
import time
from contextlib import suppress
from pathlib import Path

from sfumato.device_agent.store.server_state import AgreedTime, load_agreed_time, save_agreed_time
from sfumato.device_agent.windows import OLDER_THAN_THIS, Clocks
from sfumato.shared.errors import StoreError
from sfumato.shared.wire import CLOCK_LEEWAY_S

_BELIEVED_S = 86400.0
"""Clocks drift apart; within a day by seconds."""
_SAVE_S = 3600.0
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class ServerClock:
    """Estimate of the server's time."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._answered: tuple[float, float] | None = None
        self._agreed = load_agreed_time(connection)

    def note(self, server_time: float, device: float) -> Clocks:
        """Note an answer that came just now, and return the clocks."""
        before = self.read(device)
        self._answered = server_time, _boot_time()
        clocks = Clocks(
            device=device, server=server_time, certain=before.certain, is_exact=before.is_exact
        )
        if clocks.agree:
            self._save(min(clocks.known), before.certain)
        return clocks

    def read(self, device: float) -> Clocks:
        """Return the clocks now; an answer older than a day is not used."""
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
        """Save the certain time for the next start of the machine."""
        if self._agreed is not None:
            self._save(self._find_certain()[0], None)

    def _find_certain(self) -> tuple[float, bool]:
        agreed, now = self._agreed, _boot_time()
        if agreed is None:
            return OLDER_THAN_THIS, False
        boot = _boot_id()
        is_exact = bool(boot) and boot == agreed.boot and now >= agreed.since_boot
        # Where nobody says which start this is, the machine may have run all the while.
        has_restarted = now < agreed.since_boot or (bool(boot) and boot != agreed.boot)
        passed = now if has_restarted else now - agreed.since_boot
        return agreed.seconds + passed, is_exact

    def _save(self, seconds: float, known: float | None) -> None:
        """Save a time that has come; rarely, because disks wear out."""
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
