"""Records of what an aggregator computes: jobs, their results, schedules and alarms.

As :mod:`sfumato.aggregator.records`, which has what devices and operators bring.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from sfumato.aggregator.columns import KEY, DecodeId, Length, Name, Reference, StudyId, Word
from sfumato.learning.estimate.search_box import Stated

JobState = Literal["queued", "running", "succeeded", "failed", "cancelled"]


@dataclass(frozen=True, kw_only=True)
class JobRecord:
    """A job of a worker, and its lease.

    Parameters
    ----------
    lease_token, lease_expires, attempts
        The token is random and new for each attempt: only its holder may write. After the expiry
        any worker may take the job.
    """

    identity: ClassVar[str]
    """Name of the member that holds the identity."""

    study_id: StudyId
    created: float
    state: JobState = "queued"
    progress: float = 0.0
    started: float | None = None
    finished: float | None = None
    result: Mapping[str, Any] | None = None
    problem: Mapping[str, Any] | None = None
    lease_token: bytes | None = None
    lease_expires: float | None = None
    attempts: int = 0

    @property
    def job_id(self) -> bytes:
        """The identity."""
        job_id: bytes = getattr(self, self.identity)
        return job_id


@dataclass(frozen=True, kw_only=True)
class DecodeRecord(JobRecord):
    """A decode.

    Parameters
    ----------
    decoder, solver, settings
        The decoder's name, the name with its version, and all its settings.
    search_box
        The search box, its own or the study's at its request; empty for the plan's box.
    looks
        Snapshots of the second looks that it takes over, as 64 hexadecimal digits each.
    """

    identity = "decode_id"

    decode_id: Annotated[bytes, KEY]
    snapshot_id: Annotated[bytes, Reference("snapshots.snapshot_id")]
    n_clusters: int
    decoder: Name
    solver: Name
    settings: Mapping[str, Any]
    seed: int
    search_box: Stated = field(default_factory=dict)
    looks: Sequence[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class PosteriorRecord:
    """The densities behind a decode.

    Parameters
    ----------
    n_records
        Number of the records that they are about.
    content
        Bytes of :func:`sfumato.learning.answers.packing.pack_posterior`.
    """

    decode_id: Annotated[DecodeId, KEY]
    study_id: StudyId
    n_records: int
    content: bytes


@dataclass(frozen=True, kw_only=True)
class AnalysisRecord(JobRecord):
    """An analysis: a comparison, a timeline, groups, or the health of devices.

    Parameters
    ----------
    kind, version
        The kind, and the version of its algorithm.
    request
        The request with its defaults.
    inputs
        The selections that it rests on, frozen, see
        :class:`sfumato.aggregator.services.results.snapshots.Frozen`.
    """

    identity = "analysis_id"

    analysis_id: Annotated[bytes, KEY]
    kind: Word
    version: int
    request: Mapping[str, Any]
    inputs: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class ResultKeyRecord:
    """A key that signs published results.

    Parameters
    ----------
    number
        0, 1, 2, ...; the last one signs.
    private_key
        Its 32 bytes of RFC 8032. Every server of the database signs with it.
    endorsement
        The signature by which the key before it names it; None for the first, and where that key
        may be in other hands.
    """

    number: Annotated[int, KEY]
    public_key: bytes
    private_key: bytes
    created: float
    endorsement: bytes | None = None


@dataclass(frozen=True, kw_only=True)
class PublicationRecord:
    """A published result, and its signed document."""

    study_id: Annotated[StudyId, KEY]
    sequence: Annotated[int, KEY]
    decode_id: DecodeId
    name: str
    verdict: Word | None
    created: float
    key_id: bytes
    document: bytes


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
        Of the last job that has ended: when, its identity, the verdict on a decode, and its
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
        Of the last attempt: the HTTP status, and what was wrong.
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
