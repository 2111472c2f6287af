"""Surroundings of the sensor in C: a secure element with its key, and a gateway."""

from __future__ import annotations

import socket
import tempfile
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_PATIENCE_S = 10.0
_HEADERS = ("Content-Type", "Signature", "Signature-Input")


class _Served:
    """Something that a thread serves for the length of a block."""

    def __init__(self, serve: Callable[[], None], stop: Callable[[], None]) -> None:
        self._thread, self._stop = threading.Thread(target=serve, daemon=True), stop

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()
        self._thread.join()


class Element(_Served):
    """A secure element: it signs what comes over a socket, two bytes of length before it."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key, self._folder = key, tempfile.TemporaryDirectory()
        self.path = str(Path(self._folder.name) / "element")
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(self.path)
        self._socket.listen()
        super().__init__(self._serve, self._close)

    def _serve(self) -> None:
        while True:
            try:
                line, _ = self._socket.accept()
            except OSError:
                return
            with line, line.makefile("rwb") as stream:
                size = int.from_bytes(stream.read(2), "big")
                stream.write(self._key.sign(stream.read(size)))

    def _close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._folder.cleanup()


class Gateway(_Served):
    """A gateway: it passes requests on over HTTPS, unchanged, and answers nothing where it cannot.

    Parameters
    ----------
    url
        The server.
    stored
        Gets the path of each sketch that the server has stored.
    """

    def __init__(self, url: str, stored: set[str]) -> None:
        client = httpx.Client(base_url=url, timeout=_PATIENCE_S)

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._pass_on()

            def do_PUT(self) -> None:
                self._pass_on()

            def _pass_on(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                headers = {each: self.headers[each] for each in _HEADERS if each in self.headers}
                try:
                    answer = client.request(self.command, self.path, content=body, headers=headers)
                except httpx.TransportError:
                    return
                if self.command == "PUT" and answer.is_success:
                    stored.add(self.path)
                self.send_response(answer.status_code)
                self.send_header("Content-Type", answer.headers.get("Content-Type", "text/plain"))
                self.end_headers()
                self.wfile.write(answer.content)

            def log_message(self, format: str, *_: object) -> None:
                """Write no log."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = server.server_address[1]

        def stop() -> None:
            server.shutdown()
            server.server_close()
            client.close()

        super().__init__(server.serve_forever, stop)
