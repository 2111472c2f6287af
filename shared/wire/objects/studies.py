"""JSON bodies about studies, their tokens, sketches and devices, and about keys and the audit."""

from __future__ import annotations

import re
from typing import Annotated, Any, Generic, Literal, TypeVar

from sfumato.shared.structure import Rule, member
from sfumato.shared.wire.objects.declaration import (
    SAMPLE_BOX,
    SAMPLE_ID,
    SAMPLE_TIME,
    Hex,
    Labels,
    SearchBox,
    SmallText,
    Switch,
    Time,
    body,
    request,
)
from sfumato.shared.wire.objects.devices import HeartbeatRequest, StreamBody

T = TypeVar("T")
Code = Annotated[str, Rule(pattern="^[ -~]{1,4096}$")]
"""A code of an OpenID provider: some are signed documents."""
PkceSecret = Annotated[str, Rule(pattern="^[A-Za-z0-9._~-]{43,128}$")]
"""A secret of 32 random bytes or more (RFC 7636)."""


@body
class Items(Generic[T]):
    """A whole list."""

    items: list[T] = member("The elements of the list.")


@body
class Paged(Items[T], Generic[T]):
    """A page of a list."""

    next_page: str | None = member("`page` of the next request; null on the last page.")


@request
class StudyRequest:
    """A study to be created."""

    name: SmallText = member("The study's name.", "pumps")
    plan: dict[str, Any] = member("The plan.", {"see": "`sfumato plan new` writes one"})
    allow_same_plan: Switch = member(
        "Create the study even if a study of another name has the plan.", False, default=False
    )
    search_box: SearchBox | None = member(
        "Where decodes search for clusters: lower and upper bound by dimension, in its unit, "
        "inside the plan's bounds, which hold for dimensions without. No part of the plan.",
        SAMPLE_BOX,
        default=None,
    )


@request
class ChangeRequest:
    """A change of a study; what is null stays."""

    state: Literal["open", "closed"] | None = member("The next state.", "closed", default=None)
    accept_until: Time | None = member(
        "Until when a closed study still takes sketches that are on their way.",
        SAMPLE_TIME,
        default=None,
    )
    search_box: SearchBox | None = member(
        "The search box of later decodes; `{}` for the plan's bounds.", SAMPLE_BOX, default=None
    )


@body
class StudyBody:
    """A study with its counts."""

    study_id: Hex = member("SHA-256 of name and plan digest.", SAMPLE_ID)
    name: str = member("The study's name.", "pumps")
    plan_digest: Hex = member("SHA-256 of the plan.", "a0" * 32)
    state: str = member("`open` or `closed`.", "open")
    accept_until: Time | None = member(
        "When a closed study stops taking sketches that are on their way; null if it is open or "
        "takes none.",
        None,
    )
    created: Time = member("When the study was created.", SAMPLE_TIME)
    next_study: Hex | None = member(
        "The study of the next phase of its campaign, once it is published.", None, default=None
    )
    n_sketches: int = member("Number of stored sketches.", 120)
    n_records: int | None = member("Number of records in them; null if it is secret.", 240000)
    n_devices: int = member("Number of enrolled devices.", 40)
    last_arrival: Time | None = member("When the latest sketch arrived.", SAMPLE_TIME)
    search_box: SearchBox = member(
        "The search box of decodes that state none: lower and upper bound of the dimensions where "
        "it is narrower than the plan's.",
        SAMPLE_BOX,
        default_factory=dict,
    )


@body
class ReferenceBody:
    """The only object that a name or first digits refer to."""

    kind: str = member("What it is.", "study")
    identity: str = member("Its id.", SAMPLE_ID)


@body
class CreatedBody(StudyBody):
    """A study that was created."""

    warnings: list[str] = member("Doubts about the plan, a sentence each.", [])


@body
class WithdrawnBody:
    """A withdrawn study, whose contents are being removed."""

    study_id: Hex = member("The study's identity, which is never used again.", SAMPLE_ID)
    name: str = member("The study's name.", "pumps")
    state: str = member("Always `withdrawn`.", "withdrawn", default="withdrawn")


@request
class TokenRequest:
    """An enrolment token to be created."""

    max_uses: Annotated[int, Rule(ge=1, le=1_000_000)] = member(
        "Most devices that the token enrols.", 10, default=1
    )
    labels: Labels | None = member(
        "Labels that its devices must have; null for any.", {"site": "north"}, default=None
    )
    server: (
        Annotated[
            str,
            Rule(
                lambda text: re.fullmatch(r"https?://[!-~]{1,500}", text) is not None,
                "must be an address of printable ASCII that begins with http:// or https://",
            ),
        ]
        | None
    ) = member(
        "The address at which devices reach this server; the answer then has an enrolment code.",
        None,
        default=None,
    )


