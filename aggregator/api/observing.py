"""The common part of middleware that looks at finished requests."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aggregator.api.queueing import OPEN_PATHS


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
