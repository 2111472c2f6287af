"""TLS contexts from the settings, and a deadline for whole requests."""

from __future__ import annotations

import os
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sfumato.device_agent.settings.owner_tables import TlsSettings
from sfumato.shared.errors import ConfigError

_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR")


def make_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return a TLS context that trusts the given authorities alone, or else those of the system.

    Raises
    ------
    ConfigError
        A file that the settings or the environment name is not there, or not what it should be.
    """
    _require_variables()
    given = settings.ca_file
    context = _load(given, "tls.ca_file") if given else _trust_system()
    if settings.certificate is not None:
        try:
            context.load_cert_chain(settings.certificate, settings.key)
        except (OSError, ssl.SSLError, ValueError) as error:
            raise _refuse("tls.certificate", settings.certificate, error) from error
    return context


def _trust_system() -> ssl.SSLContext:
    file = os.environ.get("SSL_CERT_FILE")
    if file:
        return _load(Path(file), "SSL_CERT_FILE")
    paths = ssl.get_default_verify_paths()
    if paths.cafile or paths.capath:
        return ssl.create_default_context()
    # Small images have no certificates; httpx brings some.
    import certifi

    return _load(Path(certifi.where()), "certifi")


def _load(path: Path, field: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=path)
    except (OSError, ssl.SSLError) as error:
        raise _refuse(field, path, error) from error


def _require_variables() -> None:
    for name in _VARIABLES:
        value = os.environ.get(name)
        if value and not Path(value).exists():
            raise ConfigError(
                f"must name an existing file or folder, and {value} does not exist",
                field=name,
                fix="correct it, or remove it from the environment",
            )


def _refuse(field: str, path: Path, error: Exception) -> ConfigError:
    reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
    return ConfigError(
        f"{path} cannot be used ({reason})",
        field=field,
        fix="name a file in PEM that this user may read",
    )


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
