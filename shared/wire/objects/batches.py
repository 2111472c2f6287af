"""JSON bodies about batches of masked sums."""

from __future__ import annotations

from sfumato.shared.structure import member
from sfumato.shared.wire.objects.declaration import (
    SAMPLE_ID,
    SAMPLE_TIME,
    Hex,
    SmallText,
    Time,
    body,
    request,
)
from sfumato.shared.wire.problems import Problem


@request
class BatchRequest:
    """An operator's decision about a batch."""

    reason: SmallText = member("Why; it stands in the audit log.", "winter came late")


@body
class BatchBody:
    """A batch of masked sums: the reports of one slot, label set and part."""

    batch_id: Hex = member("The batch's identity.", "5b" * 32)
    study_id: Hex = member("Its study.", SAMPLE_ID)
    slot: int = member("The slot of its reports.", 491)
    labels: dict[str, str] = member("The labels of its devices.", {"site": "north"})
    part: int = member("Its part, among those of the plan.", 0)
    number: int = member("0 for the first of slot, labels and part; later reports form others.", 0)
    state: str = member(
        "`open`: takes reports; `closing`: the helper is asked; `opened`: the total is stored; "
        "`acknowledged`: the helper has it too; `void`: it is not opened any more, and `reason` "
        "says why.",
        "acknowledged",
    )
    standing: str | None = member(
        "Of an acknowledged batch: `counted` in the sums; `flagged`, and waits for an operator; "
        "`set-aside`.",
        "counted",
    )
    flags: list[str] = member(
        "Doubts about its total: `implausible`, `inconsistent` with the other parts.", []
    )
    reason: str | None = member(
        "Why an operator admitted it or set it aside, or why it is void.", None
    )
    n_reports: int = member("Reports in its total, or that will be.", 9870)
    least_reports: int = member("Fewer are not opened.", 100)
    n_records: int | None = member("Records in its total; null where secret or not opened.", 9870)
    closes: Time = member("When it closes, if it has enough reports.", SAMPLE_TIME)
    is_asked: bool = member("Whether an operator asked to close it before its time.", False)
    expires: Time = member("When its slot takes no more reports.", SAMPLE_TIME)
    opened: Time | None = member("When its total was stored.", SAMPLE_TIME)
    members: Hex | None = member("Digest of its reports, once they are fixed.", "3c" * 32)
    answer: Hex | None = member("SHA-256 of the helper's signed statement.", "8d" * 32)
    total: Hex | None = member("SHA-256 of the total.", "44" * 32)
    problem: Problem | None = member("Why the last attempt to open it failed.", None)


@body
class BatchDetailsBody(BatchBody):
    """A batch, and what became of its reports."""

    reports: dict[str, int] = member(
        "Numbers of reports by state: `waiting`, `accepted`, `opened`, `void`, `excluded`, and "
        "`refused-used`, `refused-late`, `refused-burnt`, `refused-header` and `refused-box`, by "
        "the helper.",
        {"opened": 9870, "refused-box": 2},
    )


@body
class SuspectBody:
    """A device that was in a flagged part each time that parts were compared."""

    device_id: Hex = member("The device.", "9b" * 32)
    name: str | None = member("Its owner's name of it.", "hall", default=None)
    n_windows: int = member("Number of flagged parts that it was in.", 5)


@body
class SuspectsBody:
    """Devices that were in a flagged part each time that parts were compared."""

    n_windows: int = member("Windows with a flagged part.", 5)
    n_suspects: int = member("Suspects; at most 1000 are listed.", 1)
    n_innocent: float = member(
        "Innocent devices that chance alone leaves among them, in the mean.", 0.01
    )
    suspects: list[SuspectBody] = member("Those of most windows first.")
