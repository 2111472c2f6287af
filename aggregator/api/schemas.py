"""JSON bodies of the interface, with an example of each."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    StrictInt,
    StringConstraints,
)

from shared.core.text import PLAIN_TEXT, PLAIN_TEXT_RULE, is_plain

T = TypeVar("T")

_ID = "5f" * 32
_TIME = "2026-03-01T12:00:00.000000Z"

HEX_64 = "^[0-9a-f]{64}$"
HEX_128 = "^[0-9a-f]{128}$"
HEX_16 = "^[0-9a-f]{16}$"
Hex = Annotated[str, StringConstraints(pattern=HEX_64)]
Signature = Annotated[str, StringConstraints(pattern=HEX_128)]


def _require_composed(text: str) -> str:
    if not is_plain(text):
        raise ValueError(PLAIN_TEXT_RULE)
    return text


Composed = AfterValidator(_require_composed)
"""Rule for text that is shown to people, beyond what a pattern can express."""
SmallText = Annotated[
    str, StringConstraints(min_length=1, max_length=200, pattern=PLAIN_TEXT), Composed
]
Labels = dict[SmallText, SmallText]
_BELOW_2_53 = 1 << 53
_FIRST_YEAR, _LAST_YEAR = 1970, 9000
Slot = Annotated[StrictInt, Field(gt=-_BELOW_2_53, lt=_BELOW_2_53)]


def to_rfc3339(seconds: float) -> str:
    """Return a time as RFC 3339 text in UTC, to the microsecond."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")[:-6] + "Z"


def _require_sensible(time: datetime) -> datetime:
    # Years at the ends of the calendar leave it in another time zone.
    if not _FIRST_YEAR <= time.year <= _LAST_YEAR:
        raise ValueError(f"must be in the years {_FIRST_YEAR} to {_LAST_YEAR}")
    return time


Time = Annotated[AwareDatetime, AfterValidator(_require_sensible)]


def maybe_rfc3339(seconds: float | None) -> str | None:
    """Return a time as text; None stays None."""
    return None if seconds is None else to_rfc3339(seconds)


class Request(BaseModel):
    """A body of a request: unknown fields are refused, so that a typing error is noticed."""

    model_config = ConfigDict(extra="forbid")


class Items(BaseModel, Generic[T]):
    """A list."""

    items: list[T]


class Paged(Items[T], Generic[T]):
    """A page of a list."""

    next_page: str | None


class StudyRequest(Request):
    """A study to be created; `allow_same_plan` where a study of another name has the plan."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "example": {"name": "pumps", "plan": {"see": "`sfumato plan new` writes one"}}
        },
    )

    name: SmallText
    plan: dict[str, Any]
    allow_same_plan: bool = False


class StateRequest(Request):
    """A study's next state; closed, it takes what was on its way until ``accept_until``."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"example": {"state": "closed", "accept_until": _TIME}},
    )

    state: Literal["open", "closed"]
    accept_until: Time | None = None


class StudyBody(BaseModel):
    """A study, and when its latest sketch came; the number of records is null where secret."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "study_id": _ID,
                "name": "pumps",
                "plan_digest": "a0" * 32,
                "state": "open",
                "accept_until": None,
                "created": _TIME,
                "n_sketches": 120,
                "n_records": 240000,
                "n_devices": 40,
                "last_arrival": _TIME,
            }
        }
    )

    study_id: str
    name: str
    plan_digest: str
    state: str
    accept_until: str | None
    created: str
    n_sketches: int
    n_records: int | None
    n_devices: int
    last_arrival: str | None


class CreatedBody(StudyBody):
    """A study that was created, and what is to be said against its plan."""

    warnings: list[str]


class NoticeBody(BaseModel):
    """A study as its devices see it: its life cycle, and none of its counts."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "example": {
                "study_id": _ID,
                "name": "pumps",
                "plan_digest": "a0" * 32,
                "state": "closed",
                "accept_until": _TIME,
            }
        },
    )

    study_id: str
    name: str
    plan_digest: str
    state: str
    accept_until: str | None


