"""JSON bodies between a device and the server."""

from __future__ import annotations

from typing import Annotated, Any

from sfumato.shared.structure import Rule, member
from sfumato.shared.wire.objects.declaration import (
    SAMPLE_BOX,
    SAMPLE_ID,
    SAMPLE_TIME,
    Hex,
    Labels,
    SearchBox,
    Signature,
    SmallText,
    Time,
    body,
    plain_text,
    request,
)

MOST_DETAIL = 500
Count = Annotated[int, Rule(ge=0, lt=1 << 53)]
"""A whole number that every reader of JSON reads exactly."""
StreamName = Annotated[str, plain_text(max_length=64)]
ShortText = Annotated[str, plain_text(max_length=100)]
DeviceName = Annotated[str, plain_text(max_length=64)]
Generation = Annotated[str, Rule(pattern="^[0-9a-z]{1,64}$")]
# Earlier than the year 10000.
Seconds = Annotated[float, Rule(ge=0, lt=253402300800)]


@request
class ContinuationRequest:
    """The proof of a device that it took part in the phase before."""

    device_id: Hex = member("The device's identity in the study of that phase.", "9b" * 32)
    proof: Signature = member("Its present key's signature over what the new key signs.", "3c" * 64)


@request
class EnrolmentRequest:
    """An enrolment of a device."""

    token: SmallText | None = member(
        "The enrolment token; null for a device that continues a campaign.", "sfe_...", default=None
    )
    study_id: Hex = member("The study to take part in.", SAMPLE_ID)
    public_key: Hex = member("The device's Ed25519 key, 32 bytes.", "d7" * 32)
    labels: Labels = member(
        "Labels by which analysts select sketches.", {"site": "north"}, default_factory=dict
    )
    proof: Signature = member("The key's signature over token, study, key and labels.", "3c" * 64)
    replaces: Hex | None = member(
        "A silent device with the same labels, whose place this one takes. That device is revoked, "
        "and slots that it has sent are not taken again.",
        None,
        default=None,
    )
    continues: ContinuationRequest | None = member(
        "The same device in the phase before of a campaign, in place of a token.",
        None,
        default=None,
    )


@body
class EnrolmentBody:
    """An enrolled device."""

    device_id: Hex = member("SHA-256 of the key that the device enrolled with.", "9b" * 32)
    study_id: Hex = member("The study that the device takes part in.", SAMPLE_ID)
    labels: dict[str, str] = member("The device's labels.", {"site": "north"})


@body
class PlanBody:
    """A study's name, plan and state; its identity is the hash of the name and the digest."""

    name: str = member("The study's name.", "weather")
    plan: dict[str, Any] = member("The plan.", {"format_version": 1})
    plan_digest: Hex = member("SHA-256 of the plan's deterministic CBOR encoding.", "a0" * 32)
    # A device has no use for it, and takes a plan without it: that of an older server, say.
    state: str = member(
        "`open` or `closed`; a closed study takes no devices.", "open", default="open"
    )
    search_box: SearchBox = member(
        "The study's search box: where its records are expected. A device warns its owner where "
        "most of its own lie elsewhere; nothing that it releases depends on it.",
        SAMPLE_BOX,
        default_factory=dict,
    )


@request
class NoticeBody:
    """A study's life cycle, as its devices see it, without its counts."""

    study_id: Hex = member("The study's identity.", SAMPLE_ID)
    name: str = member("The study's name.", "pumps")
    plan_digest: Hex = member("SHA-256 of the plan.", "a0" * 32)
    state: str = member("`open` or `closed`.", "closed")
    accept_until: Time | None = member(
        "When a closed study stops taking sketches that are on their way; null if it is open or "
        "takes none.",
        SAMPLE_TIME,
    )
    next_study: Hex | None = member(
        "The study of the next phase of its campaign, once it is published.", None, default=None
    )


@body
class StoredBody:
    """A sketch that is stored."""

    sketch_id: Hex = member("The sketch's identity.", "77" * 32)
    state: str = member("Always `stored`.", "stored", default="stored")


