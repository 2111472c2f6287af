"""OpenAPI completed from the one table of problems: every call names the problems it may answer."""

from __future__ import annotations

from typing import Any

from shared.wire import PROBLEM_MEDIA_TYPE, DeviceAction, ProblemType, problem_types

_ANY_CALL = {"too-many-requests", "internal", "unavailable"}
_WITH_KEY = {"access-denied", "forbidden"}
_WITH_PATH = {"not-found", "request-invalid"}
_WITH_QUERY = {"request-invalid"}
_WITH_BODY = {"request-timeout", "too-large", "media-type-unsupported", "request-invalid"}
_OF_STUDY = ("/v1/studies/{study}", "/v1/snapshots/", "/v1/decodes/", "/v1/devices/{device}")
_SPECIAL: dict[tuple[str, str], set[str]] = {
    ("post", "/v1/studies"): {
        "plan-invalid",
        "plan-mismatch",
        "privacy-invalid",
        "store-conflict",
        "study-withdrawn",
        "unsupported-version",
    },
    ("patch", "/v1/studies/{study}"): {"precondition-failed", "precondition-required"},
    ("post", "/v1/enrolments"): {
        "access-denied",
        "not-found",
        "signature-invalid",
        "store-conflict",
        "study-closed",
        "study-withdrawn",
    },
    ("get", "/v1/devices/me"): {"signature-invalid", "study-withdrawn"},
    ("put", "/v1/devices/me/heartbeat"): {"signature-invalid", "study-withdrawn"},
    ("post", "/v1/devices/me/keys"): {"signature-invalid", "store-conflict", "study-withdrawn"},
    ("get", "/v1/studies/{study}"): {"signature-invalid", "study-withdrawn"},
    ("put", "/v1/studies/{study}/sketches/{sketch}"): {
        "access-denied",
        "duplicate-upload",
        "implausible-sketch",
        "malformed-message",
        "plan-mismatch",
        "signature-invalid",
        "store-conflict",
        "study-closed",
        "too-early",
        "unsupported-version",
    },
    ("post", "/v1/studies/{study}/snapshots"): {"store-conflict"},
    ("post", "/v1/studies/{study}/decodes"): {"decoding-invalid", "store-conflict"},
}
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "A problem document (RFC 9457); its type leads to a page that explains it.",
    "required": ["type", "title", "status", "detail", "rule"],
    "properties": {
        "type": {"type": "string", "enum": [problem.uri for problem in problem_types()]},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "rule": {"type": "string", "description": "what is wrong, and which rule it breaks"},
        "field": {"type": "string", "description": "the field, header or part at fault"},
        "fix": {"type": "string", "description": "what the sender can do about it"},
    },
}


def describe_problems(document: dict[str, Any]) -> dict[str, Any]:
    """Add to each call of an OpenAPI document the problems that it may be answered with."""
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    schemas["Problem"] = _SCHEMA
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    for path, calls in document["paths"].items():
        for method, call in calls.items():
            call["responses"].pop("422", None)
            call["responses"] |= _responses(problems_of(method, path, call))
    return document


def problems_of(method: str, path: str, call: dict[str, Any]) -> list[ProblemType]:
    """Return the problems that a call may be answered with, in the order of the table."""
    slugs = _ANY_CALL | _SPECIAL.get((method, path), set())
    places = {parameter["in"] for parameter in call.get("parameters", [])}
    slugs |= _WITH_KEY if "security" in call else set()
    slugs |= _WITH_PATH if "path" in places else set()
    slugs |= _WITH_QUERY if "query" in places else set()
    slugs |= {"study-withdrawn"} if path.startswith(_OF_STUDY) else set()
    slugs |= _WITH_BODY if "requestBody" in call else set()
    return [problem for problem in problem_types() if problem.slug in slugs]


def _responses(problems: list[ProblemType]) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for problem in problems:
        response = responses.setdefault(
            str(problem.status),
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
            response["headers"] = {
                "Retry-After": {
                    "description": "seconds after which it makes sense to ask again",
                    "schema": {"type": "integer"},
                }
            }
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
