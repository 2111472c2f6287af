"""The interface put together: routers, problem handlers, the limit on bodies, OpenAPI."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from importlib import metadata

from fastapi import FastAPI

from aggregator.api import (
    decodes,
    devices,
    enrolments,
    operations,
    problems,
    sketches,
    snapshots,
    studies,
)
from aggregator.api.access_log import AccessLog
from aggregator.api.body_limit import BodyLimit
from aggregator.api.handlers import add_problem_handlers
from aggregator.services import Services

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]

_DESCRIPTION = """
Takes in sketches that are differentially private by themselves, adds them up exactly, and recovers
centroids from the sum. Errors are RFC 9457 problem documents; every type has a page under
[/problems](/problems). Ids are lower-case hexadecimal, times RFC 3339 UTC.
"""


def create_interface(
    services: Services, *, max_body_bytes: int, lifespan: Lifespan | None = None
) -> FastAPI:
    """Build the application around services.

    Parameters
    ----------
    services
        What it offers.
    max_body_bytes
        Largest request body; a sketch may be as long as its plan says.
    lifespan
        What runs from start to end.
    """
    app = FastAPI(
        title="Sfumato",
        summary="Typical patterns across devices, from private sketches",
        description=_DESCRIPTION,
        version=metadata.version("sfumato"),
        lifespan=lifespan,
        redoc_url=None,
    )
    app.state.services = services
    for module in (
        studies,
        enrolments,
        devices,
        sketches,
        snapshots,
        decodes,
        operations,
        problems,
    ):
        app.include_router(module.router)
    add_problem_handlers(app)
    app.add_middleware(BodyLimit, services=services, max_body_bytes=max_body_bytes)
    app.add_middleware(AccessLog)
    return app
