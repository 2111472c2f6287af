"""``sfumato batch``: batches of masked sums."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from sfumato.analyst.cli.options import (
    Answer,
    Study,
    command,
    identified,
    list_items,
    show_time,
    tabulate,
)
from sfumato.analyst.client import Client
from sfumato.shared.command import SETTINGS
from sfumato.shared.wire.objects.batches import BatchBody, BatchDetailsBody

app = typer.Typer(help="List batches of a secure sum, and decide about one.", **SETTINGS)
Batch = Annotated[str, identified("batch")]
Reason = Annotated[str, typer.Option(help="Kept with the batch and in the audit log.")]


@command(app, "list", "sfumato batch list STUDY", "sfumato batch list STUDY --json")
def _list(client: Client, study: Study) -> Answer:
    """List the batches of a study, newest first."""
    columns = ("slot", "labels", "part", "no.", "reports", "state", "note")
    return list_items(client.batches(study), *columns, identity="batch", row=_describe)


@command(app, "show", "sfumato batch show STUDY BATCH")
def _show(client: Client, study: Study, batch_id: Batch) -> Answer:
    """Show a batch, with what became of its reports and what it waits for."""
    return _show_all(client.batch(study, batch_id))


@command(app, "open", "sfumato batch open STUDY BATCH")
def _open(client: Client, study: Study, batch_id: Batch) -> Answer:
    """Close a batch before its time, so that its total is opened now.

    Later reports of its slot form the next batch, with a noise of its own.
    """
    return _show_all(client.open_batch(study, batch_id))


@command(app, "suspects", "sfumato batch suspects STUDY")
def _suspects(client: Client, study: Study) -> Answer:
    """List the devices that were in a flagged part each time that parts were compared.

    An innocent device leaves the list after a few windows: parts are drawn anew for each.
    """
    found = client.suspects(study)
    yield found
    if not found.n_windows:
        yield "no part was flagged among three or more: nobody is suspected"
        return
    yield (
        f"{found.n_suspects} device(s) were in a flagged part in all of their windows, of "
        f"{found.n_windows}; chance alone leaves {found.n_innocent:.2g}"
    )
    if found.n_innocent > 0.1 * found.n_suspects:
        yield "doubtful: wait for more windows before you act on this"
    for each in found.suspects:
        yield f"{each.device_id}  {each.n_windows} window(s)  {each.name or ''}".rstrip()
    yield "next: sfumato device exclude DEVICE --reason ..."


@command(app, "admit", 'sfumato batch admit STUDY BATCH --reason "winter came late"')
def _admit(client: Client, study: Study, batch_id: Batch, reason: Reason) -> Answer:
    """Count the total of a batch that was flagged or set aside."""
    return _show_all(client.admit_batch(study, batch_id, reason=reason))


@command(app, "set-aside", 'sfumato batch set-aside STUDY BATCH --reason "broken firmware"')
def _set_aside(client: Client, study: Study, batch_id: Batch, reason: Reason) -> Answer:
    """Take the total of a batch out of every sum, exactly."""
    return _show_all(client.set_batch_aside(study, batch_id, reason=reason))


@command(app, "give-up", 'sfumato batch give-up STUDY BATCH --reason "the helper is gone"')
def _give_up(client: Client, study: Study, batch_id: Batch, reason: Reason) -> Answer:
    """Drop the reports of a batch that will not be opened: its helper is gone for good."""
    return _show_all(client.give_batch_up(study, batch_id, reason=reason))


def _describe(batch: BatchBody) -> tuple[str, ...]:
    state = batch.state
    if batch.standing not in (None, "counted"):
        state = batch.standing or state
    return (
        str(batch.slot),
        ", ".join(f"{name}={value}" for name, value in sorted(batch.labels.items())) or "-",
        str(batch.part),
        str(batch.number),
        str(batch.n_reports),
        state,
        _note(batch),
        batch.batch_id,
    )


def _note(batch: BatchBody) -> str:
    if batch.state == "void":
        return batch.reason or ""
    if batch.problem is not None:
        return batch.problem.title
    if batch.flags:
        return " and ".join(batch.flags)
    if batch.state == "open" and batch.n_reports < batch.least_reports:
        return f"needs {batch.least_reports} reports"
    if batch.state == "open":
        return f"closes {_show_closing(batch)}"
    return batch.reason or ""


def _show_closing(batch: BatchBody) -> str:
    return "now: an operator asked for it" if batch.is_asked else show_time(batch.closes)


def _show_all(batch: BatchDetailsBody) -> Iterator[object]:
    yield batch
    # Not in the table, which would cut it at the width of a usual terminal.
    yield f"batch {batch.batch_id}"
    rows = {
        "slot": str(batch.slot),
        "labels": ", ".join(f"{k}={v}" for k, v in sorted(batch.labels.items())) or "none",
        "part, number": f"{batch.part}, {batch.number}",
        "state": batch.state,
        "in the sums": batch.standing or "not yet",
        "reports": f"{batch.n_reports}, at least {batch.least_reports}",
        "records": "secret, or not opened yet" if batch.n_records is None else str(batch.n_records),
        "closes": _show_closing(batch),
        "too late from": show_time(batch.expires),
    }
    if batch.flags:
        rows["flags"] = " and ".join(batch.flags)
    if batch.reason:
        rows["reason"] = batch.reason
    rows |= {f"  {state}": str(count) for state, count in sorted(batch.reports.items())}
    yield tabulate(rows.items())
    if batch.problem is not None and batch.state != "void":
        yield f"waits: {batch.problem.detail}"
