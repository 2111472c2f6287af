"""HTTP clients: all are opened here, with the proxy that the environment names for their server."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from ipaddress import ip_address, ip_network
from ssl import SSLContext
from typing import Any
from urllib.request import getproxies

import httpx

from sfumato.shared.errors import ConfigError
from sfumato.shared.hosts import is_loopback

PROXY_FIX = (
    "write the proxy's user and password into that variable, or the server's host into NO_PROXY"
)
PLAIN_FIX = (
    "correct host and port, write http:// for a server on this machine, or set up TLS at the server"
)
_PORTS = {"http": 80, "https": 443}
_NO_TLS = ("wrong version number", "record layer failure", "unknown protocol")
"""Messages of the versions of OpenSSL for an answer without TLS."""


def open_client(
    url: str | None,
    *,
    verify: SSLContext | bool = True,
    transport: httpx.BaseTransport | None = None,
    **options: Any,
) -> httpx.Client:
    """Open a client of one server.

    Parameters
    ----------
    url
        Address of the server: that of this machine is reached without a proxy. None for a client of
        many servers, which uses none at all.
    verify
        Verifies the server's certificate.
    transport
        Replaces the network.
    options
        As of ``httpx.Client``.

    Raises
    ------
    ConfigError
        A variable of the environment names no proxy that can be used.
    """
    if transport is None:
        proxy = find_proxy(url) if url else None
        transport = _ProxyTransport(*proxy, verify) if proxy else httpx.HTTPTransport(verify=verify)
    # With a transport, httpx reads no proxy from the environment itself.
    return httpx.Client(base_url=url or "", transport=transport, **options)


def open_async_client(
    url: str | None,
    *,
    verify: SSLContext | bool = True,
    transport: httpx.AsyncBaseTransport | None = None,
    **options: Any,
) -> httpx.AsyncClient:
    """Open a client with coroutines, as :func:`open_client`."""
    if transport is None:
        proxy = find_proxy(url) if url else None
        transport = (
            _AsyncProxyTransport(*proxy, verify)
            if proxy
            else httpx.AsyncHTTPTransport(verify=verify)
        )
    return httpx.AsyncClient(base_url=url or "", transport=transport, **options)


def find_proxy(url: str) -> tuple[str, httpx.Proxy] | None:
    """Return the proxy for an address, with the variable that names it; None to use no proxy.

    Raises
    ------
    ConfigError
        The variable names none that can be used. The text does not show its value, which may have a
        password.
    """
    address = httpx.URL(url)
    found = getproxies()
    scheme = address.scheme if found.get(address.scheme) else "all"
    stated = found.get(scheme)
    if not stated or is_loopback(address.host) or _is_excepted(address, found.get("no", "")):
        return None
    variable = f"{scheme}_proxy"
    if not os.environ.get(variable):
        variable = variable.upper()
    try:
        proxy = httpx.Proxy(stated if "://" in stated else f"http://{stated}")
        is_one = bool(proxy.url.host)
    except (ValueError, httpx.InvalidURL):
        is_one = False
    if not is_one:
        raise ConfigError(
            "must be the address of a proxy",
            field=variable,
            fix="write it as http://proxy.example:8080, remove the variable, or write the server's "
            "host into NO_PROXY",
        )
    if proxy.url.scheme.startswith("socks") and find_spec("socksio") is None:
        raise ConfigError(
            "names a SOCKS proxy, which needs the module socksio",
            field=variable,
            fix="use an HTTP proxy, pip install socksio, or write the server's host into NO_PROXY",
        )
    return variable, proxy


def lacks_tls(error: Exception) -> bool:
    """Return whether a request by https failed because the server answered without TLS."""
    return isinstance(error, httpx.ConnectError) and any(each in str(error) for each in _NO_TLS)


def _is_excepted(address: httpx.URL, no_proxy: str) -> bool:
    """Return whether a list excepts an address: by names, ports, addresses or networks."""
    port = address.port or _PORTS.get(address.scheme)
    for entry in map(str.strip, no_proxy.split(",")):
        if entry == "*":
            return True
        try:
            network = ip_network(entry.replace("[", "").replace("]", ""), strict=False)
            if ip_address(address.host) in network:
                return True
        except ValueError:  # one of both is a name
            name = entry.lower().removeprefix("*").removeprefix(".")
            hosts = (f".{address.host}", f".{address.host}:{port}")
            if name and any(host.endswith(f".{name}") for host in hosts):
                return True
    return False


class Deadline:
    """Cuts the connection of a client that makes one request at a time.

    A time-out for each read never ends an answer that drips.

    ``trace`` goes into the extension of that name of each request: it learns which connection is
    in use.
    """

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        # While TLS is agreed on, the socket is in hands that nobody else can reach.
        self._copy: socket.socket | None = None
        self._lock = threading.Lock()

    def trace(self, name: str, info: dict[str, Any]) -> None:
        """Note the socket that a request waits for."""
        with self._lock:
            if name in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
                self._socket = info["return_value"].get_extra_info("socket")
            elif name == "connection.start_tls.started" and self._socket is not None:
                self._copy = self._socket.dup()
            if name in ("connection.start_tls.complete", "connection.start_tls.failed"):
                self._drop_copy()

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Cut the connection if what is done here takes longer."""
        timer = threading.Timer(seconds, self._cut)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            with self._lock:
                self._drop_copy()

    def _cut(self) -> None:
        with self._lock:
            found = self._copy or self._socket
            if found is not None:
                with suppress(OSError):  # it is closed already
                    # Not the method of a TLS socket, which would touch what its reader uses.
                    socket.socket.shutdown(found, socket.SHUT_RDWR)

    def _drop_copy(self) -> None:
        if self._copy is not None:
            self._copy.close()
            self._copy = None


class _ProxyTransport(httpx.HTTPTransport):
    def __init__(self, variable: str, proxy: httpx.Proxy, verify: SSLContext | bool) -> None:
        super().__init__(verify=verify, proxy=proxy)
        self._variable = variable

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        with _named(self._variable):
            answer = super().handle_request(request)
            if answer.status_code == httpx.codes.PROXY_AUTHENTICATION_REQUIRED:
                answer.close()
                raise httpx.ProxyError("407 Proxy Authentication Required")
            return answer


class _AsyncProxyTransport(httpx.AsyncHTTPTransport):
    def __init__(self, variable: str, proxy: httpx.Proxy, verify: SSLContext | bool) -> None:
        super().__init__(verify=verify, proxy=proxy)
        self._variable = variable

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        with _named(self._variable):
            answer = await super().handle_async_request(request)
            if answer.status_code == httpx.codes.PROXY_AUTHENTICATION_REQUIRED:
                await answer.aclose()
                raise httpx.ProxyError("407 Proxy Authentication Required")
            return answer


@contextmanager
def _named(variable: str) -> Iterator[None]:
    """Name the proxy behind an error, which the address of the server would hide."""
    try:
        yield
    except httpx.ProxyError as error:
        raise httpx.ProxyError(f"the proxy that {variable} names answered: {error}") from error
