"""Count and time every request, whatever becomes of it."""

from __future__ import annotations

import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aggregator.api.body_limit import study_of_upload
from aggregator.api.handlers import PROBLEM_KEY
from aggregator.api.queueing import OPEN_PATHS
from aggregator.metrics import Metrics

_UPLOAD = "/v1/studies/{study}/sketches/{sketch}"


class Measure:
    """Note each request in the metrics when it is over; those of monitors are left out."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

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
            self._note(scope, status, time.perf_counter() - start)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
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
