"""Routes of calls: the declaration supplies all but the handler."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import wraps
from inspect import Parameter
from typing import Any, ParamSpec, TypeVar, overload

from fastapi import APIRouter, Depends, Response

from sfumato.aggregator.api.dependencies import require_caller
from sfumato.aggregator.api.idempotency import IdempotentRoute, claim_key
from sfumato.aggregator.api.responses import (
    CONDITIONAL,
    RETRY_AFTER,
    Responses,
    describe_links,
    describe_problems,
)
from sfumato.shared.wire.calls.call import JSON, Call, Events, Pages
from sfumato.shared.wire.objects.studies import Items

P = ParamSpec("P")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
Decorator = Callable[[F], F]


@overload
def serves(
    router: APIRouter, call: Pages[T], **options: Any
) -> Decorator[Callable[..., Awaitable[Items[T]]]]: ...
@overload
def serves(
    router: APIRouter, call: Events[T], **options: Any
) -> Decorator[Callable[..., AsyncIterator[Any]]]: ...
@overload
def serves(
    router: APIRouter, call: Call[P, T], **options: Any
) -> Decorator[Callable[..., Awaitable[T | tuple[T, bool] | Response]]]: ...
def serves(router: APIRouter, call: Call[Any, Any], **options: Any) -> Any:
    """Answer a call by the handler that follows, which needs no docstring: the call has the text.

    Where the object may exist already, the handler returns it and whether it is new.

    Parameters
    ----------
    options
        Options of the route beside those that the call states.
    """
    required = require_caller(call)
    if call.media == JSON and not isinstance(call, Pages):
        options.setdefault("response_model", call.answer)

    def register(handler: F) -> F:
        router.add_api_route(
            call.path,
            _place(handler, call) if call.may_exist or call.location else handler,
            methods=[call.method],
            name=call.name,
            status_code=call.status,
            description=call.text,
            dependencies=[
                *([Depends(required)] if required else ()),
                *(CONDITIONAL if call.is_conditional else ()),
                # After the caller's key was accepted.
                *((Depends(claim_key),) if call.makes else ()),
            ],
            route_class_override=IdempotentRoute if call.makes else None,
            responses=_describe(call) | options.pop("responses", {}),
            **options,
        )
        return handler

    return register


def _describe(call: Call[Any, Any]) -> Responses:
    responses = describe_problems(*call.list_problems())
    if call.is_conditional:
        responses[304] = {"description": "not modified since the ETag"}
    if call.makes:
        responses[409]["headers"] = RETRY_AFTER
    item = "/items/0" if isinstance(call, Pages) else ""
    links = describe_links(*call.leads_to.split(), item=item) if call.leads_to else {}
    if links:
        responses[call.status] = links
    if call.may_exist:
        responses[200] = {"model": call.answer, **links}
    return responses


def _place(handler: Callable[..., Any], call: Call[Any, Any]) -> Callable[..., Any]:
    """Add status and Location of an object that was made or found to the answer."""
    signature = inspect.signature(handler)
    takes_response = "response" in signature.parameters

    @wraps(handler)
    async def place(response: Response, **given: Any) -> Any:
        if takes_response:
            given["response"] = response
        found = await handler(**given)
        body, is_new = found if call.may_exist else (found, True)
        response.status_code = call.status if is_new else 200
        if call.location:
            response.headers["Location"] = call.location.format(**vars(body))
        return body

    if not takes_response:
        added = Parameter("response", Parameter.KEYWORD_ONLY, annotation=Response)
        signature = signature.replace(parameters=[*signature.parameters.values(), added])
    place.__signature__ = signature  # type: ignore[attr-defined]
    return place
