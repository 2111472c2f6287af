"""What a device asks about itself."""

from __future__ import annotations

from fastapi import APIRouter, Request

from aggregator.api.dependencies import ServicesDep
from aggregator.api.schemas import DeviceStatusBody, StreamBody

router = APIRouter(prefix="/v1/devices", tags=["devices"])


@router.get("/me")
async def get_own_device(request: Request, services: ServicesDep) -> DeviceStatusBody:
    """Tell a device how far its streams have come; it signs the request by RFC 9421."""
    status = await services.enrolment.describe_device(
        method=request.method,
        path=request.url.path,
        headers=request.headers,
        body=await request.body(),
    )
    return DeviceStatusBody(
        device_id=status.device.device_id.hex(),
        study_id=status.device.study_id.hex(),
        streams=[
            StreamBody(
                stream=record.stream,
                last_sequence=record.last_sequence,
                last_slot=record.last_slot,
            )
            for record in status.streams
        ],
        server_time=status.server_time,
        generation=status.generation.hex(),
    )
