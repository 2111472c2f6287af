"""Conditional requests: what was read before need not be sent again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Header, Response

IfNoneMatch = Annotated[
    str | None,
    Header(description="ETags that were received before; if one is right still, 304"),
]
IMMUTABLE = "private, max-age=0, must-revalidate"
"""A copy may be kept, and is asked about: a study with all that it held may be withdrawn."""
NOT_MODIFIED: dict[int | str, dict[str, Any]] = {
    304: {"description": "not modified since the ETag"}
}


def is_known(etag: str, if_none_match: str | None) -> bool:
    """Return whether an ETag is among those of If-None-Match; compared weakly, as RFC 9110 asks."""
    if if_none_match is None:
        return False
    known = [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]
    return etag in known or known == ["*"]


def answer_not_modified(headers: Mapping[str, str]) -> Response:
    """Return the answer to who has it already; ``headers`` are those of the whole answer."""
    return Response(status_code=304, headers=dict(headers))
