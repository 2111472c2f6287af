"""Which hosts are this machine itself, so that plain HTTP leaves no wire to listen on."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Tell whether a host is this machine: ``localhost``, 127.0.0.0/8 or ::1, without a look-up.

    Other names may lead anywhere, whatever a name server says today.
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
