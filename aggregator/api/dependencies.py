"""Dependencies of the routes: services, callers, identities, pages, media types."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, cast

from fastapi import Depends, Path, Query, Request
from fastapi.routing import APIRoute
from fastapi.security import APIKeyHeader, HTTPAuthorizationCredentials, HTTPBearer

from sfumato.aggregator.base.transaction import PageKey
from sfumato.aggregator.database.references import IDENTIFIED, Identified
from sfumato.aggregator.resources.devices.record import DeviceRecord
from sfumato.aggregator.resources.devices.service.signed import SignedRequest
from sfumato.aggregator.resources.keys.record import KeyRecord, KeyScope
from sfumato.aggregator.resources.keys.service.keys import require_scope
from sfumato.aggregator.services import Services
from sfumato.shared.core.text import PLAIN_TEXT
from sfumato.shared.errors import ConfigError, ForbiddenError, MediaTypeError
from sfumato.shared.wire.calls.call import JSON, Call, Scope
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


_LEAST: Mapping[Scope, KeyScope] = {
    "operator": "operator",
    "analyst": "analyst",
    "viewer": "viewer",
    "reader": "viewer",
    "enrol": "enrol",
}
"""The least scope of a key that may make a call."""


def require_caller(call: Call[Any, Any]) -> Callable[..., Awaitable[None]] | None:
    """Return the dependency that requires the key of a call, with all that bounds the key.

    Devices sign, and their handlers verify that; the public needs no key.
    """
    if call.scope in ("public", "device"):
        return None

    async def require(request: Request, services: ServicesDep, credentials: Credentials) -> None:
        request.state.key = None
        secret = _secret(credentials)
        if call.scope == "reader" and secret is None and "signature-input" in request.headers:
            return
        if call.scope == "monitor":
            key = await services.keys.require_monitor(secret)
        else:
            key = await services.keys.require(secret, _LEAST[call.scope])
        request.state.key = key
        if key is not None and key.study_id is not None:
            await _keep_to_study(request, services, call, key.study_id)

    return require


async def _keep_to_study(
    request: Request, services: Services, call: Call[Any, Any], study_id: bytes
) -> None:
    """Refuse a call about another study as if there were none, and one about none or several.

    References in the path are replaced by ids, which are found in this study alone.
    """
    kinds = [kind for kind in IDENTIFIED if kind in call.references]
    if call.spans_studies or (not kinds and not call.keeps_to_study):
        about = "all of a campaign" if call.spans_studies else "none in particular"
        raise ForbiddenError(
            f"carries a key of one study, and this request is about {about}",
            field="Authorization",
            fix="use a key of all studies: `sfumato key create` without --study",
        )
    for kind in kinds:
        reference = request.path_params[kind]
        found = await services.references.find(kind, reference, within=study_id)
        request.path_params[kind] = found
    body = await _read_json(request) if call.names else None
    for name, named in (pair.split("=") for pair in call.names.split()):
        stated = body.get(name) if isinstance(body, dict) else None
        listed = stated if isinstance(stated, list) else [stated]
        # The declaration of the body refuses what is no id, and more ids than it allows.
        for each in {each for each in listed if isinstance(each, str) and is_identity(each)}:
            await services.references.find(cast(Identified, named), each, within=study_id)


async def _read_json(request: Request) -> Any:
    """Return the body of a request; None if it is no JSON, which the declaration refuses later."""
    try:
        return await request.json()
    except (ValueError, RecursionError):
        return None


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


async def read_key(request: Request) -> KeyRecord:
    """Return the key of the caller, which the call has required."""
    key: KeyRecord = request.state.key
    return key


async def read_reader(
    request: Request, signed: Signed, services: ServicesDep
) -> DeviceRecord | None:
    """Return the device that signs the request, or None for the holder of a key."""
    return None if request.state.key else await services.devices.authenticate(signed)


Caller = Annotated[KeyRecord, Depends(read_key)]
Device = Annotated[DeviceRecord, Depends(require_device)]
Reader = Annotated[DeviceRecord | None, Depends(read_reader)]

Identity = Annotated[str, Path(pattern=HEX_64, description="64 lower-case hexadecimal digits")]
_NAME = "its id, its name, or the first 6 or more digits of its id; a device sends the id"
_BEGINNING = "its id, or the first 6 or more digits of it"


async def _find(
    kind: Identified, reference: str, request: Request, services: Services, secret: str | None
) -> bytes:
    """Return the id that a path refers to by an id, a name or first digits.

    Only holders of a key may look names and digits up: nobody else learns which there are.
    """
    if is_identity(reference):
        return bytes.fromhex(reference)
    key = getattr(request.state, "key", None)
    if key is None:
        key = await services.keys.require(secret, "viewer")
    require_scope(key, "viewer")
    return bytes.fromhex(await services.references.find(kind, reference, within=key.study_id))


async def find_study_id(
    study: Annotated[
        str, Path(pattern=PLAIN_TEXT, max_length=200, description=_NAME, alias="study")
    ],
    request: Request,
    services: ServicesDep,
    credentials: Credentials,
) -> bytes:
    """Return the id of the study that a path names."""
    return await _find("study", study, request, services, _secret(credentials))


def _refer(kind: Identified) -> Any:
    """Return the dependency that reads an id, or the beginning of one, from a path."""

    async def find(
        reference: str, request: Request, services: ServicesDep, credentials: Credentials
    ) -> bytes:
        return await _find(kind, reference, request, services, _secret(credentials))

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
