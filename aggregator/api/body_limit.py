"""A limit on the body of every request, counted before anything parses it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aggregator.api.handlers import problem_response
from aggregator.services import Services
from shared.errors import SketchError, WireError

_SKETCH = re.compile(r"^/v1/studies/([0-9a-f]{64})/sketches/[^/]+$")


class BodyLimit:
    """Read bodies up to a limit and hand them on whole; answer 413 to longer ones.

    Bytes are counted as they arrive: Content-Length may be absent or wrong. A sketch may be as long
    as the payload of its study's plan and the envelope.

    Parameters
    ----------
    services
        They know how long a sketch may be, and count refusals.
    max_body_bytes
        The limit for everything else.
    """

    def __init__(self, app: ASGIApp, *, services: Services, max_body_bytes: int) -> None:
        self._app = app
        self._services = services
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        study = _study_of_upload(scope)
        try:
            limit = self._max_body_bytes
            if study is not None:
                limit = await self._services.sketches.find_limit(study)
            messages = await _read(scope, receive, limit)
            if messages is None:
                raise await self._refuse(study, limit)
        except SketchError as error:
            # The rest of the body is not read, so the connection cannot serve another request.
            response = problem_response(error, headers={"Connection": "close"})
            await response(scope, receive, send)
            return
        await self._app(scope, _replay(messages, receive), send)

    async def _refuse(self, study: bytes | None, limit: int) -> WireError:
        if study is not None:
            return await self._services.sketches.refuse_large(study, limit)
        return WireError(f"is larger than {limit} bytes", field="body", fix="send a smaller body")


def _study_of_upload(scope: Scope) -> bytes | None:
    found = _SKETCH.match(scope["path"]) if scope["method"] == "PUT" else None
    return bytes.fromhex(found.group(1)) if found else None


async def _read(scope: Scope, receive: Receive, limit: int) -> list[Message] | None:
    """Return the messages of a body; None if it is longer than the limit."""
    stated = dict(scope["headers"]).get(b"content-length", b"0")
    if stated.isdigit() and int(stated[:20]) > limit:
        return None
    messages: list[Message] = []
    n_bytes = 0
    while True:
        message = await receive()
        messages.append(message)
        n_bytes += len(message.get("body", b""))
        if n_bytes > limit:
            return None
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            return messages


def _replay(messages: list[Message], receive: Receive) -> Callable[[], Awaitable[Message]]:
    waiting = iter(messages)

    async def replay() -> Message:
        for message in waiting:
            return message
        return await receive()

    return replay
