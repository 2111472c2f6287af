"""Map errors to problem documents, in one place."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from http import HTTPStatus
from typing import Any, get_args

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import compile_path
from starlette.types import Receive, Scope, Send

from sfumato.aggregator.api.dependencies import BEGINNING, HEX_16
from sfumato.aggregator.api.idempotency import VISIBLE
from sfumato.aggregator.logs import describe_cause
from sfumato.shared.core.text import PLAIN_TEXT, PLAIN_TEXT_FIX, PLAIN_TEXT_RULE
from sfumato.shared.errors import (
    AgentTooOldError,
    ConfigError,
    InProgressError,
    MediaTypeError,
    MethodError,
    NotFoundError,
    OverloadedError,
    RequestSignatureError,
    SketchError,
    TooEarlyError,
    TransportError,
)
from sfumato.shared.structure import read_hints, suggest
from sfumato.shared.wire import PROBLEM_MEDIA_TYPE, problem_document, problem_type_of
from sfumato.shared.wire.objects.analyses import AnalysisKind
from sfumato.shared.wire.objects.declaration import HEX_64, HEX_128

RETRY_AFTER_S = 5
PROBLEM_KEY = "sfumato.problem"
"""Key of the problem's slug in the scope of a refused request."""

log = structlog.get_logger("aggregator.api")


class ProblemJSONResponse(JSONResponse):
    """A problem document."""

    media_type = PROBLEM_MEDIA_TYPE


def problem_response(
    error: SketchError, scope: Scope, *, headers: Mapping[str, str] | None = None
) -> ProblemJSONResponse:
    """Return the answer to an error, and note its problem in the scope."""
    scope[PROBLEM_KEY] = problem_type_of(type(error)).slug
    document = problem_document(error)
    sent = dict(headers or {})
    if document["status"] == HTTPStatus.UNAUTHORIZED:
        scheme = "Signature" if isinstance(error, RequestSignatureError) else "Bearer"
        sent["WWW-Authenticate"] = f'{scheme} realm="sfumato"'
    if isinstance(error, AgentTooOldError):
        sent["Upgrade"] = "sfumato-agent"
    if isinstance(error, MediaTypeError):
        sent["Accept-Encoding"] = "identity"
    if isinstance(error, OverloadedError | TooEarlyError | InProgressError):
        sent["Retry-After"] = str(max(1, math.ceil(error.retry_after_s)))
    elif isinstance(error, TransportError):
        sent["Retry-After"] = str(RETRY_AFTER_S)
    return ProblemJSONResponse(document, status_code=document["status"], headers=sent)


async def answer_problem(
    error: SketchError, scope: Scope, receive: Receive, send: Send, *, close: bool = False
) -> None:
    """Answer a request with a problem before it has reached the application.

    Parameters
    ----------
    close
        End the connection, because the body of the request is not read.
    """
    headers = {"Connection": "close"} if close else {}
    await problem_response(error, scope, headers=headers)(scope, receive, send)


def add_problem_handlers(app: FastAPI) -> None:
    """Answer every error with a problem document."""

    @app.exception_handler(SketchError)
    async def answer_refusal(request: Request, error: SketchError) -> ProblemJSONResponse:
        if isinstance(error, TransportError) and not isinstance(error, OverloadedError):
            log.warning("unavailable", reason=describe_cause(error))
        return problem_response(error, request.scope)

    @app.exception_handler(RequestValidationError)
    async def answer_invalid(
        request: Request, error: RequestValidationError
    ) -> ProblemJSONResponse:
        found = error.errors()
        # A member that is unknown explains one that is missing, and not the other way round.
        unknown = [each for each in found if each["type"] == _UNKNOWN]
        return problem_response(_to_config_error((unknown or found)[0], request), request.scope)

    @app.exception_handler(HTTPException)
    async def answer_http(request: Request, error: HTTPException) -> ProblemJSONResponse:
        headers = dict(error.headers or {})
        if error.status_code == 405:
            headers["Allow"] = ", ".join(_find_methods(request))
        return problem_response(_to_sketch_error(request, error), request.scope, headers=headers)


