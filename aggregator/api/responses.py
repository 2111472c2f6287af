"""Answers with their headers, and their description in OpenAPI: problems and links."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import Depends, Header
from fastapi.responses import JSONResponse

from sfumato.shared.wire import PROBLEM_MEDIA_TYPE, DeviceAction, ProblemType, problem_types

Responses = dict[int | str, dict[str, Any]]

IMMUTABLE = "private, max-age=0, must-revalidate"
"""A copy may be kept and must be revalidated: a study with all that it held may be withdrawn."""
ANY_CALL = ("agent-too-old", "too-many-requests", "internal", "unavailable")
RETRY_AFTER = {
    "Retry-After": {
        "description": "seconds after which to send the request again",
        "schema": {"type": "integer"},
    }
}
LINKS = {
    "study": "get_study change_study get_plan create_token list_tokens list_devices list_refusals "
    "get_privacy get_utility list_sketches create_snapshot create_decode list_decodes "
    "create_analysis list_analyses",
    "snapshot": "get_snapshot",
    "decode": "get_decode cancel_decode",
    "analysis": "get_analysis cancel_analysis",
    "device": "exclude_device",
    "token": "revoke_token",
    "key": "revoke_key",
}
"""By kind of object: the calls that take its id from an answer."""


async def note_etags(
    _known: Annotated[
        str | None,
        Header(
            alias="if-none-match",
            description="ETags that were received before; if one is right still, 304",
        ),
    ] = None,
) -> None:
    """Describe the header that :class:`sfumato.aggregator.api.middleware.LeaveBodyOut` reads."""


CONDITIONAL: list[Any] = [Depends(note_etags)]


def describe_problems(*slugs: str) -> Responses:
    """Describe the problems that a call may be answered with, by status."""
    responses: Responses = {}
    for problem in problem_types():
        if problem.slug not in slugs:
            continue
        response = responses.setdefault(
            problem.status,
            {
                "description": problem.title,
                "content": {
                    PROBLEM_MEDIA_TYPE: {
                        "schema": {"$ref": "#/components/schemas/Problem"},
                        "examples": {},
                    }
                },
            },
        )
        response["content"][PROBLEM_MEDIA_TYPE]["examples"][problem.slug] = _example(problem)
        if problem.status in (429, 503) or problem.action is DeviceAction.HOLD:
            response["headers"] = RETRY_AFTER
    return responses


def _example(problem: ProblemType) -> dict[str, Any]:
    return {
        "summary": problem.title,
        "description": problem.explanation,
        "value": {
            "type": problem.uri,
            "title": problem.title,
            "status": problem.status,
            "detail": problem.explanation,
            "rule": problem.explanation,
        },
    }


def describe_links(*kinds: str, item: str = "") -> dict[str, Any]:
    """Describe the calls that an answer leads to; ``item`` is the path of a list's element."""
    return {
        "links": {
            name: {
                "operationId": name,
                "parameters": {f"path.{kind}": f"$response.body#{item}/{kind}_id"},
            }
            for kind in kinds
            for name in LINKS[kind].split()
        }
    }


def answer(body: Any, **headers: str) -> JSONResponse:
    """Answer with a body and headers, such as ``ETag``, whose hyphens are underscores."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return JSONResponse(asdict(body), headers=named)
