"""Sending the outbox: what to do with an answer stands in one table that both sides share."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from device_agent.agent.agreement import Agreement
from device_agent.agent.comparing import COPIED, note_copied
from device_agent.agent.device import Clock, Device
from device_agent.server.messages import UploadOutcome
from device_agent.server.transport import ServerClient
from device_agent.store import (
    OutboxSketch,
    due_sketches,
    load_copied,
    mark_attempt,
    mark_sent,
    mark_shelved,
    offer_sketch,
    suspend_stream,
    transaction,
)
from shared.errors import SketchError, TransportError
from shared.wire import DeviceAction

_BASE_S = 0.5
_CAP_S = 10.0
LONGEST_HOLD_S = 86400.0
"""A server cannot keep a device silent for longer by one answer."""


@dataclass(kw_only=True)
class SendSummary:
    """Numbers of sketches and bytes that the server stored in this run, and its refusals.

    ``error`` is what ended the sending of all: the server refuses this device, another copy of its
    state was at work, or the state cannot be written.
    """

    sent: int = 0
    bytes_sent: int = 0
    messages: list[str] = field(default_factory=list)
    error: SketchError | None = None


def send_outbox(
    device: Device,
    client: ServerClient,
    agreement: Agreement,
    *,
    send_for_s: float,
    clock: Clock,
    sleep: Callable[[float], None] = time.sleep,
) -> SendSummary:
    """Send what waits, again and again with full-jitter back-off, for at most ``send_for_s``.

    A refused sketch never keeps the next one waiting. Nothing is offered before the server has
    said that no other copy of this state was at work.
    """
    summary = SendSummary()
    deadline = time.monotonic() + send_for_s
    attempt = 0
    while True:
        try:
            problem = _send_due(device, client, agreement, clock, summary)
        except SketchError as error:
            summary.error = error
            break
        # Full jitter spreads thousands of devices that come back at the same moment.
        delay = random.uniform(0.0, min(_CAP_S, _BASE_S * 2.0**attempt))
        if not _list_due(device, clock() + delay):
            break
        if time.monotonic() + delay > deadline:
            if problem:
                summary.messages.append(problem)
            break
        sleep(delay)
        attempt += 1
    return summary


def _list_due(device: Device, now: float) -> list[OutboxSketch]:
    return due_sketches(device.connection, now=now, longest_hold_s=LONGEST_HOLD_S)


def _send_due(
    device: Device,
    client: ServerClient,
    agreement: Agreement,
    clock: Clock,
    summary: SendSummary,
) -> str:
    """Send each due sketch once; return the last reason why one still waits."""
    problem, suspended = "", set()
    for sketch in _list_due(device, clock()):
        if sketch.stream in suspended:
            continue
        try:
            agreement.renew()
        except TransportError as error:
            return str(error)
        device.shared.require_confirmed()
        outcome = client.put_sketch(
            study=device.identity.study,
            sketch_id=sketch.sketch_id,
            message=offer_sketch(device.connection, sketch.sketch_id, now=clock()),
        )
        note_outcome(device, sketch, outcome, now=clock(), summary=summary)
        if outcome.action in (DeviceAction.RETRY, DeviceAction.HOLD):
            problem = outcome.detail
        if outcome.action is DeviceAction.SUSPEND:
            suspended.add(sketch.stream)
        if not outcome.answered:
            # Whether the server is away or this sketch meets a fault on the way, the next answer
            # to that question says.
            agreement.doubt()
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
                known = load_copied(connection).get(sketch.stream, ())
                is_known = any(first <= sketch.sequence <= last for first, last in known)
                held = [] if is_known else [(sketch.sequence, sketch.sequence)]
                note_copied(connection, device.plan, sketch.stream, held, now=now)
                suspend_stream(connection, sketch.stream, outcome.problem)
            summary.messages.append(
                f"{where} was refused and its stream is suspended, with what waits of it set "
                f"aside ({COPIED}): {outcome.detail}"
            )