@body
class TokenBody:
    """An enrolment token without its secret."""

    token_id: Hex = member("SHA-256 of the secret.", "c4" * 32)
    study_id: Hex = member("The study that it enrols devices in.", SAMPLE_ID)
    state: Literal["usable", "used-up", "expired", "revoked"] = member(
        "Whether the token still enrols devices.", "usable"
    )
    created: Time = member("When the token was created.", SAMPLE_TIME)
    expires: Time = member("When the token expires.", "2026-03-08T12:00:00.000000Z")
    max_uses: int = member("Most devices that the token enrols.", 10)
    uses_left: int = member("Number of devices that the token can still enrol.", 7)
    labels: dict[str, str] | None = member(
        "Labels that its devices must have; null for any.", {"site": "north"}
    )
    revoked: Time | None = member("When the token was revoked.", None)


@body
class QrBody:
    """A QR code (ISO/IEC 18004) as a drawing."""

    size: int = member("Modules of a side, without the quiet zone of four around it.", 49)
    path: str = member(
        "The dark modules as the data of an SVG path, to be stroked with width 1.",
        "M0 0.5h7m2 0h3",
    )


@body
class NewTokenBody(TokenBody):
    """A new enrolment token."""

    token: str = member("The secret, which is shown this once.", "sfe_...")
    code: str | None = member(
        "Address, study and token in one line, as secret as the token; null without an address.",
        "SFUMATO:...",
        default=None,
    )
    qr: QrBody | None = member("The code as a QR code; null without one.", default=None)
    page: str | None = member(
        "Where a browser takes part as a device, with the code after #; null without one.",
        "https://sketches.example.org/try/#SFUMATO:...",
        default=None,
    )


@body
class SketchBody:
    """A stored sketch."""

    sketch_id: Hex = member("The sketch's identity.", "77" * 32)
    device_id: Hex = member("The device that released it.", "9b" * 32)
    stream: str = member("The stream of the device.", "main")
    sequence: int = member("The sequence number in the stream.", 4)
    slots: tuple[int, int] | None = member("First and last slot; null without slots.", [491, 491])
    n_records: int | None = member("Number of records; null if it is secret.", 2000)
    payload_digest: Hex = member("SHA-256 of the payload.", "e1" * 32)
    received: Time = member("When the sketch arrived.", SAMPLE_TIME)


@body
class RefusalBody:
    """Refused sketches of one problem type."""

    problem: str = member("The slug of the problem type.", "signature-invalid")
    count: int = member("Number of refused sketches.", 2)


@body
class PlanRefusalBody:
    """Devices whose owner's rule refuses the plan."""

    rule: str = member("The name of the owner's rule.", "policy.max_epsilon")
    n_devices: int = member("Number of devices whose last heartbeat names the rule.", 1)


@body
class RefusalsBody:
    """Refusals: sketches by the server, and the plan by devices' owners."""

    items: list[RefusalBody] = member("Refused sketches by problem type.")
    plan_refusals: list[PlanRefusalBody] = member("Refusals of the plan by owner's rule.")


@body
class HeartbeatBody(HeartbeatRequest):
    """A device's last report on itself."""

    received: Time = member("When the report arrived, by the server's clock.", SAMPLE_TIME)


@body
class DeviceBody:
    """A device with its streams and last heartbeat."""

    device_id: Hex = member("The device's identity.", "9b" * 32)
    study_id: Hex = member("The study that the device takes part in.", SAMPLE_ID)
    state: Literal["enrolled", "revoked", "excluded"] = member(
        "Whether the device's sketches are taken (`enrolled`), refused (`revoked`), or refused and "
        "taken out of every sum (`excluded`).",
        "enrolled",
    )
    name: str | None = member(
        "The owner's name of the device, as of its last heartbeat; it identifies nothing.", "hall"
    )
    labels: dict[str, str] = member("The device's labels.", {"site": "north"})
    ordinal: int = member(
        "The device's number in the study: 0, 1, 2, ... in the order of enrolment.", 12
    )
    enrolled: Time = member("When the device enrolled.", SAMPLE_TIME)
    last_seen: Time | None = member("When the device last sent anything.", SAMPLE_TIME)
    n_sketches: int = member("Number of its stored sketches.", 3)
    replaces: Hex | None = member("The device whose place this one took.", None, default=None)
    may_repeat: list[Hex] = member(
        "Earlier devices that may have released the same records: their labels are the same, their "
        "slots overlap, and all of that kind had fallen silent before this device enrolled.",
        [],
        default_factory=list,
    )
    streams: list[StreamBody] = member("The device's streams.")
    heartbeat: HeartbeatBody | None = member("The last heartbeat; null if there was none.")


