"""Devices: what they ask and say themselves, and what operators do about them."""

from __future__ import annotations

from fastapi import APIRouter, Response

from aggregator.api.dependencies import (
    ANALYST,
    OPERATOR,
    Identity,
    Limit,
    Operator,
    Page,
    ServicesDep,
    decode_page,
    encode_page,
)
from aggregator.api.device_bodies import to_details, to_map, to_stream
from aggregator.api.device_schemas import (
    DeviceBody,
    DeviceDetailsBody,
    DeviceStatusBody,
    ExclusionBody,
    ExclusionRequest,
    HeartbeatRequest,
    MomentBody,
    RevocationRequest,
    RotationBody,
    RotationRequest,
)
from aggregator.api.schemas import Paged, maybe_rfc3339
from aggregator.api.signing import Device, Signed
from aggregator.services import Services
from aggregator.services.device_keys import key_id_of

router = APIRouter(prefix="/v1", tags=["devices"])


@router.get("/devices/me")
async def get_own_device(signed: Signed, services: ServicesDep) -> DeviceStatusBody:
    """Describe the streams of the device that signs the request (RFC 9421).

    After a server was put back from a backup `missing` names what a device should send again.
    """
    status = await services.devices.describe(signed)
    return DeviceStatusBody(
        device_id=status.device.device_id.hex(),
        study_id=status.device.study_id.hex(),
        streams=[to_stream(record) for record in status.streams],
        server_time=status.server_time,
        generation=status.generation.hex(),
    )


@router.put("/devices/me/heartbeat")
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


@router.post("/devices/me/keys", status_code=201, responses={200: {"model": RotationBody}})
async def change_key(
    signed: Signed, body: RotationRequest, services: ServicesDep, response: Response
) -> RotationBody:
    """Give a device another key; it signs the request with the old one, which then is retired.

    The device's identity stays. The retired key still verifies the sketches up to `last_sequences`,
    and nothing after; the same request again, signed by it, is answered with 200.
    """
    device, is_new = await services.devices.change_key(
        signed,
        public_key=bytes.fromhex(body.public_key),
        last_sequences=body.last_sequences,
        proof=bytes.fromhex(body.proof),
    )
    response.status_code = 201 if is_new else 200
    return RotationBody(device_id=device.device_id.hex(), key_id=key_id_of(device.public_key).hex())


@router.post("/devices/{device}/exclude", tags=["operators"], dependencies=OPERATOR)
async def exclude_device(
    device: Identity, body: ExclusionRequest, services: ServicesDep, operator: Operator
) -> ExclusionBody:
    """Take the sketches of a device out of every sum, exactly, and refuse its later ones.

    At once: no snapshot that is asked for after the answer has any of them. Asked again, it answers
    the same with the first reason. Snapshots made before stay as they are and name the device.
    Sketches whose payloads were dropped by retention cannot be taken out: `n_kept` counts them.
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


@router.post("/devices/{device}/revoke", tags=["operators"], dependencies=OPERATOR)
async def revoke_device(
    device: Identity, body: RevocationRequest, services: ServicesDep, operator: Operator
) -> DeviceDetailsBody:
    """Revoke a device, or one key that it has replaced, at once and for good.

    Nothing more that it signed is taken. What is stored already stays in every sum; see `exclude`
    to take it out.
    """
    found = await services.roster.revoke(
        bytes.fromhex(device),
        key_id=bytes.fromhex(body.key_id) if body.key_id else None,
        reason=body.reason,
        actor=operator.key_id,
    )
    return to_details(found)


@router.get("/devices/{device}", dependencies=ANALYST)
async def get_device(device: Identity, services: ServicesDep) -> DeviceDetailsBody:
    """Show a device with its keys."""
    return to_details(await services.roster.get(bytes.fromhex(device)))


@router.get("/devices", dependencies=ANALYST)
async def list_all_devices(
    services: ServicesDep, page: Page = None, limit: Limit = 100
) -> Paged[DeviceBody]:
    """List the devices of all studies in the order of enrolment."""
    return await _list_page(services, None, page, limit)


@router.get("/studies/{study}/devices", dependencies=ANALYST)
async def list_devices(
    study: Identity, services: ServicesDep, page: Page = None, limit: Limit = 100
) -> Paged[DeviceBody]:
    """List the devices of a study in the order of enrolment."""
    return await _list_page(services, bytes.fromhex(study), page, limit)


async def _list_page(
    services: Services, study_id: bytes | None, page: str | None, limit: int
) -> Paged[DeviceBody]:
    found = await services.roster.list_page(study_id, after=decode_page(page), limit=limit + 1)
    shown = found[:limit]
    last = shown[-1].device if len(found) > limit else None
    return Paged[DeviceBody](
        items=[DeviceBody.model_validate(to_map(summary)) for summary in shown],
        next_page=encode_page((last.enrolled, last.device_id)) if last else None,
    )
