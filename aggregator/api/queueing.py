"""How many requests are inside at once: some are worked on, some wait, others come again."""

from __future__ import annotations

import asyncio
import re
from contextlib import nullcontext

from starlette.types import ASGIApp, Receive, Scope, Send

from aggregator.api.handlers import answer_problem
from aggregator.services import Services
from shared.errors import OverloadedError, TransportError

OPEN_PATHS = ("/healthz", "/readyz", "/metrics")
"""Answered even when the queue is full: they tell that it is."""

EVENTS_PATH = re.compile(r"^/v1/decodes/[^/]+/events$")
_RETRY_AFTER_S = 2.0


class RequestQueue:
    """Counts the requests of this process.

    Parameters
    ----------
    most_running
        Requests that are worked on at once; more would only wait for a database connection.
    most_waiting
        Requests that may wait for that, or whose body is still on its way.
    """

    def __init__(self, *, most_running: int, most_waiting: int) -> None:
        self.n_inside = 0
        self.n_running = 0
        self.most_inside = most_running + most_waiting
        self.turns = asyncio.Semaphore(most_running)

    @property
    def n_waiting(self) -> int:
        """The requests that are inside and not worked on."""
        return self.n_inside - self.n_running

    def require_room(self) -> None:
        """Refuse one more request than may be inside.

        Raises
        ------
        OverloadedError
            There is no room.
        """
        if self.n_inside >= self.most_inside:
            raise OverloadedError(
                f"holds {self.most_inside} requests, the most that it may",
                field="server",
                fix="send the same again after the seconds in Retry-After",
                retry_after_s=_RETRY_AFTER_S,
            )


class Door:
    """Let requests in while there is room and a database; no body of the others is read."""

    def __init__(self, app: ASGIApp, *, services: Services, queue: RequestQueue) -> None:
        self._app = app
        self._services = services
        self._queue = queue

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        queue = self._queue
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        try:
            self._services.readiness.require_open()
            queue.require_room()
        except TransportError as error:
            await answer_problem(error, scope, receive, send, close=True)
            return
        queue.n_inside += 1
        try:
            await self._app(scope, receive, send)
        finally:
            queue.n_inside -= 1


class Turn:
    """Let requests wait for their turn, first come first served, once their body is here.

    So a sender that is slow holds a place in the queue, and never a turn.
    """

    def __init__(self, app: ASGIApp, *, queue: RequestQueue) -> None:
        self._app = app
        self._queue = queue

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        # A stream of events works for a moment now and then; it would keep a turn for minutes.
        turn = nullcontext() if EVENTS_PATH.match(scope["path"]) else self._queue.turns
        async with turn:
            self._queue.n_running += 1
            try:
                await self._app(scope, receive, send)
            finally:
                self._queue.n_running -= 1
