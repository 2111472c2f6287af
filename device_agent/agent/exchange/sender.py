"""Send the outbox: each answer's consequence stands in one table that both sides share."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from sfumato.device_agent.agent.exchange.comparison import COPIED, note_copied
from sfumato.device_agent.agent.exchange.network import Link
from sfumato.device_agent.agent.exchange.polling import Poller, draw_pause
from sfumato.device_agent.server.messages import UploadOutcome
from sfumato.device_agent.server.transport import ServerClient
from sfumato.device_agent.store.database import transaction
from sfumato.device_agent.store.ledger import load_copied
from sfumato.device_agent.store.outbox import (
    OutboxSketch,
    due_sketches,
    first_due,
    mark_attempt,
    mark_sent,
    mark_shelved,
    offer_sketch,
)
from sfumato.device_agent.store.streams import suspend_stream
from sfumato.shared.errors import ConfigError, SketchError, StoreError
from sfumato.shared.wire import DeviceAction

_LONGEST_HOLD_S = 86400.0
"""A server cannot keep a device silent for longer by one answer."""
_ROUND_CAP_S = 10.0
_SKETCH_CAP_S = 3600.0
_OF_KEY = "signature-invalid"
_MOST_HELD = 5
_OF_STUDY = ("study-closed", "study-withdrawn")


@dataclass(kw_only=True)
class SendSummary:
    """Numbers of sketches and bytes that the server has stored.

    ``error`` is what ended all sending: the server refuses this device, another copy of its state
    was at work, or the state cannot be written.
    """

    sent: int = 0
    bytes_sent: int = 0
    error: SketchError | None = None


class Sender:
    """Offers waiting sketches, none of which ever keeps the next one waiting.

    The daemon calls ``step`` for ever. A sketch that got no answer, or one to retry, waits by
    itself, longer each time, and takes turns with those never tried; where the server cannot
    answer, all of them pause. ``once`` calls ``send_for``, whose rounds end.

    Parameters
    ----------
    poller
        Says whether a sketch may be offered now: the server has just said that no other copy of
        this state was at work.
    on_suspended
        Called with the name of a stream that an answer has suspended.
    """

    def __init__(self, link: Link, poller: Poller, *, on_suspended: Callable[[str], None]) -> None:
        self.summary = SendSummary()
        self._link = link
        self._poller = poller
        self._on_suspended = on_suspended
        self._suspended: set[str] = set()
        self._problem = ""
        self._tried_next = False
        self._n_failures = 0
        self._resumes_at = 0.0

    def retry_now(self) -> None:
        """End the pause."""
        self._n_failures, self._resumes_at = 0, 0.0

    def step(self) -> None:
        """Offer the next sketch that is due, if it is time and no answer is outstanding."""
        if self._link.network.is_busy or self._link.timer() < self._resumes_at:
            return
        sketch = first_due(
            self._link.device.connection,
            now=self._link.clock(),
            longest_hold_s=_LONGEST_HOLD_S,
            tried=self._tried_next,
        )
        if sketch is None or not self._poller.agrees():
            return
        try:
            self._offer(sketch)
        except (StoreError, ConfigError) as error:
            self._wait(error)
            return
        self._tried_next = not self._tried_next

    def send_for(self, seconds: float, *, sleep: Callable[[float], None] = time.sleep) -> None:
        """Send what waits in rounds, with full-jitter back-off between them, for some seconds.

        Each round offers each sketch at most once, and the first is made however few seconds there
        are. What ends all sending stands in the summary.
        """
        deadline = self._link.timer() + seconds
        n_rounds = 0
        while True:
            try:
                self._send_round()
            except SketchError as error:
                self.summary.error = error
                return
            pause = draw_pause(n_rounds, _ROUND_CAP_S)
            if not self._list_due(self._link.clock() + pause):
                return
            if self._link.timer() + pause > deadline:
                if self._problem:
                    self._link.report(logging.WARNING, self._problem, "")
                return
            sleep(pause)
            n_rounds += 1

    def _send_round(self) -> None:
        self._problem = ""
        for sketch in self._list_due(self._link.clock()):
            if sketch.stream in self._suspended:
                continue
            if not self._poller.agrees():
                self._problem = str(self._poller.silence or "")
                return
            if not self._poller.may_send:
                return
            self._offer(sketch)

    def _list_due(self, now: float) -> list[OutboxSketch]:
        connection = self._link.device.connection
        return due_sketches(connection, now=now, longest_hold_s=_LONGEST_HOLD_S)

    def _offer(self, sketch: OutboxSketch) -> None:
        device, sketch_id = self._link.device, sketch.sketch_id
        device.shared.require_confirmed()
        message = offer_sketch(device.connection, sketch_id, now=self._link.clock())

        def put(client: ServerClient) -> UploadOutcome:
            return client.put_sketch(
                study=device.identity.study, sketch_id=sketch_id, message=message
            )

        self._link.network.submit(put, lambda outcome: self._note(sketch, outcome))

    def _note(self, sketch: OutboxSketch, outcome: UploadOutcome) -> None:
        if not outcome.answered:
            # Whether the server is away, or this sketch meets a fault on the way, says the next
            # poll.
            self._poller.distrust()
        least_hold_s = 0.0
        if self._link.is_patient:
            outcome = self._hold_by_key(sketch, outcome)
            least_hold_s = draw_pause(sketch.attempts, _SKETCH_CAP_S)
        try:
            self._note_outcome(sketch, outcome, least_hold_s)
        except StoreError as error:
            # It is sent again as it is, and the server knows it already.
            if not self._link.is_patient:
                raise
            self._wait(error)
            return
        if self._link.is_patient:
            self._pause(outcome)
        if outcome.problem in (*_OF_STUDY, _OF_KEY):
            self._poller.poll_soon()

    def _note_outcome(
        self, sketch: OutboxSketch, outcome: UploadOutcome, least_hold_s: float
    ) -> None:
        """Note the result of an upload; a sketch that waits on does so for the least hold."""
        device, now = self._link.device, self._link.clock()
        connection = device.connection
        where = f"sketch {sketch.sequence} of stream {sketch.stream}"
        match outcome.action:
            case None:
                mark_sent(connection, sketch.sketch_id, now=now)
                self.summary.sent += 1
                self.summary.bytes_sent += sketch.n_bytes
                self._link.report(logging.INFO, f"sketch {sketch.sequence} sent", sketch.stream)
            case DeviceAction.RETRY | DeviceAction.HOLD:
                hold = min(max(outcome.retry_after_s, least_hold_s), _LONGEST_HOLD_S)
                mark_attempt(
                    connection,
                    sketch.sketch_id,
                    now=now,
                    problem=outcome.problem,
                    not_before=now + hold if hold else 0.0,
                )
                self._problem = outcome.detail
            case DeviceAction.SHELVE:
                with transaction(connection):
                    mark_shelved(connection, sketch.sketch_id, now=now, problem=outcome.problem)
                self._link.report(
                    logging.WARNING,
                    f"{where} was refused and set aside: {outcome.detail}",
                    sketch.stream,
                )
            case DeviceAction.SUSPEND:
                with transaction(connection):
                    mark_shelved(connection, sketch.sketch_id, now=now, problem=outcome.problem)
                    known = load_copied(connection).get(sketch.stream, ())
                    is_known = any(first <= sketch.sequence <= last for first, last in known)
                    held = [] if is_known else [(sketch.sequence, sketch.sequence)]
                    note_copied(connection, device.plan, sketch.stream, held, now=now)
                    suspend_stream(connection, sketch.stream, outcome.problem)
                self._suspended.add(sketch.stream)
                self._link.report(
                    logging.WARNING,
                    f"{where} was refused and its stream is suspended, with what waits of it set "
                    f"aside ({COPIED}): {outcome.detail}",
                    sketch.stream,
                )
                self._on_suspended(sketch.stream)

    def _hold_by_key(self, sketch: OutboxSketch, outcome: UploadOutcome) -> UploadOutcome:
        """Hold a sketch if the server may not know our present key yet: a poll presents it."""
        is_of_key = outcome.problem == _OF_KEY and bool(self._link.device.retired)
        if not is_of_key or sketch.attempts >= _MOST_HELD:
            return outcome
        return replace(outcome, action=DeviceAction.HOLD)

    def _wait(self, error: SketchError) -> None:
        """Wait until the state can be written again, as on a full disk."""
        if self._n_failures == 0:
            self._link.report(logging.ERROR, f"nothing is sent now: {error}", "")
        self._resumes_at = self._link.timer() + 1.0 + draw_pause(self._n_failures)
        self._n_failures += 1

    def _pause(self, outcome: UploadOutcome) -> None:
        if outcome.action is not DeviceAction.RETRY:
            self._n_failures = 0
            return
        if self._n_failures == 0:
            message = f"the server does not take sketches now: {outcome.detail}"
            self._link.report(logging.WARNING, message, "")
        retry_after_s = min(outcome.retry_after_s, _LONGEST_HOLD_S)
        pause = max(draw_pause(self._n_failures), retry_after_s)
        self._resumes_at = self._link.timer() + pause
        self._n_failures += 1
