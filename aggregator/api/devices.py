"""Devices: enrolment, their own requests, and requests of operators about them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Literal

from fastapi import APIRouter, Response

from sfumato.aggregator.api.dependencies import (
    ANALYST,
    OPERATOR,
    Device,
    DeviceId,
    Operator,
    Page,
    PageRequest,
    ServicesDep,
    Signed,
    StudyId,
)
from sfumato.aggregator.api.responses import (
    BY_DEVICE,
    OF_STUDY,
    TO_DEVICE,
    WITH_BODY,
    WITH_KEY,
    describe_links,
    describe_problems,
)
from sfumato.aggregator.records import DeviceRecord, StreamRecord
from sfumato.aggregator.services import Services
from sfumato.aggregator.services.devices.keys import key_id_of
from sfumato.aggregator.services.devices.roster import DeviceDetails, DeviceSummary
from sfumato.shared.structure import structure
from sfumato.shared.wire.objects.declaring import make_body, to_rfc3339
from sfumato.shared.wire.objects.devices import (
    DeviceStatusBody,
    EnrolmentBody,
    EnrolmentRequest,
    HeartbeatRequest,
    MomentBody,
    RangeBody,
    RotationBody,
    RotationRequest,
    StreamBody,
)
from sfumato.shared.wire.objects.studies import (
    DeviceBody,
    DeviceDetailsBody,
    DeviceKeyBody,
    ExclusionBody,
    ExclusionRequest,
    HeartbeatBody,
    Paged,
    RevocationRequest,
)

router = APIRouter(prefix="/v1", tags=["devices"])

_OF_DEVICE = describe_problems(*WITH_KEY, *OF_STUDY)
_CHANGING = describe_problems(*WITH_KEY, *OF_STUDY, *WITH_BODY)
_LINKS = describe_links(TO_DEVICE)


@router.post(
    "/enrolments",
    status_code=201,
    responses=describe_problems(
        *WITH_BODY,
        "access-denied",
        "not-found",
        "signature-invalid",
        "store-conflict",
        "study-closed",
        "study-withdrawn",
    )
    | {201: _LINKS, 200: {"model": EnrolmentBody, **_LINKS}},
)
async def enrol(body: EnrolmentRequest, services: ServicesDep, response: Response) -> EnrolmentBody:
    """Enrol a device by token; 200 if the same key with the same labels is enrolled already."""
    device, is_new = await services.enrolment.enrol(
        token=body.token,
        study_id=bytes.fromhex(body.study_id),
        public_key=bytes.fromhex(body.public_key),
        labels=body.labels,
        proof=bytes.fromhex(body.proof),
        replaces=bytes.fromhex(body.replaces) if body.replaces else None,
    )
    response.status_code = 201 if is_new else 200
    return make_body(EnrolmentBody, device)


@router.get("/devices/me", responses=describe_problems(*BY_DEVICE))
async def get_own_device(signed: Signed, services: ServicesDep) -> DeviceStatusBody:
    """Describe the streams of the device that signs the request (RFC 9421).

    After a backup of the server was restored, `missing` names the sketches to send again.
    """
    status = await services.devices.describe(signed)
    return make_body(
        DeviceStatusBody,
        status.device,
        streams=[_to_stream(record) for record in status.streams],
        server_time=status.server_time,
        generation=status.generation.hex(),
    )


@router.put("/devices/me/heartbeat", responses=describe_problems(*BY_DEVICE, *WITH_BODY))
async def put_heartbeat(
    device: Device, body: HeartbeatRequest, services: ServicesDep
) -> MomentBody:
    """Replace the heartbeat of the device that signs the request.

    Refusals of the plan by the device's owner are counted by rule in the study's refusals.
    """
    now, generation = await services.devices.note_heartbeat(
        device,
        asdict(body),
        studies=[bytes.fromhex(refusal.study) for refusal in body.plan_refusals],
    )
    return MomentBody(server_time=now, generation=generation.hex())


@router.post(
    "/devices/me/keys",
    status_code=201,
    responses=describe_problems(*BY_DEVICE, *WITH_BODY, "signature-invalid", "store-conflict")
    | {200: {"model": RotationBody}},
)
async def change_key(
    signed: Signed, body: RotationRequest, services: ServicesDep, response: Response
) -> RotationBody:
    """Replace the key of the device that signs the request with its present key.

    The device's identity stays. The retired key still verifies the sketches up to `last_sequences`
    and none after; the same request again, signed by it, is answered with 200.
    """
    device, is_new = await services.devices.change_key(
        signed,
        public_key=bytes.fromhex(body.public_key),
        last_sequences=body.last_sequences,
        proof=bytes.fromhex(body.proof),
    )
    response.status_code = 201 if is_new else 200
    return make_body(RotationBody, device, key_id=key_id_of(device.public_key).hex())


@router.post(
    "/devices/{device}/exclude", tags=["operators"], dependencies=OPERATOR, responses=_CHANGING
)
async def exclude_device(
    device: DeviceId, body: ExclusionRequest, services: ServicesDep, operator: Operator
) -> ExclusionBody:
    """Take the sketches of a device out of every sum, exactly, and refuse its later ones.

    No snapshot that is made after the answer has any of them. The same request again answers the
    same with the first reason. Snapshots made before stay as they are and name the device. Sketches
    whose payloads were dropped by retention cannot be taken out: `n_kept` counts them.
    """
    excluded, counts = await services.roster.exclude(
        bytes.fromhex(device), reason=body.reason, actor=operator.key_id
    )
    return make_body(ExclusionBody, excluded, **vars(counts))


@router.post(
    "/devices/{device}/revoke", tags=["operators"], dependencies=OPERATOR, responses=_CHANGING
)
async def revoke_device(
    device: DeviceId, body: RevocationRequest, services: ServicesDep, operator: Operator
) -> DeviceDetailsBody:
    """Revoke a device, or one key that it has replaced, at once and for good.

    No later message that it signs is taken. Stored sketches stay in every sum; `exclude` takes them
    out.
    """
    found = await services.roster.revoke(
        bytes.fromhex(device),
        key_id=bytes.fromhex(body.key_id) if body.key_id else None,
        reason=body.reason,
        actor=operator.key_id,
    )
    return _to_details(found)


@router.get("/devices/{device}", dependencies=ANALYST, responses=_OF_DEVICE)
async def get_device(device: DeviceId, services: ServicesDep) -> DeviceDetailsBody:
    """Show a device with its keys."""
    return _to_details(await services.roster.get(bytes.fromhex(device)))


@router.get(
    "/devices", dependencies=ANALYST, responses=describe_problems(*WITH_KEY, "request-invalid")
)
async def list_all_devices(services: ServicesDep, page: Page) -> Paged[DeviceBody]:
    """List the devices of all studies in the order of enrolment."""
    return await _list_page(services, None, page)


@router.get(
    "/studies/{study}/devices",
    dependencies=ANALYST,
    responses=_OF_DEVICE | {200: describe_links(TO_DEVICE, item="/items/0")},
)
async def list_devices(study: StudyId, services: ServicesDep, page: Page) -> Paged[DeviceBody]:
    """List the devices of a study in the order of enrolment."""
    return await _list_page(services, bytes.fromhex(study), page)


async def _list_page(
    services: Services, study_id: bytes | None, page: PageRequest
) -> Paged[DeviceBody]:
    found = await services.roster.list_page(study_id, after=page.after, limit=page.n_wanted)
    return page.make(found, show=_to_body, key=lambda s: (s.device.enrolled, s.device.device_id))


def _to_body(summary: DeviceSummary) -> DeviceBody:
    device = summary.device
    return make_body(
        DeviceBody,
        device,
        state=_state_of(device),
        may_repeat=[each.hex() for each in summary.may_repeat],
        streams=[_to_stream(record) for record in summary.streams],
        heartbeat=_heartbeat_of(device),
    )


def _to_stream(record: StreamRecord) -> StreamBody:
    missing = [RangeBody(first=first, last=last) for first, last in record.missing]
    return make_body(StreamBody, record, missing=missing)


def _to_details(found: DeviceDetails) -> DeviceDetailsBody:
    members = vars(_to_body(found)) | {"keys": _keys_of(found)}
    return make_body(DeviceDetailsBody, found.device, **members)


def _keys_of(found: DeviceDetails) -> list[DeviceKeyBody]:
    device = found.device
    present = make_body(
        DeviceKeyBody,
        device,
        key_id=key_id_of(device.public_key).hex(),
        state="present" if device.revoked is None else "revoked",
        retired=None,
        last_sequences=None,
    )
    replaced = [
        make_body(
            DeviceKeyBody,
            key,
            state="retired" if (device.revoked or key.revoked) is None else "revoked",
        )
        for key in reversed(found.retired_keys)
    ]
    return [present, *replaced]


def _state_of(device: DeviceRecord) -> Literal["enrolled", "revoked", "excluded"]:
    if device.excluded is not None:
        return "excluded"
    return "enrolled" if device.revoked is None else "revoked"


def _heartbeat_of(device: DeviceRecord) -> HeartbeatBody | None:
    if device.heartbeat is None or device.heartbeat_at is None:
        return None
    received = to_rfc3339(device.heartbeat_at)
    return structure(HeartbeatBody, {**device.heartbeat, "received": received}, strict=False)
