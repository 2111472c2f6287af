"""Bounded queue of requests: some are worked on, some wait, others come again."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aggregator.api.body_limit import study_of_upload
from aggregator.api.handlers import answer_problem
from aggregator.services import Services
from shared.errors import OverloadedError, TransportError

OPEN_PATHS = ("/healthz", "/readyz", "/metrics")
"""Answered even when the queue is full: they tell that it is."""

EVENTS_PATH = re.compile(r"^/v1/decodes/[^/]+/events$")
_RETRY_AFTER_S = 2.0
_MOST_UPLOADING = 256
"""Uploads worked on at once: they are stored many in one transaction, and hold no connection."""


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
        self.uploads = asyncio.Semaphore(_MOST_UPLOADING)

    @property
    def n_waiting(self) -> int:
        """The requests that are inside and not worked on."""
        return self.n_inside - self.n_running

    def leave(self) -> None:
        """Count one request less."""
        self.n_inside -= 1

    def end_turn(self, turns: asyncio.Semaphore) -> None:
        """Give a turn to who waits for it."""
        self.n_running -= 1
        turns.release()

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
        place = _Place(queue.leave)
        queue.n_inside += 1
        try:
            await self._app(scope, receive, place.follow(scope, send))
        finally:
            place.give_up()


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
        queue = self._queue
        turns = queue.turns if study_of_upload(scope) is None else queue.uploads
        await turns.acquire()
        queue.n_running += 1
        place = _Place(lambda: queue.end_turn(turns))
        try:
            await self._app(scope, receive, place.follow(scope, send))
        finally:
            place.give_up()


class _Place:
    """A turn: held until the answer has ended or, for a stream of events, has begun.

    A stream works for a moment now and then, and would keep its place for minutes.
    """

    def __init__(self, leave: Callable[[], None]) -> None:
        self._leave: Callable[[], None] | None = leave

    def give_up(self) -> None:
        """Let go of it, if that was not done."""
        if self._leave is not None:
            self._leave()
            self._leave = None

    def follow(self, scope: Scope, send: Send) -> Send:
        """Return the ``send`` that lets go of it when the time has come."""
        if not EVENTS_PATH.match(scope["path"]):
            return send

        async def send_on(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.give_up()
            await send(message)

        return send_on
