"""Middleware: log, metrics, security headers, queue, limit on bodies, answers without a body."""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection
from contextlib import ExitStack
from typing import ClassVar

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sfumato.aggregator.api.handlers import PROBLEM_KEY, answer_problem
from sfumato.aggregator.metrics import Metrics
from sfumato.aggregator.services import Services
from sfumato.shared.errors import (
    AgentTooOldError,
    MediaTypeError,
    OverloadedError,
    SketchError,
    SlowRequestError,
    TooLargeError,
    TransportError,
)

OPEN_PATHS = ("/healthz", "/readyz", "/metrics")
"""Answered even when the queue is full, so that monitors see that it is."""
REQUEST_ID = "X-Request-Id"
BROKEN_OFF = 499
"""Status in logs and metrics of a request whose sender left before its body had arrived."""
_EVENTS = re.compile(r"^/v1/decodes/[^/]+/events$")
_SKETCH = re.compile(r"^/v1/studies/([0-9a-f]{64})/sketches/[^/]+$")
_AGENT = re.compile(r"sfumato-agent/(\d{1,6})\.(\d{1,6})\.(\d{1,6})")
_RETRY_AFTER_S = 2.0
_MOST_UPLOADING = 256
"""Uploads served at once: group commit stores many in one transaction on one connection."""
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_POLICY = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
_KEPT_BY_304 = (b"etag", b"cache-control", b"vary", b"content-security-policy")
_HSTS = "max-age=31536000"
_UPLOAD = "/v1/studies/{study}/sketches/{sketch}"

log = structlog.get_logger("aggregator.access")


class Middleware(ABC):
    """Serves requests, and passes everything else on."""

    left_out: ClassVar[Collection[str]] = ()
    """Paths of requests that are passed on too."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Serve one request."""
        is_served = scope["type"] == "http" and scope["path"] not in self.left_out
        return (self._serve if is_served else self._app)(scope, receive, send)

    @abstractmethod
    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None: ...


class Observe(Middleware):
    """Log each request when it is over, and count it; requests of monitors are left out.

    A line of the log has method, path, status and time, and never a header or a body. The status is
    0 if no answer began. All lines of a request have its id, which the answer states too.
    """

    left_out = OPEN_PATHS

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        super().__init__(app)
        self._metrics = metrics

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        status, request_id = 0, secrets.token_hex(8)

        async def note_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[REQUEST_ID] = request_id
            await send(message)

        start = time.perf_counter()
        with structlog.contextvars.bound_contextvars(request_id=request_id):
            try:
                await self._app(scope, receive, note_status)
            finally:
                self._note(scope, status, time.perf_counter() - start)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        method, problem = scope["method"], scope.get(PROBLEM_KEY)
        ms = round(1000 * seconds, 1)
        log.info(
            "request", method=method, path=scope["path"], status=status, problem=problem, ms=ms
        )
        # What was refused before it reached a route has none, and may still be an upload.
        is_upload = study_of_upload(scope) is not None
        route = _UPLOAD if is_upload else getattr(scope.get("route"), "path", "")
        self._metrics.note_request(
            method=method, route=route, status=status, problem=problem, seconds=seconds
        )
        if is_upload:
            self._metrics.note_upload(status)


class Unforeseen(Middleware):
    """Log an unforeseen error, and answer it without its details.

    The framework would do so outside every other middleware; its answer would neither be logged nor
    have the headers of every answer.
    """

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        except Exception as error:
            structlog.get_logger("aggregator.api").error("unforeseen error", exc_info=error)
            failure = SketchError("the server failed", fix="send the same again later")
            await answer_problem(failure, scope, receive, send)


