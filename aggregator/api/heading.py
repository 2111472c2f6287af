"""HEAD for whatever answers GET: the same status and fields, without the body (RFC 9110, 9.3.2)."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_ENDLESS = "/events"


class HeadAsGet:
    """Serve HEAD as GET; streams of events excepted, which would be followed to their end."""

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
