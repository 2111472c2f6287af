"""``sfumato schedule`` and ``sfumato alarm``."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from sfumato.analyst.cli.analyses import Against, SomeShift
from sfumato.analyst.cli.options import (
    UNITS,
    Answer,
    Study,
    command,
    identified,
    list_items,
    read_period,
    show_time,
)
from sfumato.analyst.client import Client
from sfumato.shared.command import SETTINGS
from sfumato.shared.errors import ConfigError
from sfumato.shared.wire.objects.alarms import AlarmBody, DeliveryBody, ScheduleBody

_TEST_S = 40.0
_POLL_S = 0.5

schedule = typer.Typer(help="Start decodes and timelines again and again.", **SETTINGS)
alarm = typer.Typer(help="Send alarms of a study to webhooks.", **SETTINGS)
ScheduleId = Annotated[str, identified("schedule")]
AlarmId = Annotated[str, identified("alarm")]


@command(
    schedule,
    "create",
    "sfumato schedule create STUDY -k 5 --every 1d",
    "sfumato schedule create STUDY -k 5 --every 1d --last 30d --label site=north",
    "sfumato schedule create STUDY -k 5 --every 1d --publish",
    "sfumato schedule create STUDY -k 5 --every 1d --kind timeline --slots-per-window 24",
)
def _create_schedule(
    client: Client,
    study: Study,
    n_clusters: Annotated[int, typer.Option("-k", min=1, help="Number of clusters.")],
    every: Annotated[
        str, typer.Option(metavar="PERIOD", help="From one start to the next, as 90m, 6h, 1d, 2w.")
    ],
    kind: Annotated[
        Literal["decode", "timeline"], typer.Option(help="What is started.")
    ] = "decode",
    last: Annotated[
        str | None,
        typer.Option(metavar="PERIOD", help="Only records of so long before each start count."),
    ] = None,
    labels: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="NAME=VALUE", help="Only devices with this label."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the fit.")] = 0,
    choose: Annotated[
        bool, typer.Option("--choose", help="Decodes: choose the number of clusters, up to k.")
    ] = False,
    publish: Annotated[
        bool,
        typer.Option(
            "--publish",
            help="Decodes: sign each new result for the devices, which then label records locally.",
        ),
    ] = False,
    slots_per_window: Annotated[
        int, typer.Option(min=1, help="Timelines: slots that make a window.")
    ] = 1,
    false_alarms: Annotated[
        float,
        typer.Option(
            "--false-alarms", help="Timelines: false alarms to accept in a year without a change."
        ),
    ] = 1.0,
    smallest_shift: SomeShift = None,
    reference: Against = "last-change",
) -> Answer:
    """Start a decode or a timeline again and again, first at once.

    Starts that were missed, while the server was away or the schedule paused, are made up by one.
    New alarms and change points of a timeline, and a verdict that falls, are sent to the webhooks
    of the study. The first timeline tells what is known: of its alarms only one in its last window
    is sent.
    """
    made = client.create_schedule(
        study,
        n_clusters=n_clusters,
        every_s=read_period(every, "--every"),
        kind=kind,
        last_s=None if last is None else read_period(last, "--last"),
        labels=_read_labels(labels),
        seed=seed,
        settings={"choose": True} if choose else {},
        publish=publish,
        slots_per_window=slots_per_window,
        false_alarms_per_year=false_alarms,
        smallest_shift=smallest_shift,
        reference=reference,
    )
    yield asdict(made)
    yield f"schedule {made.schedule_id}: a {made.kind} every {show_period(made.every_s)}, first now"
    yield f"next: sfumato alarm create {study} --to https://... sends what changes to a webhook"


@command(schedule, "list", "sfumato schedule list STUDY", "sfumato schedule list STUDY --json")
def _list_schedules(client: Client, study: Study) -> Answer:
    """List the schedules of a study with their last results."""
    return list_items(
        client.schedules(study),
        *("kind", "k", "every", "last", "state", "next", "last result"),
        identity="schedule",
        row=_describe_schedule,
    )


@command(schedule, "pause", "sfumato schedule pause SCHEDULE")
def _pause(client: Client, schedule_id: ScheduleId) -> Answer:
    """Pause a schedule."""
    changed = client.pause_schedule(schedule_id)
    yield asdict(changed)
    yield f"schedule {schedule_id} is {changed.state}"


@command(schedule, "resume", "sfumato schedule resume SCHEDULE")
def _resume(client: Client, schedule_id: ScheduleId) -> Answer:
    """Let a paused schedule go on; starts that it missed are made up by one."""
    changed = client.resume_schedule(schedule_id)
    yield asdict(changed)
    yield f"schedule {schedule_id} is {changed.state}"


@command(schedule, "remove", "sfumato schedule remove SCHEDULE")
def _remove_schedule(client: Client, schedule_id: ScheduleId) -> Answer:
    """Remove a schedule; a decode or timeline of it that is under way goes on."""
    yield asdict(client.remove_schedule(schedule_id))
    yield f"schedule {schedule_id} is removed"


@command(
    alarm,
    "create",
    "sfumato alarm create STUDY --to https://hooks.example.org/sfumato",
    "sfumato alarm create STUDY --to https://hooks.example.org/ --secret-file secret.txt",
)
def _create_alarm(
    client: Client,
    study: Study,
    to: Annotated[
        str,
        typer.Option(
            metavar="URL", help="Its address: https, or http on the server's own machine."
        ),
    ],
    secret_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The key of the signatures: whsec_ and base64. Default: the server draws one.",
        ),
    ] = None,
) -> Answer:
    """Send the alarms of a study to a webhook, signed as Standard Webhooks specifies.

    The secret is the output, once. A message is sent at least once and repeated for three days.
    """
    made = client.create_alarm(study, url=to, secret=_read_secret(secret_file))
    yield asdict(made)
    if secret_file is None:
        yield made.secret
    print(
        f"alarm {made.alarm_id}; the secret is not shown again\n"
        f"next: sfumato alarm test {made.alarm_id}",
        file=sys.stderr,
    )


@command(alarm, "list", "sfumato alarm list STUDY")
def _list_alarms(client: Client, study: Study) -> Answer:
    """List the webhooks of a study."""
    return list_items(
        client.alarms(study),
        *("created", "state", "problem", "url"),
        identity="alarm",
        row=lambda each: (
            each.created[:10],
            each.state,
            each.problem or "",
            each.url,
            each.alarm_id,
        ),
    )


@command(alarm, "test", "sfumato alarm test ALARM")
def _test(client: Client, alarm_id: AlarmId) -> Answer:
    """Send a test message, and wait for what comes of its first attempt."""
    queued = client.test_alarm(alarm_id)
    last = _wait_for_attempt(client, queued)
    yield asdict(last)
    if last.state == "delivered":
        yield f"delivered, status {last.status}"
        return
    yield f"not delivered: {last.problem or 'the server has not sent it yet'}"
    if last.state == "pending":
        yield f"it is sent again at {show_time(last.next_at)}: sfumato alarm log {alarm_id}"


@command(alarm, "log", "sfumato alarm log ALARM", "sfumato alarm log ALARM --json")
def _log(client: Client, alarm_id: AlarmId) -> Answer:
    """List the messages to a webhook, newest first."""
    return list_items(
        client.deliveries(alarm_id),
        *("created", "type", "state", "attempts", "status", "problem", "finding"),
        identity="message",
        row=lambda each: (
            show_time(each.created),
            each.kind,
            each.state,
            str(each.attempts),
            str(each.status or ""),
            each.problem or "",
            each.finding,
            f"msg_{each.delivery_id}",
        ),
    )


@command(alarm, "enable", "sfumato alarm enable ALARM")
def _enable(client: Client, alarm_id: AlarmId) -> Answer:
    """Enable a webhook that was disabled; messages that were given up are not sent."""
    changed: AlarmBody = client.enable_alarm(alarm_id)
    yield asdict(changed)
    yield f"alarm {alarm_id} is {changed.state}"


@command(alarm, "remove", "sfumato alarm remove ALARM")
def _remove_alarm(client: Client, alarm_id: AlarmId) -> Answer:
    """Remove a webhook with its messages, sent or not."""
    yield asdict(client.remove_alarm(alarm_id))
    yield f"alarm {alarm_id} is removed"


def show_period(seconds: float) -> str:
    """Write a period in the largest unit that it is a multiple of."""
    for name, size in reversed(UNITS.items()):
        if seconds % size == 0:
            return f"{seconds / size:.0f}{name}"
    return f"{seconds:g} s"


def _describe_schedule(each: ScheduleBody) -> tuple[str, ...]:
    if each.problem is not None:
        result = each.problem.detail
    elif each.n_runs == 0:
        result = "under way" if each.job_id else "none yet"
    else:
        result = each.last_verdict or "done"
    if each.n_runs:
        result = f"{show_time(each.ended)}: {result}"
    return (
        each.kind,
        str(each.n_clusters),
        show_period(each.every_s),
        "all" if each.last_s is None else show_period(each.last_s),
        each.state,
        show_time(each.next_at) if each.state == "active" else "",
        result,
        each.schedule_id,
    )


def _read_labels(pairs: list[str] | None) -> dict[str, str]:
    labels = {}
    for pair in pairs or []:
        name, separator, value = pair.partition("=")
        if not (name and separator and value):
            raise ConfigError("must be NAME=VALUE", field="--label", fix="write site=north")
        labels[name] = value
    return labels


def _read_secret(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path} cannot be read", field="--secret-file", fix="name a readable file"
        ) from error


def _wait_for_attempt(client: Client, queued: DeliveryBody) -> DeliveryBody:
    end = time.monotonic() + _TEST_S
    last = queued
    while time.monotonic() < end:
        for each in client.deliveries(queued.alarm_id):
            if each.delivery_id == queued.delivery_id:
                last = each
                break
        if last.state != "pending" or last.problem is not None:
            return last
        time.sleep(_POLL_S)
    return last
