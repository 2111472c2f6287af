"""JSON bodies about campaigns."""

from __future__ import annotations

from typing import Annotated, Any

from sfumato.shared.structure import Rule, member
from sfumato.shared.wire.objects.declaration import (
    SAMPLE_ID,
    SAMPLE_TIME,
    Hex,
    Switch,
    Time,
    body,
    request,
)


@request
class CampaignRequest:
    """How a campaign goes on."""

    n_devices: Annotated[int, Rule(ge=1, le=1 << 40)] = member(
        "Expected devices: a phase waits until so many have finished it, or its time to wait is "
        "over.",
        5,
        default=1,
    )
    is_automatic: Switch = member(
        "Whether the server publishes the next phase when one is over, without the operator's yes.",
        True,
        default=True,
    )
    chooses: Switch = member(
        "Whether decodes choose the number of clusters, up to the campaign's most.",
        False,
        default=False,
    )


@request
class NextPhaseRequest:
    """The next phase of a campaign."""

    anyway: Switch = member("Go on from an answer that nobody should use.", False, default=False)


@body
class PhaseBody:
    """A phase of a campaign."""

    number: int = member("0, 1, 2, ...", 1)
    name: str = member("`pilot`, `sketch` or `look`.", "sketch")
    epsilon: str = member("The most that a record loses in it, exact.", "1")
    delta: str = member("The largest delta of its noise, exact.", "0")
    begins: Time = member("The first time that it reads.", SAMPLE_TIME)
    ends: Time = member("The time that it reads up to.", "2026-03-08T12:00:00.000000Z")
    study_id: Hex | None = member("Its study; null before it is published.", SAMPLE_ID)
    n_devices: int = member("Devices of its study.", 5)
    n_finished: int = member("Devices that have sent a sketch of its last window.", 4)
    n_sketches: int = member("Stored sketches.", 12)
    decode_id: Hex | None = member(
        "The decode that the next phase, or the answer, is made from.", None, default=None
    )
    waits: str | None = member(
        "What it waits for; null if nothing is left to do, or it is not published.",
        "its windows are open",
        default=None,
    )
    problem: dict[str, Any] | None = member(
        "Why the next phase was not published, as problem details.", None, default=None
    )


@body
class CampaignBody:
    """A campaign, with all its phases."""

    study_id: Hex = member("The study of its first phase.", SAMPLE_ID)
    name: str = member("The name of that study.", "pumps")
    devices: str = member("`all`: each device takes part in every phase; `drawn`: in one.", "all")
    n_devices: int = member("Expected devices.", 5)
    is_automatic: bool = member("Whether it goes on by itself.", True)
    phases: list[PhaseBody] = member("The phases, in their order.")
    answer: Hex | None = member(
        "The decode of its sketches, with what looks have measured; null before there is one.",
        None,
        default=None,
    )