@body
class RangeBody:
    """A range of sequence numbers."""

    first: Count = member("The first number.", 1)
    last: Count = member("The last number, which is in the range.", 2)


@body
class StreamBody:
    """The progress of a stream, and its sketches that are not stored.

    A device may send in any order, and a sketch that was refused for good stays missing.
    """

    stream: StreamName = member("The stream's name.", "main")
    last_sequence: Count = member("The highest sequence number that is stored.", 4)
    last_slot: int | None = member("The latest slot of its sketches; null without slots.", 491)
    n_missing: int = member("Number of missing sketches below the highest number.", 2)
    missing: list[RangeBody] = member("The lowest 100 ranges of missing numbers, ascending.")


@body
class DeviceStatusBody:
    """The server's knowledge of the device that asks."""

    device_id: Hex = member("The device's identity.", "9b" * 32)
    study_id: Hex = member("The study that the device takes part in.", SAMPLE_ID)
    ordinal: Count = member(
        "The device's number in the study: 0, 1, 2, ... in the order of enrolment. It decides "
        "which features a sketch carries where it carries only some.",
        12,
    )
    streams: list[StreamBody] = member("The device's streams.")
    begins: Count = member(
        "The first slot that the server takes of this device: it may replace another, which has "
        "sent those before.",
        0,
        default=0,
    )
    server_time: Seconds = member("The server's time, in seconds since 1970.", 1772366400.0)
    generation: Generation = member(
        "Identity of the database's present life; it changes when a backup is restored.", "0c" * 16
    )


@request
class PlanRefusalRequest:
    """A refusal of a study's plan by a rule of the device's owner."""

    study: Hex = member("The study whose plan is refused.", SAMPLE_ID)
    rule: Annotated[str, Rule(pattern=r"^[a-z0-9_.\-]{1,100}$")] = member(
        "The name of the owner's rule.", "policy.max_epsilon"
    )
    detail: Annotated[str, plain_text(min_length=0, max_length=MOST_DETAIL)] = member(
        "Why the rule refuses the plan.", "the plan has epsilon 10, and the owner allows 4"
    )


@request
class HeartbeatRequest:
    """A device's report on itself; it says nothing about records."""

    agent: ShortText = member("Version of the agent.", "0.1.0")
    engine: ShortText = member("The engine that computes sketches.", "avx2")
    waiting_sketches: Count = member("Number of sketches that wait to be sent.", 2)
    plan_refusals: Annotated[list[PlanRefusalRequest], Rule(max_length=16)] = member(
        "Plans that the owner's rules refuse.", default_factory=list
    )
    acknowledged: Annotated[dict[StreamName, Count], Rule(max_length=1000)] = member(
        "The last sequence number that the server has acknowledged, by stream.",
        {"main": 41},
        default_factory=dict,
    )
    name: DeviceName | None = member(
        "The owner's name of the device, public to whoever reads the study; null for none.",
        "hall",
        default=None,
    )


@body
class MomentBody:
    """The server's time and the life of its database."""

    server_time: Seconds = member("The server's time, in seconds since 1970.", 1772366400.0)
    generation: Generation = member("Identity of the database's present life.", "0c" * 16)


@request
class RotationRequest:
    """A device's next key; the request is signed with the present one."""

    public_key: Hex = member("The next Ed25519 key, 32 bytes.", "d7" * 32)
    last_sequences: Annotated[dict[StreamName, Count], Rule(max_length=1000)] = member(
        "The last sequence number that the present key has signed, by stream.", {"main": 41}
    )
    proof: Signature = member(
        "The next key's signature over device, key and `last_sequences`.", "3c" * 64
    )


@body
class RotationBody:
    """A device and the key that it signs with from now on."""

    device_id: Hex = member("The device's identity, which does not change.", "9b" * 32)
    key_id: Hex = member("SHA-256 of the key.", "51" * 32)
