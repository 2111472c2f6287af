"""Devices as callers: they sign their requests by RFC 9421."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import APIKeyHeader

from aggregator.api.dependencies import Credentials, ServicesDep, require_analyst
from aggregator.records import DeviceRecord
from aggregator.services.devices import SignedRequest

_signature = APIKeyHeader(
    name="Signature",
    auto_error=False,
    scheme_name="device",
    description="A signature by the device's key (RFC 9421, Ed25519) over method, path, time and "
    "digest of the body, described by the header `Signature-Input`.",
)
SignatureHeader = Annotated[str | None, Depends(_signature)]


async def read_signed(request: Request, _signature: SignatureHeader) -> SignedRequest:
    """Return the request as its signature covers it."""
    return SignedRequest(
        method=request.method,
        path=request.url.path,
        headers=request.headers,
        body=await request.body(),
    )


Signed = Annotated[SignedRequest, Depends(read_signed)]


async def require_device(signed: Signed, services: ServicesDep) -> DeviceRecord:
    """Let only devices pass that signed the request."""
    return await services.devices.authenticate(signed)


async def require_reader(
    signed: Signed, services: ServicesDep, credentials: Credentials
) -> DeviceRecord | None:
    """Let analysts and devices pass; return the device, if it is one."""
    if credentials is None and "signature-input" in signed.headers:
        return await services.devices.authenticate(signed)
    await require_analyst(services, credentials)
    return None


Device = Annotated[DeviceRecord, Depends(require_device)]
Reader = Annotated[DeviceRecord | None, Depends(require_reader)]
