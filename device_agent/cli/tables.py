"""Reports as text for people."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.device_agent.agent.owners_ledger import describe_ledger
from sfumato.device_agent.agent.policy import describe_budget
from sfumato.shared.wire import format_time

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.device_agent.agent.exchange.rotation import RotationReport
    from sfumato.device_agent.agent.maintenance import ExportReport, ForgetReport
    from sfumato.device_agent.agent.once import OnceReport
    from sfumato.device_agent.agent.reading.windows import StreamSummary
    from sfumato.device_agent.agent.report import BudgetReport, StatusReport
    from sfumato.device_agent.relay.run import RelayReport
    from sfumato.shared.privacy import Budget, PrivacyLoss


_GROUP = ("n_records", "window_epsilon", "lifetime_epsilon", "delta", "neighbouring")
_KEY_CHANGE = (
    "note   a change of keys is not finished, so nothing is sent; `sfumato-agent rotate-key`, "
    "`once` and `run` finish it when the server answers"
)


def show_once(report: OnceReport, budget: Budget, *, value_counts: bool) -> str:
    """Write the report of one pass; figures that depend on values only on request."""
    lines = [
        f"stream {stream.name}: {_counts(stream, value_counts)}; "
        f"{stream.released} sketch(es) released"
        for stream in report.streams
    ]
    lines.append(
        f"sent {report.sending.sent} sketch(es) of {report.sending.bytes_sent} bytes; "
        f"{report.outbox.waiting} waiting, {report.outbox.shelved} shelved"
    )
    if report.hides_counts and report.outbox.waiting:
        lines.append(
            "next: the next `once` sends them first; sent now, they would tell the server "
            "how long reading took, and so how many records there are"
        )
    lines.append(
        f"spent {_loss(report.per_record_loss)} for each record ({_limit(budget.per_record)}), "
        f"{_loss(report.lifetime_loss)} for someone in every window ({_limit(budget.lifetime)})"
    )
    lines += [f"note: {message}" for message in report.messages]
    if value_counts:
        lines += [f"note: {message}" for message in report.value_messages]
    return "\n".join(lines)


def _counts(stream: StreamSummary, value_counts: bool) -> str:
    counts = stream.counts
    if counts is None:
        return "how many records there are is secret under this plan"
    if not value_counts:
        return f"{counts.records_read} record(s) read"
    return (
        f"{counts.records_read} record(s) read, {counts.unsketchable} could not be sketched, "
        f"{counts.out_of_bounds} out of bounds"
    )


def show_relay(report: RelayReport) -> str:
    """Write the state of a relay's queue."""
    counts = report.counts
    since = "" if counts.oldest is None else f", the oldest since {format_time(counts.oldest)}"
    lines = [
        f"{counts.waiting} message(s) of {counts.waiting_bytes} bytes wait{since}; "
        f"the limit is {report.most_bytes} bytes",
        f"{counts.stored} message(s) were stored by the server",
    ]
    lines += [f"{n} refused: {problem}" for problem, n in counts.refused.items()]
    lines += [f"{n} to be sent again: {problem}" for problem, n in counts.held.items()]
    return "\n".join(lines)


def show_status(report: StatusReport) -> str:
    """Write the state of streams and outbox."""
    document = report.to_json(value_counts=False)
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
            *([f"name   {document['name']}"] if document["name"] else []),
            f"study  {document['study_id']} at {document['server']}",
            f"sends  {document['releases']}",
            *_describe_phase(document["phase"]),
            *([] if report.notice.may_release else [f"note   {report.notice.describe()}"]),
            *(
                f"note   stream {name} has not joined, or was set otherwise since: "
                "`sfumato-agent init` looks at its records and lets it join"
                for name in report.unjoined
            ),
            *([_KEY_CHANGE] if document["key_change_open"] else []),
            *_describe_published(report),
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


def _describe_phase(phase: dict[str, Any] | None) -> list[str]:
    if phase is None:
        return []
    lines = [f"phase  {phase['number']} of {phase['of']} of a campaign: {phase['name']}"]
    if phase["next_study"]:
        lines.append("note   the next phase is published: it is joined once this one is read")
    elif not phase["takes_part"]:
        lines.append("note   this device takes no part in this phase, and reads nothing for it")
    return lines


def _describe_published(report: StatusReport) -> list[str]:
    found = report.published
    if found is None:
        return []
    if isinstance(found, Exception):
        return [f"note   the published result is not used: {found}"]
    return [f"result {found.describe(now=time.time())}"]


