"""Middleware: the access log, metrics, HEAD, and headers against misuse by browsers."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod

import structlog
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aggregator.api.body_limit import study_of_upload
from aggregator.api.handlers import PROBLEM_KEY
from aggregator.api.queueing import OPEN_PATHS
from aggregator.metrics import Metrics

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_POLICY = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
_HSTS = "max-age=31536000"
_ENDLESS = "/events"
_UPLOAD = "/v1/studies/{study}/sketches/{sketch}"

log = structlog.get_logger("aggregator.access")


class Observer(ABC):
    """Learn of each request when it is over, whatever becomes of it; not of those of monitors."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        status = 0

        async def note_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        start = time.perf_counter()
        try:
            await self._app(scope, receive, note_status)
        finally:
            self.note(scope, status, time.perf_counter() - start)

    @abstractmethod
    def note(self, scope: Scope, status: int, seconds: float) -> None:
        """Note a request that is over; the status is 0 if no answer began."""


class AccessLog(Observer):
    """Log a line for each request: method, path, status and time; never a header or a body."""

    def note(self, scope: Scope, status: int, seconds: float) -> None:
        """See the base."""
        log.info(
            "request",
            method=scope["method"],
            path=scope["path"],
            status=status,
            problem=scope.get(PROBLEM_KEY),
            ms=round(1000 * seconds, 1),
        )


class Measure(Observer):
    """Note each request in the metrics when it is over."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        super().__init__(app)
        self._metrics = metrics

    def note(self, scope: Scope, status: int, seconds: float) -> None:
        """See the base."""
        # What was refused before it reached a route has none, and may still be an upload.
        is_upload = study_of_upload(scope) is not None
        route = _UPLOAD if is_upload else getattr(scope.get("route"), "path", "")
        self._metrics.note_request(
            method=scope["method"],
            route=route,
            status=status,
            problem=scope.get(PROBLEM_KEY),
            seconds=seconds,
        )
        if is_upload:
            self._metrics.note_upload(status)


class HeadAsGet:
    """Serve HEAD as GET without the body (RFC 9110, 9.3.2).

    Streams of events excepted, which would be followed to their end.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        is_head = scope["type"] == "http" and scope["method"] == "HEAD"
        if not is_head or scope["path"].endswith(_ENDLESS):
            await self._app(scope, receive, send)
            return

        async def send_without_body(message: Message) -> None:
            if message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        # A copy: the server's own says HEAD still, so that it expects no body.
        await self._app({**scope, "method": "GET"}, receive, send_without_body)


class SecurityHeaders:
    """Add the headers to every answer, except where the answer says otherwise itself."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Content-Security-Policy", _POLICY)
                # Over plain HTTP browsers ignore it, and a proxy in front may end TLS.
                if scope["scheme"] == "https":
                    headers.setdefault("Strict-Transport-Security", _HSTS)
            await send(message)

        await self._app(scope, receive, send_with_headers)
