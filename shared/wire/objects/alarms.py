"""JSON bodies about schedules, and about alarms that are sent to webhooks."""

from __future__ import annotations

from typing import Annotated, Literal

from sfumato.shared.structure import Rule, member
from sfumato.shared.wire.objects.analyses import Reference
from sfumato.shared.wire.objects.declaration import (
    SAMPLE_ID,
    SAMPLE_TIME,
    Hex,
    Labels,
    SmallText,
    Switch,
    Time,
    body,
    request,
)
from sfumato.shared.wire.problems import Problem

_LEAST_S, _MOST_S = 60.0, 10 * 366 * 86_400.0
Period = Annotated[
    float,
    Rule(lambda seconds: _LEAST_S <= seconds <= _MOST_S, "must be from 60 seconds to 10 years"),
]
ScheduleKind = Literal["decode", "timeline"]


@request
class ScheduleRequest:
    """A decode or a timeline to be started again and again."""

    kind: ScheduleKind = member("What is started.", "decode", default="decode")
    n_clusters: Annotated[int, Rule(lt=1 << 63)] = member("Number of clusters.", 5)
    every_s: Period = member("Seconds from one start to the next.", 86400.0)
    last_s: Period | None = member(
        "Only records of so many seconds before the start count; null for all.",
        2592000.0,
        default=None,
    )
    labels: Labels = member(
        "Labels that a device must have.", {"site": "north"}, default_factory=dict
    )
    seed: Annotated[int, Rule(ge=0, lt=1 << 63)] = member("Seed of the fit.", 0, default=0)
    decoder: SmallText | None = member(
        "The decoder; null for the default. Decodes only.", None, default=None
    )
    settings: dict[SmallText, bool | int | float | str] = member(
        "Settings of the decoder. Decodes only.", {}, default_factory=dict
    )
    publish: Switch = member(
        "Whether each new result is signed for the study's devices, unless its verdict is not to "
        "use it. Decodes only.",
        True,
        default=False,
    )
    slots_per_window: Annotated[int, Rule(ge=1, lt=1 << 53)] = member(
        "Slots that make a window. Timelines only.", 1, default=1
    )
    false_alarms_per_year: Annotated[
        float, Rule(lambda rate: 0.0 < rate <= 1e6, "must be above 0")
    ] = member(
        "False alarms to accept in a year without a change. Timelines only.", 1.0, default=1.0
    )
    smallest_shift: (
        Annotated[float, Rule(lambda shift: 0.0 <= shift <= 1e6, "must be 0 or more")] | None
    ) = member(
        "Smallest size of an alarm; null as for a timeline. Timelines only.", None, default=None
    )
    reference: Reference = member(
        "The windows that each window is compared with. Timelines only.",
        "last-accepted",
        default="last-change",
    )


@request
class ScheduleChange:
    """A change of a schedule."""

    state: Literal["active", "paused"] = member("The next state.", "paused")


@body
class ScheduleBody:
    """A schedule with its last result."""

    schedule_id: Hex = member("The schedule's identity.", "81" * 32)
    study_id: Hex = member("The study.", SAMPLE_ID)
    kind: ScheduleKind = member("What is started.", "decode")
    n_clusters: int = member("Number of clusters.", 5)
    labels: dict[str, str] = member("Labels that a device must have.", {})
    every_s: float = member("Seconds from one start to the next.", 86400.0)
    last_s: float | None = member(
        "Only records of so many seconds before the start count; null for all.", None
    )
    publish: bool = member("Whether each new result is signed for the study's devices.", True)
    state: Literal["active", "paused"] = member("`active` or `paused`.", "active")
    created: Time = member("When it was created.", SAMPLE_TIME)
    next_at: Time = member("When it is started next.", SAMPLE_TIME)
    job_id: Hex | None = member("The decode or analysis under way, if one is.", None)
    begun: Time | None = member("When the last one was started.", SAMPLE_TIME)
    ended: Time | None = member("When the last one ended.", SAMPLE_TIME)
    last_job_id: Hex | None = member("The last decode or analysis that ended.", "63" * 32)
    last_verdict: str | None = member("The verdict on the last decode with one.", "sound")
    problem: Problem | None = member("The problem of the last one, if it failed.", None)
    n_runs: int = member("How many have ended.", 12)


@request
class AlarmRequest:
    """A webhook that the alarms of a study are sent to."""

    url: Annotated[str, Rule(min_length=1, max_length=2000)] = member(
        "Its address: https, or http on the server's own machine.", "https://example.org/hook"
    )
    secret: Annotated[str, Rule(min_length=1, max_length=200)] | None = member(
        "The key of the signatures, `whsec_` and base64 of 24 to 64 bytes; null to draw one.",
        None,
        default=None,
    )


@request
class AlarmChange:
    """A change of a webhook."""

    state: Literal["active"] = member("Enable it.", "active")


@body
class AlarmBody:
    """A webhook."""

    alarm_id: Hex = member("The webhook's identity.", "a1" * 32)
    study_id: Hex = member("The study whose alarms it gets.", SAMPLE_ID)
    url: str = member("Its address.", "https://example.org/hook")
    created: Time = member("When it was created.", SAMPLE_TIME)
    state: Literal["active", "disabled"] = member("`active` or `disabled`.", "active")
    n_failures: int = member("Messages in a row that could not be delivered.", 0)
    problem: str | None = member("Why it was disabled.", None)


@body
class NewAlarmBody(AlarmBody):
    """A new webhook with its secret."""

    secret: str = member(
        "The key of the signatures; it is not shown again.",
        "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=",
    )


@body
class DeliveryBody:
    """A message to a webhook."""

    delivery_id: Hex = member("The message's identity; `webhook-id` is `msg_` and this.", "d1" * 32)
    alarm_id: Hex = member("The webhook.", "a1" * 32)
    kind: str = member(
        "`timeline.alarm`, `timeline.change_point`, `timeline.return`, `decode.verdict_fell` or "
        "`alarm.test`.",
        "timeline.alarm",
    )
    finding: str = member(
        "The first sentence of the message.",
        "heating: room temperature 21.0 -> 15.2 degC (error 0.2) since Tuesday 2026-03-03 03:00 "
        "UTC",
    )
    created: Time = member("When its event was found.", SAMPLE_TIME)
    state: Literal["pending", "delivered", "failed"] = member("Its state.", "delivered")
    attempts: int = member("How often it was sent.", 1)
    next_at: Time = member("When a pending one is sent next.", SAMPLE_TIME)
    status: int | None = member("HTTP status of the last attempt; null without an answer.", 204)
    problem: str | None = member("What was wrong at the last attempt.", None)
    ended: Time | None = member("When it was delivered or given up.", SAMPLE_TIME)
