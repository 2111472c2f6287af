"""Limits on the body of every request, applied before anything parses it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aggregator.api.handlers import answer_problem
from aggregator.services import Services
from shared.errors import MediaTypeError, SketchError, SlowRequestError, TooLargeError

_SKETCH = re.compile(r"^/v1/studies/([0-9a-f]{64})/sketches/[^/]+$")


class BodyLimit:
    """Read bodies up to a limit and hand them on whole; answer 413 to longer ones.

    Bytes are counted as they arrive: Content-Length may be absent or wrong. A sketch may be as long
    as the payload of its study's plan and the envelope. Compressed bodies are refused unread: noise
    does not compress, and what expands is the oldest bomb.

    Parameters
    ----------
    services
        They know how long a sketch may be, and count refusals.
    max_body_bytes
        The limit for everything else.
    timeout_s
        Within which a body must have arrived.
    """

    def __init__(
        self, app: ASGIApp, *, services: Services, max_body_bytes: int, timeout_s: float
    ) -> None:
        self._app = app
        self._services = services
        self._max_body_bytes = max_body_bytes
        self._timeout_s = timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            messages = await self._read(scope, receive)
        except SketchError as error:
            # The rest of the body is not read, so the connection cannot serve another request.
            await answer_problem(error, scope, receive, send, close=True)
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
                "is compressed, which is not read here",
                field="Content-Encoding",
                fix="send the body as it is, without Content-Encoding",
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
        f"is larger than {limit} bytes", field="body", fix="send a smaller body, uncompressed"
    )


def _replay(messages: list[Message], receive: Receive) -> Callable[[], Awaitable[Message]]:
    waiting = iter(messages)

    async def replay() -> Message:
        for message in waiting:
            return message
        return await receive()

    return replay
