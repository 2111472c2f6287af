"""Devices in web pages of other origins: the calls of devices alone, by the rules of CORS."""

from __future__ import annotations

import re
from collections.abc import Sequence

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from sfumato.aggregator.api.middleware import Middleware

_OF_DEVICES = re.compile(
    r"/v1/(enrolments|identity|devices/me(/[a-z]+)?"
    r"|studies/[0-9a-f]{64}(/plan|/published|/sketches/[0-9a-f]{64})?)"
)


class WebOrigins(Middleware):
    """Let pages of other origins make the calls of devices.

    What such a call does is decided by its token or signature alone: no cookie and no other
    credential of the browser goes with it. Calls with an API key stay those of this server's own
    pages.

    Parameters
    ----------
    origins
        Such as ``https://app.example``; ``*`` for any.
    """

    def __init__(self, app: ASGIApp, *, origins: Sequence[str]) -> None:
        super().__init__(app)
        self._open = CORSMiddleware(
            app,
            allow_origins=origins,
            allow_methods=("GET", "POST", "PUT"),
            allow_headers=("Content-Type", "Content-Digest", "Signature", "Signature-Input"),
            # A device whose clock is wrong signs by the server's; others wait as they are told.
            expose_headers=("Date", "Retry-After"),
        )

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_open = _OF_DEVICES.fullmatch(scope["path"])
        await (self._open if is_open else self._app)(scope, receive, send)