class LeaveBodyOut(Middleware):
    """Serve HEAD as GET without the body, and 304 where If-None-Match names the ETag (RFC 9110).

    A stream of events is not served to HEAD: it would be followed to its end.
    """

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_head = scope["method"] == "HEAD" and not _EVENTS.match(scope["path"])
        known = Headers(scope=scope).get("if-none-match")
        if not is_head and (known is None or scope["method"] != "GET"):
            await self._app(scope, receive, send)
            return
        has_body = not is_head

        async def send_on(message: Message) -> None:
            nonlocal has_body
            if message["type"] == "http.response.start":
                if message["status"] == 200 and _names(known, MutableHeaders(scope=message)):
                    kept = [pair for pair in message["headers"] if pair[0] in _KEPT_BY_304]
                    message = {**message, "status": 304, "headers": kept}
                    has_body = False
            elif not has_body:
                message = {**message, "body": b""}
            await send(message)

        # A copy: the server's own scope still says HEAD, so that it expects no body.
        await self._app({**scope, "method": "GET"} if is_head else scope, receive, send_on)


def _names(if_none_match: str | None, headers: Headers) -> bool:
    """Return whether If-None-Match names the ETag, by the weak comparison of RFC 9110."""
    known = [tag.strip().removeprefix("W/") for tag in (if_none_match or "").split(",")]
    etag = headers.get("etag")
    return etag is not None and (etag in known or known == ["*"])


class SecurityHeaders(Middleware):
    """Add security headers to every answer that does not set them itself."""

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
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


class RequestQueue:
    """Counts of the requests of this process.

    Parameters
    ----------
    most_running
        Requests served at once; more would only wait for a database connection.
    most_waiting
        Requests that may wait for their turn or for the rest of their body.
    """

    def __init__(self, *, most_running: int, most_waiting: int) -> None:
        self.n_inside = 0
        self.n_running = 0
        self.most_inside = most_running + most_waiting
        self.turns = asyncio.Semaphore(most_running)
        self.uploads = asyncio.Semaphore(_MOST_UPLOADING)

    @property
    def n_waiting(self) -> int:
        """Number of requests that wait."""
        return self.n_inside - self.n_running

    def leave(self) -> None:
        """Take one request out of the count."""
        self.n_inside -= 1

    def end_turn(self, turns: asyncio.Semaphore) -> None:
        """Give the turn to the next request."""
        self.n_running -= 1
        turns.release()

    def require_room(self) -> None:
        """Refuse a request while the queue is full.

        Raises
        ------
        OverloadedError
            The queue is full.
        """
        if self.n_inside >= self.most_inside:
            raise OverloadedError(
                f"holds {self.most_inside} requests, which is its limit",
                field="server",
                fix="send the same again after the seconds in Retry-After",
                retry_after_s=_RETRY_AFTER_S,
            )


def require_version(headers: Headers, least: str) -> None:
    """Refuse an agent or relay whose User-Agent states an older version than the least.

    Raises
    ------
    AgentTooOldError
        It is older.
    """
    stated = _AGENT.match(headers.get("user-agent", "")) if least else None
    if stated and [int(part) for part in stated.groups()] < [int(n) for n in least.split(".")]:
        raise AgentTooOldError(
            f"must be version {least} or later, and is {'.'.join(stated.groups())}",
            field="agent",
            fix="upgrade the agent; its sketches wait, and are sent then",
        )


class Door(Middleware):
    """Refuse requests, their body unread.

    So while the queue is full or the database is away, and to agents that are too old.
    """

    left_out = OPEN_PATHS

    def __init__(self, app: ASGIApp, *, services: Services, queue: RequestQueue) -> None:
        super().__init__(app)
        self._services = services
        self._queue = queue

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        queue = self._queue
        try:
            require_version(Headers(scope=scope), self._services.settings.least_agent)
            self._services.readiness.require_open()
            queue.require_room()
        except TransportError as error:
            await answer_problem(error, scope, receive, send, close=True)
            return
        with ExitStack() as place:
            queue.n_inside += 1
            place.callback(queue.leave)
            await self._app(scope, receive, _release_early(place, scope, send))


class Turn(Middleware):
    """Queue requests, first come first served, once their body has arrived.

    A slow sender thus holds a place in the queue and never a turn.
    """

    left_out = OPEN_PATHS

    def __init__(self, app: ASGIApp, *, queue: RequestQueue) -> None:
        super().__init__(app)
        self._queue = queue

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        queue = self._queue
        turns = queue.turns if study_of_upload(scope) is None else queue.uploads
        await turns.acquire()
        with ExitStack() as place:
            queue.n_running += 1
            place.callback(queue.end_turn, turns)
            await self._app(scope, receive, _release_early(place, scope, send))


