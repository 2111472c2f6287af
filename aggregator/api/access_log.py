"""One log line a request: method, path, status and time; never a header or a body."""

from __future__ import annotations

import time

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aggregator.api.handlers import PROBLEM_KEY
from aggregator.api.queueing import OPEN_PATHS

log = structlog.get_logger("aggregator.access")


class AccessLog:
    """Log each request when its answer has been sent."""

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
            milliseconds = round(1000 * (time.perf_counter() - start), 1)
            log.info(
                "request",
                method=scope["method"],
                path=scope["path"],
                status=status,
                problem=scope.get(PROBLEM_KEY),
                ms=milliseconds,
            )