class WithdrawnBody(BaseModel):
    """A study that is no more; what it held is being removed."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"study_id": _ID, "name": "pumps", "state": "withdrawn"}}
    )

    study_id: str
    name: str
    state: Literal["withdrawn"] = "withdrawn"


class TokenRequest(Request):
    """An enrolment token to be created; ``labels`` are forced on its devices."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"example": {"max_uses": 10, "labels": {"site": "north"}}},
    )

    max_uses: Annotated[StrictInt, Field(ge=1, le=1_000_000)] = 1
    labels: Labels | None = None


_TOKEN: dict[str, Any] = {
    "token_id": "c4" * 32,
    "study_id": _ID,
    "state": "usable",
    "created": _TIME,
    "expires": "2026-03-08T12:00:00.000000Z",
    "max_uses": 10,
    "uses_left": 7,
    "labels": {"site": "north"},
    "revoked": None,
}


class TokenBody(BaseModel):
    """An enrolment token without its secret; ``token_id`` is the SHA-256 of that."""

    model_config = ConfigDict(json_schema_extra={"example": _TOKEN})

    token_id: str
    study_id: str
    state: Literal["usable", "used-up", "expired", "revoked"]
    created: str
    expires: str
    max_uses: int
    uses_left: int
    labels: dict[str, str] | None
    revoked: str | None


class NewTokenBody(TokenBody):
    """A new enrolment token, shown once."""

    model_config = ConfigDict(
        json_schema_extra={"example": _TOKEN | {"uses_left": 10, "token": "sfe_..."}}
    )

    token: str


class EnrolmentRequest(Request):
    """A device that enrols; the proof is a signature over token, study, key and labels."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "example": {
                "token": "sfe_...",
                "study_id": _ID,
                "public_key": "d7" * 32,
                "labels": {"site": "north"},
                "proof": "3c" * 64,
            }
        },
    )

    token: SmallText
    study_id: Hex
    public_key: Hex
    labels: Labels = Field(default_factory=dict)
    proof: Signature


class EnrolmentBody(BaseModel):
    """An enrolled device."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {"device_id": "9b" * 32, "study_id": _ID, "labels": {"site": "north"}}
        }
    )

    device_id: str
    study_id: str
    labels: dict[str, str]


class StoredBody(BaseModel):
    """A sketch is stored."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"sketch_id": "77" * 32, "state": "stored"}}
    )

    sketch_id: str
    state: Literal["stored"] = "stored"


class SketchBody(BaseModel):
    """A stored sketch; the number of records is null where it is secret."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "sketch_id": "77" * 32,
                "device_id": "9b" * 32,
                "stream": "main",
                "sequence": 4,
                "slots": [491, 491],
                "n_records": 2000,
                "payload_digest": "e1" * 32,
                "received": _TIME,
            }
        }
    )

    sketch_id: str
    device_id: str
    stream: str
    sequence: int
    slots: tuple[int, int] | None
    n_records: int | None
    payload_digest: str
    received: str


class KeyRequest(Request):
    """An API key to be created."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"example": {"name": "ana", "scope": "analyst"}}
    )

    name: SmallText
    scope: Literal["operator", "analyst", "enrol"]


_KEY: dict[str, Any] = {
    "key_id": "3f0c9d2be41a7756",
    "name": "ana",
    "scope": "analyst",
    "created": _TIME,
    "last_used": None,
    "revoked": None,
}


class KeyBody(BaseModel):
    """An API key; ``last_used`` is right to the minute."""

    model_config = ConfigDict(json_schema_extra={"example": _KEY})

    key_id: str
    name: str
    scope: str
    created: str
    last_used: str | None
    revoked: str | None


class NewKeyBody(KeyBody):
    """A new API key, shown once."""

    model_config = ConfigDict(
        json_schema_extra={"example": _KEY | {"key": "sfk_3f0c9d2be41a7756_..."}}
    )

    key: str


class AuditBody(BaseModel):
    """An action of an operator; ``actor`` is a key, or `local` for a command on the database."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "time": _TIME,
                "actor": "3f0c9d2be41a7756",
                "action": "study.close",
                "target": _ID,
                "details": {},
            }
        }
    )

    time: str
    actor: str
    action: str
    target: str
    details: dict[str, Any]
