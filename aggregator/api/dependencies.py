"""Dependencies of the routes: services, callers, identities, pages, media types."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Path, Query, Request
from fastapi.routing import APIRoute
from fastapi.security import APIKeyHeader, HTTPAuthorizationCredentials, HTTPBearer

from sfumato.aggregator.base.transaction import PageKey
from sfumato.aggregator.database.references import Identified
from sfumato.aggregator.resources.devices.record import DeviceRecord
from sfumato.aggregator.resources.devices.service.signed import SignedRequest
from sfumato.aggregator.resources.keys.record import KeyRecord
from sfumato.aggregator.services import Services
from sfumato.shared.core.text import PLAIN_TEXT
from sfumato.shared.errors import ConfigError, MediaTypeError
from sfumato.shared.wire.calls.call import JSON, Scope
from sfumato.shared.wire.objects.declaration import HEX_64
from sfumato.shared.wire.objects.studies import Paged
from sfumato.shared.wire.references import is_identity

T = TypeVar("T")
R = TypeVar("R")

HEX_16 = "^[0-9a-f]{16}$"
BEGINNING = "^[0-9a-f]{6,64}$"
_bearer = HTTPBearer(
    auto_error=False,
    scheme_name="key",
    description="An API key, `sfk_...`, from `sfumato key create`.",
)
_signature = APIKeyHeader(
    name="Signature",
    auto_error=False,
    scheme_name="device",
    description="A signature by the device's key (RFC 9421, Ed25519) over method, path, time and "
    "digest of the body, described by the header `Signature-Input`.",
)
Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
SignatureHeader = Annotated[str | None, Depends(_signature)]


async def services_of(request: Request) -> Services:
    """Return the services of the application that serves a request."""
    services: Services = request.app.state.services
    return services


ServicesDep = Annotated[Services, Depends(services_of)]


async def require_operator(services: ServicesDep, credentials: Credentials) -> KeyRecord:
    """Require an operator's key."""
    return await services.keys.require(_secret(credentials), "operator")


async def require_monitor(services: ServicesDep, credentials: Credentials) -> None:
    """Require the key of metrics, or an operator's."""
    await services.keys.require_monitor(_secret(credentials))


async def require_analyst(services: ServicesDep, credentials: Credentials) -> KeyRecord:
    """Require an analyst's or operator's key."""
    return await services.keys.require(_secret(credentials), "analyst")


async def require_enroller(services: ServicesDep, credentials: Credentials) -> KeyRecord:
    """Require a key that may enrol devices, or an operator's."""
    return await services.keys.require(_secret(credentials), "enrol")


def _secret(credentials: HTTPAuthorizationCredentials | None) -> str | None:
    return credentials.credentials if credentials else None


async def read_signed(request: Request, _signature: SignatureHeader) -> SignedRequest:
    """Return the request as its signature covers it (RFC 9421)."""
    return SignedRequest(
        method=request.method,
        path=request.url.path,
        headers=request.headers,
        body=await request.body(),
    )


Signed = Annotated[SignedRequest, Depends(read_signed)]


async def require_device(signed: Signed, services: ServicesDep) -> DeviceRecord:
    """Require a device's signature."""
    return await services.devices.authenticate(signed)


async def require_reader(
    signed: Signed, services: ServicesDep, credentials: Credentials
) -> DeviceRecord | None:
    """Require an analyst's key or a device's signature; return the device, if it is one."""
    if credentials is None and "signature-input" in signed.headers:
        return await services.devices.authenticate(signed)
    await require_analyst(services, credentials)
    return None


Operator = Annotated[KeyRecord, Depends(require_operator)]
Analyst = Annotated[KeyRecord, Depends(require_analyst)]
Enroller = Annotated[KeyRecord, Depends(require_enroller)]
Device = Annotated[DeviceRecord, Depends(require_device)]
Reader = Annotated[DeviceRecord | None, Depends(require_reader)]
REQUIRED: dict[Scope, Callable[..., Any] | None] = {
    "operator": require_operator,
    "analyst": require_analyst,
    "enrol": require_enroller,
    "monitor": require_monitor,
    **dict.fromkeys(("device", "reader", "public")),
}
"""By scope: what requires its key. Handlers for devices and readers take those themselves."""

