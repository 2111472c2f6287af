"""Hosts by their names and addresses: this machine's own, public ones, and those of a list."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias, TypeGuard
from urllib.parse import urlsplit

Address: TypeAlias = IPv4Address | IPv6Address

_NAME = re.compile(r"(\*\.)?([a-z0-9_-]+\.)*[a-z][a-z0-9-]*")
_UNICAST = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine: ``localhost``, 127.0.0.0/8 or ::1, without a look-up.

    Other names may lead anywhere, whatever a name server says today.
    """
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def is_private(url: object) -> TypeGuard[str]:
    """Return whether nobody on the way reads what goes to an address: https, or this machine."""
    if not isinstance(url, str) or not url.isprintable():
        return False
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:  # a bracket, or a port that is no number
        return False
    is_near = parts.scheme == "http" and is_loopback(host)
    return bool(host) and (parts.scheme == "https" or is_near)


def read_address(text: str) -> Address:
    """Read an address; one of IPv4 that is written as IPv6 is returned as the former.

    Raises
    ------
    ValueError
        It is none.
    """
    address = ip_address(text)
    return getattr(address, "ipv4_mapped", None) or address


def is_public(address: Address) -> bool:
    """Return whether an address, and one that it embeds, is a public unicast address."""
    if isinstance(address, IPv6Address):
        embedded = address.sixtofour
        if address in _NAT64:
            embedded = IPv4Address(int(address) & 0xFFFF_FFFF)
        if embedded is not None:
            return is_public(embedded)
        if address not in _UNICAST:
            return False
    return address.is_global and not address.is_multicast


class HostList:
    """Hosts that are permitted besides public ones.

    Parameters
    ----------
    text
        Names, ``*.suffix`` for all names below one, addresses and networks, with commas. A name
        permits every address that it leads to.

    Raises
    ------
    ValueError
        A part is none of these.
    """

    def __init__(self, text: str) -> None:
        self._names: list[str] = []
        self._networks = []
        for part in filter(None, map(str.strip, text.lower().split(","))):
            try:
                self._networks.append(ip_network(part, strict=False))
            except ValueError:
                if not _NAME.fullmatch(part):
                    raise ValueError(
                        f"must be names, *.suffix, addresses or networks, and has {part!r}"
                    ) from None
                self._names.append(part)

    def permits(self, host: str, address: str) -> bool:
        """Return whether a host may be contacted at an address."""
        name, found = host.lower().removesuffix("."), read_address(address)
        return (
            is_public(found)
            or any(found in network for network in self._networks)
            or any(name == each or _is_below(name, each) for each in self._names)
        )


def _is_below(name: str, listed: str) -> bool:
    return listed.startswith("*.") and name.endswith(listed[1:])
