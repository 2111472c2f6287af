"""Events for systemd, one datagram for each; see sd_notify(3)."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping


class Notifier:
    """Speaks to the service manager, if there is one.

    Parameters
    ----------
    environment
        Of the process: ``NOTIFY_SOCKET`` and ``WATCHDOG_USEC`` are looked at.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        # A name that begins with @ lies in the abstract namespace.
        self._address = "\0" + address[1:] if address.startswith("@") else address
        watchdog = environment.get("WATCHDOG_USEC", "")
        self.watchdog_s = int(watchdog) / 2e6 if watchdog.isdigit() and self._address else None
        """Seconds after which the manager should have heard of us; None if it does not mind."""

    def tell(self, state: str) -> None:
        """Send a state such as ``READY=1``; a manager that does not listen is no error."""
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.sendto(state.encode(), self._address)
        except OSError:
            pass
