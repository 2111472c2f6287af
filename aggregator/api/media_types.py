"""Media types of bodies: those that a call's description names, and no other."""

from __future__ import annotations

from fastapi import Request
from fastapi.routing import APIRoute

from shared.errors import MediaTypeError

JSON = "application/json"


def media_types_of(route: APIRoute) -> list[str]:
    """Return the types of body that a call reads; none if it reads no body."""
    if route.body_field is not None:
        return [JSON]
    described = (route.openapi_extra or {}).get("requestBody", {})
    return list(described.get("content", {}))


async def require_media_type(request: Request) -> None:
    """Refuse a body of another type than the call reads, before it is parsed.

    Raises
    ------
    MediaTypeError
        Content-Type is missing or another.
    """
    route = request.scope.get("route")
    known = media_types_of(route) if isinstance(route, APIRoute) else []
    stated = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if known and stated not in known:
        raise MediaTypeError(
            f"must be {' or '.join(known)}",
            field="Content-Type",
            fix=f"send the header `Content-Type: {known[0]}`",
        )
