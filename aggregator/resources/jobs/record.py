"""Records of jobs, which are decodes and analyses, and of their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from sfumato.aggregator.base.columns import KEY, DecodeId, Name, Reference, StudyId, Word
from sfumato.learning.estimate.search_box import Stated

WORKER_SILENCE_S = 15.0
"""A worker that was silent for so long counts as gone; it shows itself three times as often."""


@dataclass(frozen=True, kw_only=True)
class StoreTotals:
    """Numbers for the metrics; jobs by state, without states that do not occur."""

    n_studies: int
    n_devices: int
    decodes: Mapping[str, int]
    analyses: Mapping[str, int]


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
        Bytes of :func:`sfumato.learning.answers.posterior_bytes.pack_posterior`.
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
        :class:`sfumato.aggregator.resources.snapshots.service.snapshots.Frozen`.
    """

    identity = "analysis_id"

    analysis_id: Annotated[bytes, KEY]
    kind: Word
    version: int
    request: Mapping[str, Any]
    inputs: Sequence[Mapping[str, Any]]


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
