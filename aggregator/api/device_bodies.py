"""From stored devices to what the interface shows of them."""

from __future__ import annotations

from typing import Any

from aggregator.api.device_schemas import DeviceDetailsBody, RangeBody, StreamBody
from aggregator.api.schemas import maybe_rfc3339, to_rfc3339
from aggregator.records import DeviceRecord, StreamRecord
from aggregator.services.device_keys import key_id_of
from aggregator.services.roster import DeviceDetails, DeviceSummary


def to_map(summary: DeviceSummary) -> dict[str, Any]:
    """Return a device as it stands in lists."""
    device = summary.device
    return {
        "device_id": device.device_id.hex(),
        "study_id": device.study_id.hex(),
        "state": _state_of(device),
        "labels": dict(device.labels),
        "enrolled": to_rfc3339(device.enrolled),
        "last_seen": maybe_rfc3339(device.last_seen),
        "n_sketches": device.n_sketches,
        "streams": [to_stream(record).model_dump() for record in summary.streams],
        "heartbeat": _heartbeat_of(device),
    }


def to_stream(record: StreamRecord) -> StreamBody:
    """Return how far a stream has come."""
    return StreamBody(
        stream=record.stream,
        last_sequence=record.last_sequence,
        last_slot=record.last_slot,
        n_missing=record.n_missing,
        missing=[RangeBody(first=first, last=last) for first, last in record.missing],
    )


def to_details(found: DeviceDetails) -> DeviceDetailsBody:
    """Return a device with its keys, the present one first."""
    device = found.device
    more = {
        "excluded": maybe_rfc3339(device.excluded),
        "reason": device.reason,
        "revoked": maybe_rfc3339(device.revoked),
        "keys": _keys_of(found),
    }
    return DeviceDetailsBody.model_validate(to_map(found) | more)


def _keys_of(found: DeviceDetails) -> list[dict[str, Any]]:
    device = found.device
    present = {
        "key_id": key_id_of(device.public_key).hex(),
        "public_key": device.public_key.hex(),
        "state": "present" if device.revoked is None else "revoked",
        "retired": None,
        "last_sequences": None,
    }
    replaced = [
        {
            "key_id": key.key_id.hex(),
            "public_key": key.public_key.hex(),
            "state": "retired" if (device.revoked or key.revoked) is None else "revoked",
            "retired": to_rfc3339(key.retired),
            "last_sequences": dict(key.last_sequences),
        }
        for key in reversed(found.retired_keys)
    ]
    return [present, *replaced]


def _state_of(device: DeviceRecord) -> str:
    if device.excluded is not None:
        return "excluded"
    return "enrolled" if device.revoked is None else "revoked"


def _heartbeat_of(device: DeviceRecord) -> dict[str, Any] | None:
    if device.heartbeat is None or device.heartbeat_at is None:
        return None
    return dict(device.heartbeat) | {"received": to_rfc3339(device.heartbeat_at)}
