"""A plain HTTP address with the paths of the server that a device needs.

An upload is kept before it is answered, and its answer is the server's where that comes in time. A
device's signed GET requests are passed on as they are.
"""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

from sfumato.device_agent.relay.answers import Answer, answer_problem
from sfumato.device_agent.relay.intake import Intake
from sfumato.device_agent.settings.relay_settings import HttpTable
from sfumato.shared.errors import (
    ConfigError,
    MalformedMessageError,
    MediaTypeError,
    MethodError,
    SketchError,
    SlowRequestError,
)
from sfumato.shared.wire import SKETCH_MEDIA_TYPE

MOST_CONNECTIONS = 64
_QUIET_S = 15.0
_LONGEST_S = 180.0


class HttpSource(ThreadingHTTPServer):
    """The server of devices; each connection has a thread, of which there are only so many.

    Raises
    ------
    ConfigError
        The address cannot be listened at.
    """

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, settings: HttpTable, intake: Intake) -> None:
        self._settings = settings
        self._intake = intake
        self._open: dict[socket.socket, float] = {}
        self._guard = threading.Lock()
        if ":" in settings.host:
            self.address_family = socket.AF_INET6

        class Handler(_Handler):
            source = intake
            wait_s = settings.wait_s

        try:
            super().__init__((settings.host, settings.port), Handler)
        except OSError as error:
            raise ConfigError(
                f"cannot listen at {settings.listen} ({error.strerror})",
                field="http.listen",
                fix="name a free port of an address of this machine",
            ) from error

    def stop(self) -> None:
        """End ``serve_forever``, and listen no more."""
        self.shutdown()
        self.server_close()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection, if there is room for one more."""
        with self._guard:
            is_full = len(self._open) >= MOST_CONNECTIONS
            if not is_full:
                self._open[request] = time.monotonic()
        if is_full:
            # The device finds no answer, and sends the same again later.
            self.shutdown_request(request)
        else:
            super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        with self._guard:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Cut connections that last for too long, as where a request drips."""
        now = time.monotonic()
        with self._guard:
            old = [request for request, begun in self._open.items() if now - begun > _LONGEST_S]
        for request in old:
            with suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Pass over connections that break; nothing of a request is logged."""


class _Handler(BaseHTTPRequestHandler):
    source: ClassVar[Intake]
    wait_s: ClassVar[float]
    protocol_version = "HTTP/1.1"
    server_version = "sfumato-relay"
    sys_version = ""
    timeout = _QUIET_S
    disable_nagle_algorithm = True  # else an answer waits 40 ms for an acknowledgement

    def log_message(self, *_: object) -> None:
        pass

    def do_PUT(self) -> None:
        try:
            data = self._read_message()
        except SketchError as error:
            self._answer(answer_problem(error), close=True)
            return
        self._answer(
            self.source.answer_upload(data, source="http", path=self.path, wait_s=self.wait_s)
        )

    def do_GET(self) -> None:
        try:
            answer = self.source.pass_on(self.path, dict(self.headers.items()))
        except SketchError as error:
            answer = answer_problem(error)
        self._answer(answer)

    def do_POST(self) -> None:
        error = MethodError(
            "is not passed on by a relay",
            field=self.command,
            fix="enrol the device with a computer that reaches the server itself",
        )
        self._answer(answer_problem(error), close=True)

    def _read_message(self) -> bytes:
        if self.headers.get("Content-Type", "") != SKETCH_MEDIA_TYPE:
            raise MediaTypeError(
                f"must be {SKETCH_MEDIA_TYPE}", field="Content-Type", fix="send a sketch"
            )
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            raise MalformedMessageError(
                "is missing", field="Content-Length", fix="state the bytes of the message"
            )
        self.source.require_small(int(length))
        try:
            data = self.rfile.read(int(length))
        except OSError:
            data = b""
        if len(data) < int(length):
            raise SlowRequestError(
                "did not arrive in time", field="body", fix="send the same again"
            )
        return data

    def _answer(self, answer: Answer, *, close: bool = False) -> None:
        self.send_response(answer.status)
        headers = dict(answer.headers) | {"Content-Length": str(len(answer.body))}
        if close:
            headers["Connection"] = "close"
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer.body)
