"""What goes over the wire as JSON about devices, and about what was refused."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StringConstraints

from aggregator.api.schemas import Hex, Items, Request, SmallText

ShortText = Annotated[str, StringConstraints(min_length=1, max_length=100)]

_ID = "5f" * 32
_TIME = "2026-03-01T12:00:00.000000Z"
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


class StreamBody(BaseModel):
    """How far a stream has come."""

    stream: str
    last_sequence: int
    last_slot: int | None


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
    detail: Annotated[str, StringConstraints(max_length=500)]


class HeartbeatRequest(Request):
    """What a device says of itself."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"example": _HEARTBEAT})

    agent: ShortText
    engine: ShortText
    waiting_sketches: Annotated[StrictInt, Field(ge=0, lt=1 << 53)]
    plan_refusals: Annotated[list[PlanRefusalRequest], Field(max_length=16)] = Field(
        default_factory=list
    )


class HeartbeatBody(BaseModel):
    """What a device last said of itself, and when by the server's clock."""

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
    """What a device learns about itself."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "device_id": "9b" * 32,
                "study_id": _ID,
                "streams": [{"stream": "main", "last_sequence": 4, "last_slot": 491}],
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


class DeviceBody(BaseModel):
    """A device as the analyst sees it; its heartbeat is what it last said of itself."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "device_id": "9b" * 32,
                "labels": {"site": "north"},
                "last_seen": _TIME,
                "n_sketches": 3,
                "heartbeat": _HEARTBEAT | {"received": _TIME},
            }
        }
    )

    device_id: str
    labels: dict[str, str]
    last_seen: str | None
    n_sketches: int
    heartbeat: HeartbeatBody | None


class RefusalBody(BaseModel):
    """How often sketches were refused with one problem."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"problem": "signature-invalid", "count": 2}}
    )

    problem: str
    count: int


class PlanRefusalBody(BaseModel):
    """How many devices say in their last heartbeat that their owner's rule refuses the plan."""

    rule: str
    n_devices: int


class RefusalsBody(Items[RefusalBody]):
    """What was refused: sketches by the server, and the plan by devices' owners."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "items": [{"problem": "signature-invalid", "count": 2}],
                "plan_refusals": [{"rule": "policy.max_epsilon", "n_devices": 1}],
            }
        }
    )

    plan_refusals: list[PlanRefusalBody]