_KINDS = get_args(AnalysisKind)
_UNKNOWN = "unexpected_keyword_argument"
_DIGITS = {HEX_64: 64, HEX_128: 128, HEX_16: 16}
_WHERE_IDS_ARE = {
    "study": "`sfumato study list` shows the ids of studies; send the whole id",
    "device": "`sfumato device list STUDY` shows the ids of devices",
    "key": "`sfumato key list` shows the ids of keys",
}
"""The fix for an invalid identity, by the last part of its field."""


def _to_config_error(found: Any, request: Request) -> ConfigError:
    if found["type"] in ("union_tag_invalid", "union_tag_not_found"):
        return ConfigError(
            f"must be {' or '.join(_KINDS)}", field="kind", fix="name the kind of analysis"
        )
    # The kind of an analysis stands between the body and its members, and is none of them.
    where = [str(part) for part in found["loc"] if part not in _KINDS]
    # The first part is the place in the request; people know the name of the field.
    field = ".".join(where[1:]) or where[0]
    if found["type"] == "json_invalid":
        return ConfigError("is not JSON", field="body", fix="send a JSON object")
    if found["type"] == _UNKNOWN:
        known = _list_members(request, found["loc"]) if field == where[-1] else []
        fix = suggest(field, known) if known else "leave it out, or check its spelling"
        return ConfigError("is unknown", field=field, fix=fix)
    if found["type"] in ("missing", "missing_argument"):
        return ConfigError("is missing", field=field, fix="send it; see /docs")
    rule = found["msg"].removeprefix("Value error, ")
    pattern = found.get("ctx", {}).get("pattern")
    if pattern == PLAIN_TEXT or rule == PLAIN_TEXT_RULE:
        return ConfigError(PLAIN_TEXT_RULE, field=field, fix=PLAIN_TEXT_FIX)
    if pattern == BEGINNING:
        return ConfigError(
            "must be an id, 64 lower-case hexadecimal digits, or its first 6 or more",
            field=field,
            fix=_WHERE_IDS_ARE.get(where[-1], "copy it from a list"),
        )
    if pattern == VISIBLE:
        return ConfigError(
            "must be 1 to 255 visible characters of ASCII", field=field, fix="send a new UUID"
        )
    if pattern in _DIGITS:
        return ConfigError(
            f"must be {_DIGITS[pattern]} lower-case hexadecimal digits",
            field=field,
            fix=_WHERE_IDS_ARE.get(where[-1], "send it in full"),
        )
    return ConfigError(rule[:1].lower() + rule[1:], field=field, fix="see /docs")


def _list_members(request: Request, where: Sequence[object]) -> list[str]:
    """Return the members of the request's body; of an analysis those of its kind."""
    body = request.scope["route"].body_field.field_info.annotation
    kinds: list[Any] = [each for each in get_args(body) or (body,) if is_dataclass(each)]
    if len(kinds) > 1:
        kinds = [each for each in kinds if where[1] in get_args(read_hints(each)["kind"])]
    return [member.name for each in kinds for member in fields(each)]


def _find_methods(request: Request) -> list[str]:
    """Return the methods that the routes of an address accept."""
    described = request.app.openapi()["paths"]
    found = {
        method.upper()
        for path, calls in described.items()
        for method in calls
        if compile_path(path)[0].match(request.url.path)
    }
    return sorted(found) or ["GET"]


def _to_sketch_error(request: Request, error: HTTPException) -> SketchError:
    if error.status_code == 404:
        return NotFoundError("is not an address of this server", field="path", fix="see /docs")
    if error.status_code == 405:
        return MethodError(
            f"cannot be {request.method} here",
            field="method",
            fix="use a method that the header Allow names",
        )
    # Bytes that are not UTF-8, or nested too deeply.
    return ConfigError("cannot be read as JSON", field="body", fix="send a JSON object")
