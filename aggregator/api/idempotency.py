"""Idempotency keys (draft-ietf-httpapi-idempotency-key-header) of calls that make something."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Annotated, Any

import cbor2
from fastapi import Header, Request, Response
from fastapi.routing import APIRoute

from sfumato.aggregator.api.dependencies import Credentials, ServicesDep
from sfumato.aggregator.resources.keys.service.idempotency import FIELD
from sfumato.aggregator.services import Services

VISIBLE = "^[!-~]{1,255}$"


class _RepeatError(Exception):
    """Leads out of the dependencies of a request that was answered before."""

    def __init__(self, response: Response) -> None:
        self.response = response


async def claim_key(
    request: Request,
    services: ServicesDep,
    credentials: Credentials,
    key: Annotated[
        str | None,
        Header(
            alias=FIELD,
            pattern=VISIBLE,
            description="A new text for each request, such as a UUID. The same request with the "
            "same key, within 24 hours, gets the same answer and makes nothing.",
        ),
    ] = None,
) -> None:
    """Claim the idempotency key of a request whose caller is known."""
    if key is None or credentials is None:
        return
    about = f"{request.method} {request.url.path}?{request.url.query}\n".encode()
    claim = services.idempotency.claim(credentials.credentials, key, about + await request.body())
    request.state.claim = claim
    kept = await services.idempotency.find(claim)
    if kept is not None:
        raise _RepeatError(_unpack(kept))


class IdempotentRoute(APIRoute):
    """A route that keeps its answer, in the transaction of what it makes."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers a request."""
        serve = super().get_route_handler()

        async def serve_once(request: Request) -> Response:
            if FIELD not in request.headers:
                return await serve(request)
            services: Services = request.app.state.services
            try:
                async with services.store.unite():
                    response = await serve(request)
                    await services.idempotency.keep(request.state.claim, _pack(response))
            except _RepeatError as repeated:
                return repeated.response
            finally:
                if hasattr(request.state, "claim"):
                    services.idempotency.release(request.state.claim)
            return response

        return serve_once


def _pack(response: Response) -> bytes:
    return cbor2.dumps([response.status_code, response.raw_headers, bytes(response.body)])


def _unpack(kept: bytes) -> Response:
    status, headers, body = cbor2.loads(kept)
    response = Response(body, status)
    response.raw_headers = [(name, value) for name, value in headers]
    return response
