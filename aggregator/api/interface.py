"""The interface put together: routers, problem handlers, the limit on bodies, OpenAPI."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from typing import Any

from fastapi import Depends, FastAPI
from starlette.routing import BaseRoute

from aggregator.api import (
    decodes,
    devices,
    enrolments,
    events,
    keys,
    operations,
    plans,
    problems,
    sketches,
    snapshots,
    studies,
    tokens,
)
from aggregator.api.body_limit import BodyLimit
from aggregator.api.describing import describe_problems
from aggregator.api.events import EventStreams
from aggregator.api.handlers import Unforeseen, add_problem_handlers
from aggregator.api.linking import describe_links
from aggregator.api.media_types import require_media_type
from aggregator.api.middleware import AccessLog, HeadAsGet, Measure, SecurityHeaders
from aggregator.api.queueing import Door, RequestQueue, Turn
from aggregator.metrics import Metrics
from aggregator.services import Services


@dataclass(frozen=True, kw_only=True)
class InterfaceLimits:
    """Limits on what the interface takes at once.

    Parameters
    ----------
    max_body_bytes
        Largest request body; a sketch may be as long as its plan says.
    body_timeout_s
        Seconds within which a body must have arrived.
    most_running, most_waiting
        Requests that are worked on at once, and that may wait for their turn.
    """

    max_body_bytes: int = 1 << 20
    body_timeout_s: float = 30.0
    most_running: int = 15
    most_waiting: int = 1000


Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]

_DESCRIPTION = """
Takes in sketches that are differentially private by themselves, adds them up exactly, and recovers
centroids from the sum. Errors are RFC 9457 problem documents; every type has a page under
[/problems](/problems). Ids are lower-case hexadecimal, times RFC 3339 UTC.
"""


class _Described(FastAPI):
    """An application whose OpenAPI names every problem, and what each answer leads to."""

    def openapi(self) -> dict[str, Any]:
        """Return the description, made once."""
        if self.openapi_schema is None:
            self.openapi_schema = describe_links(describe_problems(super().openapi()))
        return self.openapi_schema


@cache
def _list_routes() -> Sequence[BaseRoute]:
    """Return the routes, which hold nothing of a server: those of one process share them.

    To make them takes longer than all else that a server needs.
    """
    app = FastAPI(
        dependencies=[Depends(require_media_type)], openapi_url=None, docs_url=None, redoc_url=None
    )
    for module in (
        # First, for routes are tried in order and nothing is asked for as often as an upload.
        sketches,
        studies,
        plans,
        tokens,
        enrolments,
        devices,
        snapshots,
        decodes,
        events,
        keys,
        operations,
        problems,
    ):
        app.include_router(module.router)
    return tuple(app.routes)


def create_interface(
    services: Services, limits: InterfaceLimits, *, lifespan: Lifespan | None = None
) -> FastAPI:
    """Build the application around services.

    Parameters
    ----------
    services
        What it offers.
    limits
        What it takes at once.
    lifespan
        What runs from start to end.
    """
    app = _Described(
        title="Sfumato",
        summary="Typical patterns across devices, from private sketches",
        description=_DESCRIPTION,
        version=metadata.version("sfumato"),
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        # A redirect would be built from the Host field, and lose what was sent.
        redirect_slashes=False,
        routes=list(_list_routes()),
    )
    queue = RequestQueue(most_running=limits.most_running, most_waiting=limits.most_waiting)
    app.state.services = services
    app.state.queue = queue
    app.state.streams = EventStreams()
    app.state.metrics = Metrics()
    add_problem_handlers(app)
    # The one added last is the outermost.
    app.add_middleware(HeadAsGet)
    app.add_middleware(Unforeseen)
    app.add_middleware(Turn, queue=queue)
    app.add_middleware(
        BodyLimit,
        services=services,
        max_body_bytes=limits.max_body_bytes,
        timeout_s=limits.body_timeout_s,
    )
    app.add_middleware(Door, services=services, queue=queue)
    app.add_middleware(SecurityHeaders)
    app.add_middleware(Measure, metrics=app.state.metrics)
    app.add_middleware(AccessLog)
    return app
