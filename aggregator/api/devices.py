"""Devices: what they ask and say themselves, and what operators do about them."""

from __future__ import annotations

from fastapi import APIRouter

from aggregator.api.dependencies import OPERATOR, Identity, Operator, ServicesDep
from aggregator.api.device_schemas import (
    DeviceStatusBody,
    ExclusionBody,
    ExclusionRequest,
    HeartbeatRequest,
    MomentBody,
    StreamBody,
)
from aggregator.api.schemas import maybe_rfc3339
from aggregator.api.signing import Device, Signed

router = APIRouter(prefix="/v1/devices", tags=["devices"])


@router.get("/me")
async def get_own_device(signed: Signed, services: ServicesDep) -> DeviceStatusBody:
    """Tell a device how far its streams have come; it signs the request by RFC 9421."""
    status = await services.devices.describe(signed)
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


@router.put("/me/heartbeat")
async def put_heartbeat(
    device: Device, body: HeartbeatRequest, services: ServicesDep
) -> MomentBody:
    """Keep what a device says of itself, in the place of what it said before; it signs it.

    Refusals of the plan by the device's owner are counted by rule in the study's refusals.
    """
    moment = await services.devices.note_heartbeat(
        device,
        body.model_dump(),
        studies=[bytes.fromhex(refusal.study) for refusal in body.plan_refusals],
    )
    return MomentBody(server_time=moment.server_time, generation=moment.generation.hex())


@router.post("/{device}/exclude", tags=["operators"], dependencies=OPERATOR)
async def exclude_device(
    device: Identity, body: ExclusionRequest, services: ServicesDep, operator: Operator
) -> ExclusionBody:
    """Take the sketches of a device out of every sum, exactly, and refuse its later ones.

    Asked again, it answers the same with the first reason. Snapshots made before stay as they are
    and name the device. Sketches whose payloads were dropped by retention cannot be taken out:
    `n_kept` counts them.
    """
    made = await services.exclusion.exclude(
        bytes.fromhex(device), reason=body.reason, actor=operator.key_id
    )
    return ExclusionBody(
        device_id=device,
        study_id=made.device.study_id.hex(),
        excluded=maybe_rfc3339(made.device.excluded) or "",
        reason=made.device.reason or "",
        n_subtracted=made.sketches.n_subtracted,
        n_kept=made.sketches.n_kept,
    )
