"""Reports as text for people."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from device_agent.agent.once import OnceReport
    from device_agent.agent.reading import StreamSummary
    from device_agent.agent.report import BudgetReport, StatusReport
    from device_agent.agent.rotation import RotationReport
    from shared.privacy import Budget, PrivacyLoss


_KEY_CHANGE = (
    "note   a change of keys is not finished, so nothing is sent; `sfumato-agent rotate-key`, "
    "`once` and `run` finish it when the server answers"
)


def show_once(report: OnceReport, budget: Budget) -> str:
    """Write what one run did."""
    lines = [
        f"stream {stream.name}: {_counts(stream)}; {stream.released} sketch(es) released"
        for stream in report.streams
    ]
    lines.append(
        f"sent {report.sending.sent} sketch(es) of {report.sending.bytes_sent} bytes; "
        f"{report.outbox.waiting} waiting, {report.outbox.shelved} shelved"
    )
    lines.append(
        f"spent {_loss(report.per_record_loss)} for each record ({_limit(budget.per_record)}), "
        f"{_loss(report.lifetime_loss)} for someone in every window ({_limit(budget.lifetime)})"
    )
    lines += [f"note: {message}" for message in report.messages]
    return "\n".join(lines)


def _counts(stream: StreamSummary) -> str:
    counts = stream.counts
    if counts is None:
        return "how many records there are is secret under this plan"
    return (
        f"{counts.records_read} record(s) read, {counts.unsketchable} could not be sketched, "
        f"{counts.out_of_bounds} out of bounds"
    )


def show_status(report: StatusReport) -> str:
    """Write how streams and outbox stand."""
    document = report.to_json()
    streams = [
        (
            stream["name"],
            stream["next_sequence"],
            _number(stream["open_window"]["n_records"]),
            _slots(stream["open_window"]["slots"]),
            stream["suspended"] or "",
        )
        for stream in document["streams"]
    ]
    sketches = [
        (
            sketch["state"],
            sketch["stream"],
            sketch["sequence"],
            _slots(sketch["slots"]),
            _number(sketch["n_records"]),
            sketch["released"],
            sketch["attempts"],
            sketch["problem"] or "",
        )
        for sketch in document["sketches"]
    ]
    return "\n".join(
        [
            f"device {document['device_id']}",
            f"study  {document['study_id']} at {document['server']}",
            *([] if report.notice.may_release else [f"note   {report.notice.describe()}"]),
            *([_KEY_CHANGE] if document["key_change_open"] else []),
            "",
            *_table(("stream", "released", "open records", "open slots", "suspended"), streams),
            "",
            f"{report.counts.waiting} waiting, {report.counts.sent} sent, "
            f"{report.counts.shelved} shelved",
            *_table(
                (
                    "state",
                    "stream",
                    "sketch",
                    "slots",
                    "records",
                    "released",
                    "attempts",
                    "problem",
                ),
                sketches,
            ),
        ]
    )


def show_budget(report: BudgetReport) -> str:
    """Write the ledger and what it amounts to."""
    streams = [
        (
            stream.stream,
            stream.n_releases,
            f"{_loss(stream.per_record_loss)} ({_limit(stream.per_record_limit)})",
            f"{_loss(stream.lifetime_loss)} ({_limit(stream.lifetime_limit)})",
        )
        for stream in report.streams
    ]
    events = [
        (event["released"], event["stream"], event["sequence"], event["epsilon"], event["delta"])
        for event in report.to_json()["events"]
    ]
    return "\n".join(
        [
            *_table(("stream", "releases", "each record", "someone in every window"), streams),
            "",
            *_table(("released", "stream", "sketch", "epsilon", "delta"), events),
        ]
    )


def show_rotation(report: RotationReport) -> str:
    """Write which key a device has now, and what its owner does next."""
    device, old = report.device.hex(), report.old_key_id.hex()
    begun = " (the change was begun before)" if report.was_begun else ""
    lines = [
        f"device {device} signs with key {report.key_id.hex()} from now on{begun}",
        f"its identity stays; key {old} signs nothing any more, and {report.n_waiting} sketch(es) "
        "that it has signed wait and are sent as they are",
        "next: start the agent again. If the old key may be in other hands, first send what waits "
        f"with `sfumato-agent once`, then ask the study's operator to revoke it: "
        f"`sfumato device revoke {device} --key-id {old} --reason stolen`",
    ]
    return "\n".join(lines + [f"note: {message}" for message in report.messages])


def _limit(limit: Fraction | None) -> str:
    return "no limit" if limit is None else f"limit {limit}"


def _number(n_records: int | None) -> str:
    return "secret" if n_records is None else str(n_records)


def _slots(slots: Sequence[int] | None) -> str:
    if slots is None:
        return "-"
    first, last = slots
    return str(first) if first == last else f"{first}..{last}"


def _table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Write aligned columns; nothing at all when there are no rows."""
    if not rows:
        return []
    cells = [list(header), *([str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


def _loss(loss: PrivacyLoss) -> str:
    epsilon = f"epsilon {loss.epsilon}"
    return f"{epsilon} and delta {float(loss.delta):.3g}" if loss.delta else epsilon
