"""One log line a request: method, path, status and time; never a header or a body."""

from __future__ import annotations

import structlog
from starlette.types import Scope

from aggregator.api.handlers import PROBLEM_KEY
from aggregator.api.observing import Observer

log = structlog.get_logger("aggregator.access")


class AccessLog(Observer):
    """Log each request when its answer has been sent."""

    def note(self, scope: Scope, status: int, seconds: float) -> None:
        """See the base."""
        log.info(
            "request",
            method=scope["method"],
            path=scope["path"],
            status=status,
            problem=scope.get(PROBLEM_KEY),
            ms=round(1000 * seconds, 1),
        )
