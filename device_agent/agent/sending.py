"""Sending the outbox: what to do with an answer stands in one table that both sides share."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from device_agent.agent.device import Clock, Device
from device_agent.messages import UploadOutcome
from device_agent.store import (
    OutboxSketch,
    count_sketches,
    due_sketches,
    load_message,
    mark_attempt,
    mark_sent,
    mark_shelved,
    suspend_stream,
    transaction,
)
from device_agent.transport import ServerClient
from shared.wire import DeviceAction

_BASE_S = 0.5
_CAP_S = 10.0
LONGEST_HOLD_S = 86400.0
"""A server cannot keep a device silent for longer by one answer."""


@dataclass(kw_only=True)
class SendSummary:
    """How many sketches and bytes the server has stored in this run, and what it refused."""

    sent: int = 0
    bytes_sent: int = 0
    messages: list[str] = field(default_factory=list)


def send_outbox(
    device: Device,
    client: ServerClient,
    *,
    send_for_s: float,
    clock: Clock,
    sleep: Callable[[float], None] = time.sleep,
) -> SendSummary:
    """Send what waits, again and again with full-jitter back-off, for at most ``send_for_s``.

    A refused sketch never keeps the next one waiting.
    """
    summary = SendSummary()
    deadline = time.monotonic() + send_for_s
    attempt = 0
    while True:
        problem = _send_due(device, client, clock, summary)
        if not count_sketches(device.connection).waiting:
            break
        # Full jitter spreads thousands of devices that come back at the same moment.
        delay = random.uniform(0.0, min(_CAP_S, _BASE_S * 2.0**attempt))
        if not due_sketches(device.connection, now=clock() + delay):
            break
        if time.monotonic() + delay > deadline:
            if problem:
                summary.messages.append(problem)
            break
        sleep(delay)
        attempt += 1
    return summary


def _send_due(device: Device, client: ServerClient, clock: Clock, summary: SendSummary) -> str:
    """Send each due sketch once; return the last reason why one still waits."""
    problem = ""
    for sketch in due_sketches(device.connection, now=clock()):
        outcome = client.put_sketch(
            study=device.identity.study,
            sketch_id=sketch.sketch_id,
            message=load_message(device.connection, sketch.sketch_id),
        )
        note_outcome(device, sketch, outcome, now=clock(), summary=summary)
        if outcome.action in (DeviceAction.RETRY, DeviceAction.HOLD):
            problem = outcome.detail
        if not outcome.answered:
            break
    return problem


def note_outcome(
    device: Device,
    sketch: OutboxSketch,
    outcome: UploadOutcome,
    *,
    now: float,
    summary: SendSummary,
    least_hold_s: float = 0.0,
) -> None:
    """Note what became of an upload; one that waits on does so for ``least_hold_s`` or longer."""
    connection = device.connection
    where = f"sketch {sketch.sequence} of stream {sketch.stream}"
    match outcome.action:
        case None:
            mark_sent(connection, sketch.sketch_id, now=now)
            summary.sent += 1
            summary.bytes_sent += sketch.n_bytes
        case DeviceAction.RETRY | DeviceAction.HOLD:
            hold = min(max(outcome.retry_after_s, least_hold_s), LONGEST_HOLD_S)
            mark_attempt(
                connection,
                sketch.sketch_id,
                now=now,
                problem=outcome.problem,
                not_before=now + hold if hold else 0.0,
            )
        case DeviceAction.SHELVE:
            with transaction(connection):
                mark_shelved(connection, sketch.sketch_id, now=now, problem=outcome.problem)
            summary.messages.append(f"{where} was refused and set aside: {outcome.detail}")
        case DeviceAction.SUSPEND:
            with transaction(connection):
                mark_shelved(connection, sketch.sketch_id, now=now, problem=outcome.problem)
                suspend_stream(connection, sketch.stream, outcome.problem)
            summary.messages.append(
                f"{where} was refused and its stream is suspended: {outcome.detail}"
            )
