"""Devices: enrolment, their own requests, and requests of operators about them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Literal

from fastapi import APIRouter

from sfumato.aggregator.api.dependencies import (
    Caller,
    Device,
    DeviceId,
    Page,
    PageRequest,
    ServicesDep,
    Signed,
    StudyId,
)
from sfumato.aggregator.api.serving import serves
from sfumato.aggregator.resources.devices.record import DeviceRecord
from sfumato.aggregator.resources.devices.service.enrolment import Continuation
from sfumato.aggregator.resources.devices.service.keys import key_id_of
from sfumato.aggregator.resources.devices.service.roster import DeviceDetails, DeviceSummary
from sfumato.aggregator.resources.sketches.record import StreamRecord
from sfumato.aggregator.services import Services
from sfumato.shared.structure import structure
from sfumato.shared.wire.calls.devices import Devices
from sfumato.shared.wire.objects.declaration import make_body, to_rfc3339
from sfumato.shared.wire.objects.devices import (
    ContinuationRequest,
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

router = APIRouter(tags=["devices"])


@serves(router, Devices.enrol)
async def enrol(body: EnrolmentRequest, services: ServicesDep) -> tuple[EnrolmentBody, bool]:
    device, is_new = await services.enrolment.enrol(
        token=body.token or "",
        study_id=bytes.fromhex(body.study_id),
        public_key=bytes.fromhex(body.public_key),
        labels=body.labels,
        proof=bytes.fromhex(body.proof),
        replaces=bytes.fromhex(body.replaces) if body.replaces else None,
        continues=None if body.continues is None else _read_continuation(body.continues),
    )
    return make_body(EnrolmentBody, device), is_new


def _read_continuation(body: ContinuationRequest) -> Continuation:
    return Continuation(device_id=bytes.fromhex(body.device_id), proof=bytes.fromhex(body.proof))


@serves(router, Devices.get_own_device)
async def get_own_device(signed: Signed, services: ServicesDep) -> DeviceStatusBody:
    status = await services.devices.describe(signed)
    return make_body(
        DeviceStatusBody,
        status.device,
        streams=[_to_stream(record) for record in status.streams],
        server_time=status.server_time,
        generation=status.generation.hex(),
    )


@serves(router, Devices.put_heartbeat)
async def put_heartbeat(
    device: Device, body: HeartbeatRequest, services: ServicesDep
) -> MomentBody:
    now, generation = await services.devices.note_heartbeat(
        device,
        asdict(body),
        studies=[bytes.fromhex(refusal.study) for refusal in body.plan_refusals],
    )
    return MomentBody(server_time=now, generation=generation.hex())


@serves(router, Devices.change_key)
async def change_key(
    signed: Signed, body: RotationRequest, services: ServicesDep
) -> tuple[RotationBody, bool]:
    device, is_new = await services.devices.change_key(
        signed,
        public_key=bytes.fromhex(body.public_key),
        last_sequences=body.last_sequences,
        proof=bytes.fromhex(body.proof),
    )
    return make_body(RotationBody, device, key_id=key_id_of(device.public_key).hex()), is_new


@serves(router, Devices.exclude_device, tags=["operators"])
async def exclude_device(
    device: DeviceId, body: ExclusionRequest, services: ServicesDep, operator: Caller
) -> ExclusionBody:
    done = await services.roster.exclude(
        device,
        reason=body.reason,
        actor=operator.key_id,
        keeps_to_study=operator.study_id is not None,
    )
    later = [each.hex() for each in done.later]
    return make_body(ExclusionBody, done.device, later=later, **vars(done.sketches))


@serves(router, Devices.revoke_device, tags=["operators"])
async def revoke_device(
    device: DeviceId, body: RevocationRequest, services: ServicesDep, operator: Caller
) -> DeviceDetailsBody:
    found = await services.roster.revoke(
        device,
        key_id=bytes.fromhex(body.key_id) if body.key_id else None,
        reason=body.reason,
        actor=operator.key_id,
        keeps_to_study=operator.study_id is not None,
    )
    return _to_details(found)


@serves(router, Devices.get_device)
async def get_device(device: DeviceId, services: ServicesDep) -> DeviceDetailsBody:
    return _to_details(await services.roster.get(device))


@serves(router, Devices.list_all_devices)
async def list_all_devices(services: ServicesDep, page: Page, key: Caller) -> Paged[DeviceBody]:
    return await _list_page(services, key.study_id, page)


@serves(router, Devices.list_devices)
async def list_devices(study: StudyId, services: ServicesDep, page: Page) -> Paged[DeviceBody]:
    return await _list_page(services, study, page)


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