def show_budget(report: BudgetReport) -> str:
    """Write the ledger and its losses."""
    document = report.to_json()
    header = ["released", "stream", "sketch", "epsilon", "delta", "under", "by"]
    header += ["noise by"] if report.summed else []
    studies = {stream.study for stream in report.streams}
    streams = [
        (
            stream.stream if len(studies) == 1 else f"{stream.stream} of {stream.study.hex()[:16]}",
            stream.n_releases,
            f"{_loss(stream.per_record_loss)} ({_limit(stream.per_record_limit)})",
            f"{_loss(stream.lifetime_loss)} ({_limit(stream.lifetime_limit)})",
        )
        for stream in report.streams
    ]
    explained = [
        f"stream {stream.stream}: {stream.explanation}"
        for stream in report.streams
        if stream.explanation
    ]
    people = [
        (stream["stream"], *(group[key] for key in _GROUP))
        for stream in document["streams"]
        for group in stream["people"]
    ]
    events = [
        (
            event["released"],
            event["stream"],
            _sequences(event["sequence"], event["count"]),
            event["epsilon"],
            event["delta"],
            event["neighbouring"],
            "another copy of this state" if event["by_a_copy"] else "",
            *([_noise_by(event)] if report.summed else []),
        )
        for event in document["events"]
    ]
    return "\n".join(
        [
            *_table(("stream", "releases", "each record", "someone in every window"), streams),
            *(f"note: {text}" for text in explained),
            "",
            describe_budget(report.limits),
            *describe_ledger(report.ledger, report.counted),
            "",
            *_table(
                (
                    "stream",
                    "records of one person in a window",
                    "epsilon, one window",
                    "epsilon, in each window",
                    "at delta",
                    "under",
                ),
                people,
            ),
            "",
            *_table(header, events),
            *(text for each in document["secure_sums"] for text in ("", each["statement"])),
        ]
    )


def _noise_by(event: Mapping[str, object]) -> str:
    if event["release"] is None:
        return ""
    helper = event["helper"]
    return "this device" if helper is None else f"the server and {helper}"


def show_rotation(report: RotationReport) -> str:
    """Write the device's key, and the owner's next step."""
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


def describe_export(report: ExportReport, path: Path) -> str:
    """Describe the file that was written, and the state of its sketch in the outbox."""
    sketch = report.sketch
    stands = {
        "waiting": "the sketch still waits in the outbox; a server takes it in once, whichever way "
        "it comes",
        "sent": f"the sketch was sent at {format_time(sketch.sent_at or 0.0)}, and the server has "
        "it",
        "shelved": f"the sketch was set aside ({sketch.problem}), and is not sent from here",
    }
    return f"wrote {report.n_bytes} bytes to {path}; {stands[sketch.state]}"


def describe_forgetting(report: ForgetReport, *, is_ledger_kept: bool) -> str:
    """Describe what was erased, what is kept, and what to do next."""
    if report.n_unsent is None:
        return (
            "forgotten, with a ledger that could not be read: how many sketches were never sent, "
            "and what was spent, is not known"
        )
    entries = f"the ledger's {report.n_entries} release(s)"
    kept = "are kept, and how far sources were read" if is_ledger_kept else "are erased here too"
    lines = [
        f"forgotten: key, open windows and sketches are erased; {report.n_unsent} of these were "
        f"never sent; {entries} {kept}. The owner's ledger, in a file of its own, counts them on"
    ]
    if report.device is not None:
        lines.append(
            "the server still knows the device; if nobody else may use its key, ask the study's "
            f"operator: `sfumato device revoke {report.device} --reason forgotten`"
        )
    return "\n".join(lines)


def _limit(limit: Fraction | None) -> str:
    return "no limit" if limit is None else f"limit {limit}"


def _number(n_records: int | None) -> str:
    return "secret" if n_records is None else str(n_records)


def _slots(slots: Sequence[int] | None) -> str:
    if slots is None:
        return "-"
    first, last = slots
    return str(first) if first == last else f"{first}..{last}"


def _sequences(last: int, count: int) -> str:
    return str(last) if count == 1 else f"{last - count + 1}..{last}"


def _table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    if not rows:
        return []
    cells = [list(header), *([str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


def _loss(loss: PrivacyLoss) -> str:
    level = f"epsilon {loss.epsilon}"
    if loss.delta:
        level += f" and delta {float(loss.delta):.3g}"
    return level if loss.neighbouring is None else f"{level} under {loss.neighbouring}"
