"""Targets of webhooks: the connections to them lead to permitted addresses alone."""

from __future__ import annotations

import asyncio
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import httpx

from sfumato.shared.errors import ConfigError
from sfumato.shared.hosts import HostList

AT_ONCE = 4
"""Messages that one server sends to one target at once."""
MOST_TARGETS = 32
"""Targets that one server sends to at once."""
_PORTS = {"http": 80, "https": 443}


class RefusedError(httpx.TransportError):
    """A host has only addresses that are not permitted."""


def find_target(url: str) -> tuple[str, int]:
    """Return host and port of an address."""
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or _PORTS[parts.scheme]


def require_host(hosts: HostList, host: str) -> None:
    """Refuse a host that states an address which is not permitted; names are judged when used.

    Raises
    ------
    ConfigError
        The address is neither public nor listed.
    """
    try:
        if hosts.permits(host, "127.0.0.1" if host.lower() == "localhost" else host):
            return
    except ValueError:
        return  # a name
    raise ConfigError(
        f"must have a public host, and {host} is not one",
        field="url",
        fix="use a public host, or let the server's administrator permit this one with "
        f"`sfumato serve --webhook-hosts {host}`",
    )


class CheckedTransport(httpx.AsyncBaseTransport):
    """Connects to permitted addresses alone, without a proxy.

    A name is looked up once: the address that was checked is the one connected to, so a name server
    cannot change it in between. `Host` and TLS keep the name.
    """

    def __init__(self, hosts: HostList) -> None:
        self._hosts = hosts
        # Threads of their own: a look-up may hang for long, and must hold up no other.
        self._threads = ThreadPoolExecutor(AT_ONCE * MOST_TARGETS, "webhooks")
        self._inner = httpx.AsyncHTTPTransport(
            # The authorities of this machine, which its operator may have added to.
            verify=ssl.create_default_context(),
            # Names that share an address share no connection, which has the certificate of one.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request to the first address that can be reached."""
        host, port = request.url.raw_host.decode(), find_target(str(request.url))[1]
        failure: httpx.TransportError = RefusedError(f"{host} has no permitted address")
        request.extensions = request.extensions | {"sni_hostname": host}
        for address in await self._look_up(host, port):
            if self._hosts.permits(host, address):
                request.url = request.url.copy_with(host=address)
                try:
                    return await self._inner.handle_async_request(request)
                except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                    failure = error
        raise failure

    async def _look_up(self, host: str, port: int) -> list[str]:
        def find() -> list[str]:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            return [str(place[0]) for *_, place in found]

        return await asyncio.get_running_loop().run_in_executor(self._threads, find)

    async def aclose(self) -> None:
        """Close; look-ups under way are left alone."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        await self._inner.aclose()
