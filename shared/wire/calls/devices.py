"""Calls about devices."""

from __future__ import annotations

from sfumato.shared.wire.calls.call import Bare, Call, Pages
from sfumato.shared.wire.objects.devices import (
    DeviceStatusBody,
    EnrolmentBody,
    EnrolmentRequest,
    HeartbeatRequest,
    MomentBody,
    RotationBody,
    RotationRequest,
)
from sfumato.shared.wire.objects.studies import (
    DeviceBody,
    DeviceDetailsBody,
    ExclusionBody,
    ExclusionRequest,
    RevocationRequest,
)


class Devices:
    """Devices: enrolment, their own requests, and requests of operators about them.

    Attributes
    ----------
    enrol
        Enrol a device by token; 200 if the same key with the same labels is enrolled already.
    get_own_device
        Describe the streams of the device that signs the request (RFC 9421).

        After a backup of the server was restored, `missing` names the sketches to send again.
    put_heartbeat
        Replace the heartbeat of the device that signs the request.

        Refusals of the plan by the device's owner are counted by rule in the study's refusals.
    change_key
        Replace the key of the device that signs the request with its present key.

        The device's identity stays. The retired key still verifies the sketches up to
        `last_sequences` and none after; the same request again, signed by it, is answered with 200.
    exclude_device
        Take the sketches of a device out of every sum, exactly, and refuse its later ones.

        No snapshot that is made after the answer has any of them. The same request again answers
        the same with the first reason. Snapshots made before stay as they are and name the device.
        Sketches whose payloads were dropped by retention cannot be taken out: `n_kept` counts them.
    revoke_device
        Revoke a device, or one key that it has replaced, at once and for good.

        No later message that it signs is taken. Stored sketches stay in every sum; `exclude` takes
        them out.
    get_device
        Show a device with its keys.
    list_all_devices
        List the devices of all studies in the order of enrolment.
    list_devices
        List the devices of a study in the order of enrolment.
    """

    enrol = Call(
        "public",
        "POST /v1/enrolments",
        EnrolmentRequest,
        EnrolmentBody,
        status=201,
        may_exist=True,
        leads_to="device",
        problems="access-denied not-found signature-invalid store-conflict study-closed "
        "study-withdrawn",
    )
    get_own_device = Bare("device", "GET /v1/devices/me", DeviceStatusBody)
    put_heartbeat = Call("device", "PUT /v1/devices/me/heartbeat", HeartbeatRequest, MomentBody)
    change_key = Call(
        "device",
        "POST /v1/devices/me/keys",
        RotationRequest,
        RotationBody,
        status=201,
        may_exist=True,
        problems="signature-invalid store-conflict",
    )
    exclude_device = Call(
        "operator", "POST /v1/devices/{device}/exclude", ExclusionRequest, ExclusionBody
    )
    revoke_device = Call(
        "operator", "POST /v1/devices/{device}/revoke", RevocationRequest, DeviceDetailsBody
    )
    get_device = Bare("analyst", "GET /v1/devices/{device}", DeviceDetailsBody)
    list_all_devices = Pages("analyst", "GET /v1/devices", DeviceBody, keeps_to_study=True)
    list_devices = Pages(
        "analyst", "GET /v1/studies/{study}/devices", DeviceBody, leads_to="device"
    )
