"""JSON bodies about devices, and about what was refused."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StringConstraints

from aggregator.api.schemas import Composed, Hex, Items, Request, Signature, SmallText
from shared.core.text import PLAIN_TEXT

StreamName = Annotated[
    str, StringConstraints(min_length=1, max_length=64, pattern=PLAIN_TEXT), Composed
]
Sequence = Annotated[StrictInt, Field(ge=0, lt=1 << 53)]
ShortText = Annotated[
    str, StringConstraints(min_length=1, max_length=100, pattern=PLAIN_TEXT), Composed
]

_ID = "5f" * 32
_TIME = "2026-03-01T12:00:00.000000Z"
_STREAM: dict[str, Any] = {
    "stream": "main",
    "last_sequence": 4,
    "last_slot": 491,
    "n_missing": 2,
    "missing": [{"first": 1, "last": 2}],
}
_HEARTBEAT: dict[str, Any] = {
    "agent": "0.1.0",
    "engine": "avx2",
    "waiting_sketches": 2,
    "plan_refusals": [
        {
            "study": _ID,
            "rule": "policy.max_epsilon",
            "detail": "the plan has epsilon 10, and the owner allows 4",
        }
    ],
}


class RangeBody(BaseModel):
    """Sequence numbers from `first` to `last`, both included."""

    first: int
    last: int


class StreamBody(BaseModel):
    """The progress of a stream, and which of its sketches below that are not stored.

    A device may send in any order, and one that was refused for good stays missing. `n_missing`
    counts all; `missing` names the lowest 100 ranges.
    """

    stream: str
    last_sequence: int
    last_slot: int | None
    n_missing: int
    missing: list[RangeBody]


class ExclusionRequest(Request):
    """Why a device is excluded."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"example": {"reason": "sensor was tampered with"}}
    )

    reason: SmallText


class ExclusionBody(BaseModel):
    """An excluded device, and what became of its sketches."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "device_id": "9b" * 32,
                "study_id": _ID,
                "excluded": _TIME,
                "reason": "sensor was tampered with",
                "n_subtracted": 12,
                "n_kept": 0,
            }
        }
    )

    device_id: str
    study_id: str
    excluded: str
    reason: str
    n_subtracted: int
    n_kept: int


class PlanRefusalRequest(Request):
    """Why the owner of a device does not let it take part in a study."""

    study: Hex
    rule: Annotated[str, StringConstraints(pattern=r"^[a-z0-9_.\-]{1,100}$")]
    detail: Annotated[str, StringConstraints(max_length=500, pattern=PLAIN_TEXT), Composed]


class HeartbeatRequest(Request):
    """A device's report on itself."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"example": _HEARTBEAT})

    agent: ShortText
    engine: ShortText
    waiting_sketches: Annotated[StrictInt, Field(ge=0, lt=1 << 53)]
    plan_refusals: Annotated[list[PlanRefusalRequest], Field(max_length=16)] = Field(
        default_factory=list
    )


class HeartbeatBody(BaseModel):
    """A device's last report on itself, and its time by the server's clock."""

    agent: str
    engine: str
    waiting_sketches: int
    plan_refusals: list[PlanRefusalRequest]
    received: str


class MomentBody(BaseModel):
    """The server's time, in seconds since 1970, and which life of its database answers."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"server_time": 1772366400.0, "generation": "0c" * 16}}
    )

    server_time: float
    generation: str


class DeviceStatusBody(BaseModel):
    """The facts that a device learns about itself."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "device_id": "9b" * 32,
                "study_id": _ID,
                "streams": [_STREAM],
                "server_time": 1772366400.0,
                "generation": "0c" * 16,
            }
        }
    )

    device_id: str
    study_id: str
    streams: list[StreamBody]
    server_time: float
    generation: str


_DEVICE: dict[str, Any] = {
    "device_id": "9b" * 32,
    "study_id": _ID,
    "state": "enrolled",
    "labels": {"site": "north"},
    "enrolled": _TIME,
    "last_seen": _TIME,
    "n_sketches": 3,
    "streams": [_STREAM],
    "heartbeat": _HEARTBEAT | {"received": _TIME},
}


class DeviceBody(BaseModel):
    """A device as the analyst sees it; its heartbeat is what it last said of itself."""

    model_config = ConfigDict(json_schema_extra={"example": _DEVICE})

    device_id: str
    study_id: str
    state: Literal["enrolled", "revoked", "excluded"]
    labels: dict[str, str]
    enrolled: str
    last_seen: str | None
    n_sketches: int
    streams: list[StreamBody]
    heartbeat: HeartbeatBody | None


class DeviceKeyBody(BaseModel):
    """A key of a device; one that was replaced verifies up to ``last_sequences``, and no more."""

    key_id: str
    public_key: str
    state: Literal["present", "retired", "revoked"]
    retired: str | None
    last_sequences: dict[str, int] | None


class DeviceDetailsBody(DeviceBody):
    """A device with its keys, the present one first."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": _DEVICE
            | {
                "excluded": None,
                "reason": None,
                "revoked": None,
                "keys": [
                    {
                        "key_id": "9b" * 32,
                        "public_key": "d7" * 32,
                        "state": "present",
                        "retired": None,
                        "last_sequences": None,
                    }
                ],
            }
        }
    )

    excluded: str | None
    reason: str | None
    revoked: str | None
    keys: list[DeviceKeyBody]


class RotationRequest(Request):
    """A device's next key, and how far the present one has signed in each stream.

    The proof is a signature by the next key over device, key and `last_sequences`.
    """

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "example": {
                "public_key": "d7" * 32,
                "last_sequences": {"main": 41},
                "proof": "3c" * 64,
            }
        },
    )

    public_key: Hex
    last_sequences: Annotated[dict[StreamName, Sequence], Field(max_length=1000)]
    proof: Signature


class RotationBody(BaseModel):
    """A device and the key that it signs with from now on."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"device_id": "9b" * 32, "key_id": "51" * 32}}
    )

    device_id: str
    key_id: str


class RevocationRequest(Request):
    """Why a key is revoked; without a key, it is the device."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"example": {"reason": "gateway was stolen", "key_id": None}},
    )

    reason: SmallText
    key_id: Hex | None = None


class RefusalBody(BaseModel):
    """The number of sketches that were refused with one problem."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"problem": "signature-invalid", "count": 2}}
    )

    problem: str
    count: int


class PlanRefusalBody(BaseModel):
    """The number of devices whose last heartbeat says that their owner's rule refuses the plan."""

    rule: str
    n_devices: int


class RefusalsBody(Items[RefusalBody]):
    """Refusals: sketches by the server, and the plan by devices' owners."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "items": [{"problem": "signature-invalid", "count": 2}],
                "plan_refusals": [{"rule": "policy.max_epsilon", "n_devices": 1}],
            }
        }
    )

    plan_refusals: list[PlanRefusalBody]