@body
class DeviceKeyBody:
    """A key of a device."""

    key_id: Hex = member("SHA-256 of the key.", "9b" * 32)
    public_key: Hex = member("The Ed25519 key, 32 bytes.", "d7" * 32)
    state: Literal["present", "retired", "revoked"] = member(
        "Whether the key signs now, was replaced, or is not trusted any more.", "present"
    )
    retired: Time | None = member("When the key was replaced.", None)
    last_sequences: dict[str, int] | None = member(
        "The last sequence number that a replaced key verifies, by stream.", None
    )


@body
class DeviceDetailsBody(DeviceBody):
    """A device with its keys."""

    excluded: Time | None = member("When the device was excluded.", None)
    reason: str | None = member("Why the device was excluded or revoked.", None)
    revoked: Time | None = member("When the device was revoked.", None)
    keys: list[DeviceKeyBody] = member("The device's keys, the present one first.")


@request
class ExclusionRequest:
    """An exclusion of a device."""

    reason: SmallText = member("Why the device is excluded.", "sensor was tampered with")


@body
class ExclusionBody:
    """An excluded device, and the fate of its sketches."""

    device_id: Hex = member("The device's identity.", "9b" * 32)
    study_id: Hex = member("The study that the device took part in.", SAMPLE_ID)
    excluded: Time = member("When the device was excluded.", SAMPLE_TIME)
    reason: str = member("The first reason that was given.", "sensor was tampered with")
    later: list[Hex] = member(
        "What the device is called in the later phases of its campaign that it has joined; these "
        "are excluded too, and their sketches counted here.",
        [],
    )
    n_subtracted: int = member("Number of sketches that were taken out of every sum.", 12)
    n_kept: int = member(
        "Number of sketches that stay in the sums, because retention dropped their payloads.", 0
    )


@request
class RevocationRequest:
    """A revocation of a device or of one of its keys."""

    reason: SmallText = member("Why it is revoked.", "gateway was stolen")
    key_id: Hex | None = member(
        "The replaced key to revoke; null for the device.", None, default=None
    )


@request
class KeyRequest:
    """An API key to be created."""

    name: SmallText = member("Whose key it is.", "ana")
    scope: Literal["operator", "analyst", "viewer", "enrol"] = member(
        "What the key allows.", "analyst"
    )
    study_id: Hex | None = member(
        "The only study that the key gives access to; null for all.", None, default=None
    )
    expires: Time | None = member(
        "From when the key is refused, at most ten years from now; null for never.",
        SAMPLE_TIME,
        default=None,
    )


@body
class KeyBody:
    """An API key without its secret."""

    key_id: str = member("The key's public identity.", "3f0c9d2be41a7756")
    name: str = member("Whose key it is.", "ana")
    scope: str = member(
        "What the key allows: `operator`, `analyst`, `viewer` or `enrol`.", "analyst"
    )
    study_id: Hex | None = member(
        "The only study that the key gives access to; null for all.", None
    )
    created: Time = member("When the key was created.", SAMPLE_TIME)
    expires: Time | None = member("From when the key is refused; null for never.", None)
    last_used: Time | None = member("When the key was last used, to the minute.", None)
    revoked: Time | None = member("When the key was revoked.", None)
    subject: str | None = member(
        "Who signed in, as the OpenID provider identifies people; null for a key that was created.",
        None,
    )


@body
class NewKeyBody(KeyBody):
    """A new API key."""

    key: str = member("The secret, which is shown this once.", "sfk_3f0c9d2be41a7756_...")


@body
class SignInBody:
    """How people sign in."""

    address: str | None = member(
        "Address at the OpenID provider, to which `state`, `nonce` and `code_challenge` (S256) are "
        "added; null where this server has no sign-in.",
        "https://login.example.org/authorize?client_id=sfumato&response_type=code",
    )


@request
class SignInRequest:
    """The provider's answer to a sign-in, with the secrets of the page that began it."""

    code: Code = member("The code that came back from the provider.", "5e7ab0...")
    verifier: PkceSecret = member("The secret whose SHA-256 is the `code_challenge`.", "a" * 43)
    nonce: PkceSecret = member("The `nonce` of this sign-in.", "b" * 43)


@body
class AuditBody:
    """An action of an operator."""

    time: Time = member("When it was done.", SAMPLE_TIME)
    actor: str = member(
        "The operator's key; `local` for a command on the database, `sign-in` for a person who "
        "signed in, whom the details name.",
        "3f0c9d2be41a7756",
    )
    actor_name: str | None = member("The name of that key when it acted.", "ana")
    action: str = member("The action's name.", "study.close")
    target: str = member("The identity of what was changed.", SAMPLE_ID)
    details: dict[str, Any] = member("More about the action.", {})
