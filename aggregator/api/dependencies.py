"""Dependencies of the routes: the services, a key's scope, pages and identities."""

from __future__ import annotations

import base64
import json
import math
from typing import Annotated, Any

from fastapi import Depends, Path, Query, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from aggregator.api.schemas import HEX_64
from aggregator.records import KeyRecord, PageKey
from aggregator.services import Services
from shared.errors import ConfigError

_bearer = HTTPBearer(
    auto_error=False,
    scheme_name="key",
    description="An API key, `sfk_...`, from `sfumato key create`.",
)
Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]


async def services_of(request: Request) -> Services:
    """Return the services of the application that serves a request."""
    services: Services = request.app.state.services
    return services


ServicesDep = Annotated[Services, Depends(services_of)]


async def require_operator(services: ServicesDep, credentials: Credentials) -> KeyRecord:
    """Let only operators pass."""
    return await services.keys.require(_secret(credentials), "operator")


async def require_analyst(services: ServicesDep, credentials: Credentials) -> KeyRecord:
    """Let analysts and operators pass."""
    return await services.keys.require(_secret(credentials), "analyst")


async def require_enroller(services: ServicesDep, credentials: Credentials) -> KeyRecord:
    """Let those pass who enrol devices, and operators."""
    return await services.keys.require(_secret(credentials), "enrol")


def _secret(credentials: HTTPAuthorizationCredentials | None) -> str | None:
    return credentials.credentials if credentials else None


Operator = Annotated[KeyRecord, Depends(require_operator)]
Analyst = Annotated[KeyRecord, Depends(require_analyst)]
Enroller = Annotated[KeyRecord, Depends(require_enroller)]
OPERATOR: list[Any] = [Depends(require_operator)]
ANALYST: list[Any] = [Depends(require_analyst)]

Identity = Annotated[str, Path(pattern=HEX_64, description="64 lower-case hexadecimal digits")]
Page = Annotated[
    str | None, Query(description="`next_page` of the page before; opaque", max_length=400)
]
Limit = Annotated[int, Query(ge=1, le=1000, description="most items on the page")]


def encode_page(key: PageKey) -> str:
    """Return the opaque form of the end of a page."""
    return base64.urlsafe_b64encode(json.dumps([key[0], key[1].hex()]).encode()).decode()


def decode_page(text: str | None) -> PageKey | None:
    """Read the opaque form of the end of a page.

    Raises
    ------
    ConfigError
        It is not one that this server gave.
    """
    if text is None:
        return None
    try:
        time, identity = json.loads(base64.urlsafe_b64decode(text.encode()))
        if not math.isfinite(time):
            raise ValueError(time)  # databases differ in where they put it
        return float(time), bytes.fromhex(identity)
    except (ValueError, TypeError) as error:
        raise ConfigError(
            "is not a page of this list", field="page", fix="use `next_page` as it was given"
        ) from error
