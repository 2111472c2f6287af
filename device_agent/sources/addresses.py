"""Addresses of servers and brokers, one spelling for each, and the secrets that they ask for."""

from __future__ import annotations

import socket
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from urllib.parse import urlsplit

from sfumato.shared.errors import RecordError
from sfumato.shared.structure import Rule

_LOCAL_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback")


def address_rule(*schemes: str, example: str) -> Rule:
    """Return the rule for an address with one of two schemes, and without a user."""

    def holds(text: str) -> bool:
        parts = urlsplit(text)
        # Reading the port checks it.
        known = parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
        return known and not parts.username and not any(map(str.isspace, text))

    return Rule(
        holds,
        f"must be an address that begins with {' or '.join(f'{s}://' for s in schemes)}, without a "
        "user",
        f'write it as "{example}"',
    )


def normalise_host(host: str) -> str:
    """Return a host in the spelling that is compared; all names of this machine are one.

    A name server may know further names of the same machine; they are not resolved.
    """
    name = host.lower().rstrip(".")
    if name in _LOCAL_NAMES:
        return _LOCAL_NAMES[0]
    address: IPv4Address | IPv6Address | None = None
    with suppress(OSError, ValueError):
        # Also 127.1 and 2130706433, as the system reads them.
        address = IPv4Address(socket.inet_aton(name))
    with suppress(ValueError):
        address = address or IPv6Address(name)
    if isinstance(address, IPv6Address):
        address = address.ipv4_mapped or address
    if address is not None:
        return _LOCAL_NAMES[0] if address.is_loopback else str(address)
    with suppress(UnicodeError):
        name = name.encode("idna").decode()
    return name


def read_secret(path: Path, *, encoding: str = "ascii") -> str:
    """Return the one line of a file; messages never show it.

    Raises
    ------
    RecordError
        It cannot be read, or holds anything else.
    """
    try:
        text = path.read_bytes().decode(encoding).strip()
        reason = None if text.isprintable() else "it has more than one line"
    except OSError as error:
        reason = error.strerror
    except UnicodeDecodeError:
        reason = f"it is not {encoding.upper()}"
    if reason is not None:
        raise RecordError(
            f"cannot be used ({reason})",
            field=str(path),
            fix="name a file with the token or password of this client alone",
        )
    return text
