"""Records of schedules, alarms and deliveries."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from sfumato.aggregator.base.columns import KEY, Length, Reference, StudyId, Word

ScheduleKind = Literal["decode", "timeline"]
ScheduleState = Literal["active", "paused"]
AlarmState = Literal["active", "disabled"]
DeliveryState = Literal["pending", "delivered", "failed"]


@dataclass(frozen=True, kw_only=True)
class ScheduleRecord:
    """A decode or timeline that is started again and again.

    Parameters
    ----------
    request
        What is asked each time, but for the times.
    every_s, last_s
        Seconds from one start to the next, and seconds before the start from which records count;
        None for all records.
    next_at
        When it is started next.
    job_id, begun
        The job under way, if one is; and when the last one was started.
    ended, last_job_id, last_verdict, problem
        About the last job that has ended: when, its identity, the verdict on a decode, and its
        problem. The verdict stays that of the last one with a result.
    known
        Alarms and change points that were seen before, as slots.
    n_runs
        Jobs that have ended.
    lease_token, lease_expires
        As of jobs.
    """

    schedule_id: Annotated[bytes, KEY]
    study_id: StudyId
    kind: ScheduleKind
    request: Mapping[str, Any]
    every_s: float
    last_s: float | None
    created: float
    next_at: float
    state: ScheduleState = "active"
    job_id: bytes | None = None
    begun: float | None = None
    ended: float | None = None
    last_job_id: bytes | None = None
    last_verdict: Word | None = None
    problem: Mapping[str, Any] | None = None
    known: Mapping[str, Any] = field(default_factory=dict)
    n_runs: int = 0
    lease_token: bytes | None = None
    lease_expires: float | None = None


@dataclass(frozen=True, kw_only=True)
class AlarmRecord:
    """A webhook that the alarms of a study are sent to.

    Parameters
    ----------
    secret
        The key of the signatures.
    n_failures
        Messages in a row that could not be delivered.
    problem
        Why it was disabled.
    """

    alarm_id: Annotated[bytes, KEY]
    study_id: StudyId
    url: str
    secret: bytes
    created: float
    state: AlarmState = "active"
    n_failures: int = 0
    problem: str | None = None


@dataclass(frozen=True, kw_only=True)
class DeliveryRecord:
    """A message to a webhook.

    Parameters
    ----------
    event
        Names the event; an alarm has one message of each.
    kind, body
        The type that the message states, and the whole message.
    next_at, attempts
        When it is sent next, and how often it was.
    status, problem
        Outcome of the last attempt: the HTTP status, and what was wrong.
    """

    delivery_id: Annotated[bytes, KEY]
    alarm_id: Annotated[bytes, Reference("alarms.alarm_id")]
    study_id: StudyId
    event: str
    kind: Annotated[str, Length(32)]
    body: str
    created: float
    next_at: float
    state: DeliveryState = "pending"
    attempts: int = 0
    status: int | None = None
    problem: str | None = None
    ended: float | None = None
    lease_token: bytes | None = None
    lease_expires: float | None = None

    @property
    def finding(self) -> str:
        """The first sentence of the message."""
        return str(json.loads(self.body)["data"]["words"][0])
