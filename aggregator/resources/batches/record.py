"""Records of batches of masked sums."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, get_args

from sfumato.aggregator.base.columns import KEY, StudyId
from sfumato.shared.plan import SketchPlan
from sfumato.shared.sharing.batches import BatchKey

BatchState = Literal["open", "closing", "opened", "acknowledged", "void"]
"""``open``: takes reports. ``closing``: takes none, and the helper is asked. ``opened``: the total
is stored, and shown to nobody. ``acknowledged``: the helper has it too; it may be used. ``void``:
it is not opened any more, and ``reason`` says why."""
BATCH_STATES: tuple[BatchState, ...] = get_args(BatchState)
Standing = Literal["counted", "flagged", "set-aside"]
"""Of an acknowledged batch: its total is in the sums, or waits for an operator, or is left out."""
ReportState = Literal[
    "waiting",
    "accepted",
    "opened",
    "void",
    "excluded",
    "refused-used",
    "refused-late",
    "refused-burnt",
    "refused-header",
    "refused-box",
]
"""Of a report: ``waiting`` for its batch to close, ``accepted`` by the helper, ``opened`` within a
total, ``void`` or ``excluded`` unread, or refused by the helper."""
REPORT_STATES: tuple[ReportState, ...] = get_args(ReportState)


FLAGS = ("implausible", "inconsistent")


@dataclass(frozen=True, kw_only=True)
class BatchTotals:
    """Numbers for the metrics, without states and flags that do not occur.

    Parameters
    ----------
    flagged
        Batches that wait for an operator, by flag.
    oldest
        When the first batch closed, or should have, that is closing or opened.
    n_without_helper
        Batches whose last attempt failed because the helper could not be used.
    """

    batches: Mapping[str, int]
    flagged: Mapping[str, int]
    reports: Mapping[str, int]
    oldest: float | None
    n_without_helper: int


@dataclass(frozen=True, kw_only=True)
class BatchRecord:
    """A batch.

    Parameters
    ----------
    batch_id, slot, labels, part, number
        See :class:`sfumato.shared.sharing.batches.BatchKey`.
    closes, expires
        When it closes if it has ``least_reports``, and from when on no report joins it.
    n_reports
        Reports that are, or will be, in its total.
    is_asked
        Whether an operator asked to close it before its time.
    members
        The digest of the reports that the helper is asked for; fixed from then on.
    n_records
        In its total; None where the number is secret.
    answer
        The helper's signed statement, without the body.
    sums
        T, as words of the plan's width.
    devices
        Bit i, the lowest of the first byte first, is set for the i-th device of the study.
    flags
        Reasons for doubt about its total.
    standing, reason
        Its place in the sums; and an operator's reason for it, or why it is void.
    next_at, attempts, problem
        When the helper is asked again, and after how many failures; and the last one.
    """

    batch_id: Annotated[bytes, KEY]
    study_id: StudyId
    slot: int
    labels: Mapping[str, str]
    part: int
    number: int
    created: float
    closes: float
    expires: float
    least_reports: int
    most_reports: int
    state: BatchState = "open"
    n_reports: int = 0
    is_asked: bool = False
    members: bytes | None = None
    n_records: int | None = None
    answer: bytes | None = None
    sums: bytes | None = None
    devices: bytes = b""
    flags: list[str] = field(default_factory=list)
    standing: Standing | None = None
    reason: str | None = None
    opened: float | None = None
    next_at: float = 0.0
    attempts: int = 0
    problem: Mapping[str, Any] | None = None
    lease_token: bytes | None = None
    lease_expires: float | None = None

    @classmethod
    def of(cls, plan: SketchPlan, key: BatchKey, *, study_id: bytes, now: float) -> BatchRecord:
        """Return a new batch of a plan with a secure sum."""
        release = plan.sum_release
        assert release is not None
        _, end = plan.window.slot_bounds(key.slot)
        return cls(
            batch_id=key.batch_id,
            study_id=study_id,
            slot=key.slot,
            labels=dict(key.labels),
            part=key.part,
            number=key.number,
            created=now,
            closes=end + min(release.grace_s * (key.number + 1), find_last_close(release.late_s)),
            expires=end + release.late_s,
            least_reports=release.least_reports,
            most_reports=release.most_reports,
        )

    def key_of(self, plan_digest: bytes) -> BatchKey:
        """Return its key under the study's plan."""
        return BatchKey(
            plan_digest=plan_digest,
            slot=self.slot,
            labels=dict(self.labels),
            part=self.part,
            number=self.number,
        )

    def should_close(self, now: float) -> bool:
        """Return whether it takes no more reports from now on."""
        if self.n_reports >= self.most_reports:
            return True
        is_time = self.closes <= now or self.is_asked
        return is_time and self.n_reports >= self.least_reports


def find_last_close(late_s: int) -> int:
    """Return when a batch closes at the latest, after its slot: a tenth before it is too late.

    At ``late_s`` the helper refuses whatever it has not judged, and a batch that is not full is
    judged when it closes.
    """
    return late_s * 9 // 10
