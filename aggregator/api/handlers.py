"""From errors to problem documents, at one edge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from shared.errors import (
    AccessError,
    ConfigError,
    NotFoundError,
    SketchError,
    TransportError,
)
from shared.wire import PROBLEM_MEDIA_TYPE, problem_document

RETRY_AFTER_S = 5

log = structlog.get_logger("aggregator.api")


class ProblemJSONResponse(JSONResponse):
    """A problem document."""

    media_type = PROBLEM_MEDIA_TYPE


def problem_response(
    error: SketchError, *, status: int | None = None, headers: Mapping[str, str] | None = None
) -> ProblemJSONResponse:
    """Return the answer to an error; ``status`` only where HTTP has a closer one than the table."""
    document = problem_document(error)
    if status is not None:
        document["status"] = status
    sent = dict(headers or {})
    if isinstance(error, AccessError):
        sent["WWW-Authenticate"] = 'Bearer realm="sfumato"'
    if isinstance(error, TransportError):
        sent["Retry-After"] = str(RETRY_AFTER_S)
    return ProblemJSONResponse(document, status_code=document["status"], headers=sent)


def add_problem_handlers(app: FastAPI) -> None:
    """Answer every error with a problem document."""

    @app.exception_handler(SketchError)
    async def answer_refusal(_request: Request, error: SketchError) -> ProblemJSONResponse:
        if isinstance(error, TransportError):
            log.warning("unavailable", reason=type(error.__cause__).__name__)
        return problem_response(error)

    @app.exception_handler(RequestValidationError)
    async def answer_invalid(
        _request: Request, error: RequestValidationError
    ) -> ProblemJSONResponse:
        return problem_response(_to_config_error(error.errors()[0]))

    @app.exception_handler(HTTPException)
    async def answer_http(request: Request, error: HTTPException) -> ProblemJSONResponse:
        return problem_response(
            _to_sketch_error(request, error), status=error.status_code, headers=error.headers
        )

    @app.exception_handler(Exception)
    async def answer_unforeseen(_request: Request, error: Exception) -> ProblemJSONResponse:
        log.error("unforeseen error", exc_info=error)
        return problem_response(SketchError("the server failed", fix="send the same again later"))


def _to_config_error(found: Any) -> ConfigError:
    where = [str(part) for part in found["loc"]]
    # The first part says where in the request; the name of the field is what people know.
    field = ".".join(where[1:]) or where[0]
    if found["type"] == "json_invalid":
        return ConfigError("is not JSON", field="body", fix="send a JSON object")
    return ConfigError(found["msg"][:1].lower() + found["msg"][1:], field=field, fix="see /docs")


def _to_sketch_error(request: Request, error: HTTPException) -> SketchError:
    if error.status_code == 404:
        return NotFoundError("is not an address of this server", field="path", fix="see /docs")
    if error.status_code == 405:
        return ConfigError(f"{request.method} is not allowed here", field="method", fix="see /docs")
    return ConfigError(str(error.detail).lower(), field="body", fix="see /docs")
