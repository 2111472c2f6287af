"""Count and time every request, whatever becomes of it."""

from __future__ import annotations

from starlette.types import ASGIApp, Scope

from aggregator.api.body_limit import study_of_upload
from aggregator.api.handlers import PROBLEM_KEY
from aggregator.api.observing import Observer
from aggregator.metrics import Metrics

_UPLOAD = "/v1/studies/{study}/sketches/{sketch}"


class Measure(Observer):
    """Note each request in the metrics when it is over."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        super().__init__(app)
        self._metrics = metrics

    def note(self, scope: Scope, status: int, seconds: float) -> None:
        """See the base."""
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
