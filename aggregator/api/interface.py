"""The REST application: routers, middleware and problem handlers around the services."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import cache
from importlib import metadata
from typing import Any

from fastapi import Depends, FastAPI
from starlette.routing import BaseRoute

from sfumato.aggregator.api import (
    advice,
    alarms,
    analyses,
    batches,
    campaigns,
    decodes,
    devices,
    events,
    keys,
    operations,
    plans,
    problems,
    publications,
    references,
    schedules,
    sketches,
    snapshots,
    studies,
    tokens,
)
from sfumato.aggregator.api.dependencies import require_media_type
from sfumato.aggregator.api.events import EventStreams
from sfumato.aggregator.api.handlers import add_problem_handlers
from sfumato.aggregator.api.middleware import (
    BodyLimit,
    Door,
    LeaveBodyOut,
    Observe,
    RequestQueue,
    SecurityHeaders,
    Turn,
    Unforeseen,
)
from sfumato.aggregator.api.responses import ANY_CALL, describe_problems
from sfumato.aggregator.api.web_origins import WebOrigins
from sfumato.aggregator.metrics import Metrics
from sfumato.aggregator.services import Services
from sfumato.aggregator.settings import Settings, list_parts

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]

_DESCRIPTION = """
Receives sketches that are each differentially private, adds them up exactly, and recovers
centroids from the sum. Errors are RFC 9457 problem documents; every type has a page under
[/problems](/problems). Ids are lower-case hexadecimal, times RFC 3339 UTC.
"""


@cache
def _list_routes() -> Sequence[BaseRoute]:
    """Return the routes, built once for all servers of a process: building them is slow."""
    app = FastAPI(
        dependencies=[Depends(require_media_type)],
        responses=describe_problems(*ANY_CALL),
        generate_unique_id_function=lambda route: route.name,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
    )
    for module in (
        # First: routes are tried in order, and uploads are the most frequent requests.
        sketches,
        studies,
        plans,
        advice,
        tokens,
        devices,
        snapshots,
        decodes,
        analyses,
        events,
        publications,
        batches,
        campaigns,
        schedules,
        alarms,
        keys,
        operations,
        references,
        problems,
    ):
        app.include_router(module.router)
    return tuple(app.routes)


class Interface(FastAPI):
    """An application whose description is valid OpenAPI 3.1, and names each schema apart."""

    def openapi(self) -> dict[str, Any]:
        """Return the description, made once."""
        if self.openapi_schema is None:
            document = super().openapi()
            # Generators of clients name classes by title, and one per page of a list is alike.
            for name, schema in document["components"]["schemas"].items():
                schema["title"] = name.replace("_", "")
            for path in document["paths"].values():
                for call in path.values():
                    for answer in call["responses"].values():
                        for media in answer.get("content", {}).values():
                            # 3.2 alone describes the single events of a stream.
                            if "itemSchema" in media:
                                media["x-item-schema"] = media.pop("itemSchema")
        return self.openapi_schema or {}


def create_interface(
    services: Services, settings: Settings, *, lifespan: Lifespan | None = None
) -> FastAPI:
    """Build the application around services; it runs in the context of ``lifespan``."""
    app = Interface(
        title="Sfumato",
        summary="Typical patterns across devices, from private sketches",
        description=_DESCRIPTION,
        version=metadata.version("sfumato"),
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        # A redirect would trust the Host header, and lose the body.
        redirect_slashes=False,
        routes=list(_list_routes()),
    )
    queue = RequestQueue(most_running=settings.most_running, most_waiting=settings.most_waiting)
    app.state.services = services
    app.state.queue = queue
    app.state.streams = EventStreams()
    app.state.metrics = Metrics()
    app.state.metrics.note_certificate(settings.tls_cert)
    add_problem_handlers(app)
    # The one added last is the outermost.
    app.add_middleware(LeaveBodyOut)
    app.add_middleware(Unforeseen)
    app.add_middleware(Turn, queue=queue)
    app.add_middleware(
        BodyLimit,
        services=services,
        max_body_bytes=settings.max_body_bytes,
        timeout_s=settings.body_timeout_s,
    )
    app.add_middleware(Door, services=services, queue=queue)
    if settings.web_origins:
        app.add_middleware(WebOrigins, origins=list_parts(settings.web_origins))
    app.add_middleware(SecurityHeaders)
    app.add_middleware(Observe, metrics=app.state.metrics)
    return app