Identity = Annotated[str, Path(pattern=HEX_64, description="64 lower-case hexadecimal digits")]
_NAME = "its id, its name, or the first 6 or more digits of its id; a device sends the id"
_BEGINNING = "its id, or the first 6 or more digits of it"


async def find_study_id(
    study: Annotated[
        str, Path(pattern=PLAIN_TEXT, max_length=200, description=_NAME, alias="study")
    ],
    services: ServicesDep,
    credentials: Credentials,
) -> bytes:
    """Return the id of the study that a path names.

    A name is looked up for holders of a key alone: nobody else learns which there are.
    """
    if is_identity(study):
        return bytes.fromhex(study)
    await require_analyst(services, credentials)
    return bytes.fromhex(await services.references.find_study(study))


def _refer(kind: Identified) -> Any:
    """Return the dependency that reads an id, or the beginning of one, from a path."""

    async def find(reference: str, services: ServicesDep, credentials: Credentials) -> bytes:
        if is_identity(reference):
            return bytes.fromhex(reference)
        await require_analyst(services, credentials)
        return bytes.fromhex(await services.references.find(kind, reference))

    # Stated here, because an annotation in the code cannot name the kind.
    of_path = Path(pattern=BEGINNING, description=_BEGINNING, alias=kind)
    find.__annotations__["reference"] = Annotated[str, of_path]
    return Depends(find)


StudyId = Annotated[bytes, Depends(find_study_id)]
DeviceId = Annotated[bytes, _refer("device")]
BatchId = Annotated[bytes, _refer("batch")]
SnapshotId = Annotated[bytes, _refer("snapshot")]
DecodeId = Annotated[bytes, _refer("decode")]
AnalysisId = Annotated[bytes, _refer("analysis")]
ScheduleId = Annotated[bytes, _refer("schedule")]
AlarmId = Annotated[bytes, _refer("alarm")]
KeyIdentity = Annotated[str, Path(pattern=HEX_16, description="16 lower-case hexadecimal digits")]


@dataclass(frozen=True)
class PageRequest:
    """A page of a list: the end of the page before, and how many items to look up."""

    after: PageKey | None
    n_wanted: int

    def make(
        self, found: Sequence[R], *, show: Callable[[R], T], key: Callable[[R], PageKey]
    ) -> Paged[T]:
        """Return a page of a list, of which one record more than fits was looked up."""
        shown = found[: self.n_wanted - 1]
        next_page = encode_page(key(shown[-1])) if len(found) == self.n_wanted else None
        return Paged(items=[show(record) for record in shown], next_page=next_page)


async def read_page(
    page: Annotated[
        str | None, Query(description="`next_page` of the page before; opaque", max_length=400)
    ] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="most items on the page")] = 100,
) -> PageRequest:
    """Read the query of a list.

    Raises
    ------
    ConfigError
        This server did not give the page.
    """
    if page is None:
        return PageRequest(None, limit + 1)
    try:
        time, identity = json.loads(base64.urlsafe_b64decode(page.encode()))
        if not math.isfinite(time):
            raise ValueError(time)  # databases differ in how they sort it
        return PageRequest((float(time), bytes.fromhex(identity)), limit + 1)
    except (ValueError, TypeError) as error:
        raise ConfigError(
            "is not a page of this list", field="page", fix="use `next_page` as it was given"
        ) from error


Page = Annotated[PageRequest, Depends(read_page)]


def encode_page(key: PageKey) -> str:
    """Return the opaque form of the end of a page."""
    return base64.urlsafe_b64encode(json.dumps([key[0], key[1].hex()]).encode()).decode()


async def require_media_type(request: Request) -> None:
    """Refuse a body of a type that the call does not read, before the body is parsed.

    Raises
    ------
    MediaTypeError
        Content-Type is missing or names another type.
    """
    route = request.scope.get("route")
    known = _media_types_of(route) if isinstance(route, APIRoute) else []
    stated = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if known and stated not in known:
        raise MediaTypeError(
            f"must be {' or '.join(known)}",
            field="Content-Type",
            fix=f"send the header `Content-Type: {known[0]}`",
        )


def _media_types_of(route: APIRoute) -> list[str]:
    if route.body_field is not None:
        return [JSON]
    described = (route.openapi_extra or {}).get("requestBody", {})
    return list(described.get("content", {}))
