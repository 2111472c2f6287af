"""A deadline for a whole request: a time-out for each read never ends an answer that drips."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any


class Deadline:
    """Cuts the connection of a client that makes one request at a time.

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