def _release_early(place: ExitStack, scope: Scope, send: Send) -> Send:
    """Return a ``send`` that gives a place up when a stream of events begins.

    A stream is idle most of the time, and would hold its place for minutes.
    """
    if not _EVENTS.match(scope["path"]):
        return send

    async def send_on(message: Message) -> None:
        if message["type"] == "http.response.start":
            place.close()
        await send(message)

    return send_on


class BodyLimit(Middleware):
    """Read bodies up to a limit and pass them on whole; answer 413 to longer ones.

    Bytes are counted as they arrive: Content-Length may be absent or wrong. A sketch may be as long
    as the payload of its study's plan and the envelope. Compressed bodies are refused unread: noise
    does not compress, and a small body could expand without limit.

    Parameters
    ----------
    services
        They know the limit of a study's sketches, and count refusals.
    max_body_bytes
        The limit on other bodies.
    timeout_s
        Most seconds until a body has arrived.
    """

    def __init__(
        self, app: ASGIApp, *, services: Services, max_body_bytes: int, timeout_s: float
    ) -> None:
        super().__init__(app)
        self._services = services
        self._max_body_bytes = max_body_bytes
        self._timeout_s = timeout_s

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            messages = await self._read(scope, receive)
        except SketchError as error:
            # The rest of the body is not read, so the connection cannot serve another request.
            await answer_problem(error, scope, receive, send, close=True)
            return
        if messages[-1]["type"] == "http.disconnect":
            # Nobody hears it: it is for log and metrics.
            await Response(status_code=BROKEN_OFF)(scope, receive, send)
            return
        await self._app(scope, _replay(messages, receive), send)

    async def _read(self, scope: Scope, receive: Receive) -> list[Message]:
        study = study_of_upload(scope)
        try:
            _require_identity(scope)
            limit = self._max_body_bytes
            if study is not None:
                limit = await self._services.sketches.find_limit(study)
            async with asyncio.timeout(self._timeout_s):
                return await _read_up_to(limit, scope, receive)
        except TimeoutError as error:
            raise SlowRequestError(
                f"did not arrive within {self._timeout_s:g} s",
                field="body",
                fix="send the same again",
            ) from error
        except (TooLargeError, MediaTypeError) as error:
            if study is not None:
                await self._services.sketches.note_refusal(study, error)
            raise


def study_of_upload(scope: Scope) -> bytes | None:
    """Return the study that a request uploads to; None if it is no upload."""
    found = _SKETCH.match(scope["path"]) if scope["method"] == "PUT" else None
    return bytes.fromhex(found.group(1)) if found else None


def _require_identity(scope: Scope) -> None:
    for name, value in scope["headers"]:
        if name == b"content-encoding" and value.strip().lower() not in (b"", b"identity"):
            raise MediaTypeError(
                "cannot be compressed",
                field="Content-Encoding",
                fix="send the body uncompressed, without Content-Encoding",
            )


async def _read_up_to(limit: int, scope: Scope, receive: Receive) -> list[Message]:
    """Return the messages of a body that is not longer than the limit."""
    stated = dict(scope["headers"]).get(b"content-length", b"0")
    if stated.isdigit() and int(stated[:20]) > limit:
        raise _too_large(limit)
    messages: list[Message] = []
    n_bytes = 0
    while True:
        message = await receive()
        messages.append(message)
        n_bytes += len(message.get("body", b""))
        if n_bytes > limit:
            raise _too_large(limit)
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            return messages


def _too_large(limit: int) -> TooLargeError:
    return TooLargeError(
        f"must have at most {limit} bytes", field="body", fix="send a smaller body, uncompressed"
    )


def _replay(messages: list[Message], receive: Receive) -> Callable[[], Awaitable[Message]]:
    waiting = iter(messages)

    async def replay() -> Message:
        for message in waiting:
            return message
        return await receive()

    return replay
