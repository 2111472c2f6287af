"""Sending in the daemon: one sketch after the other, for ever, without waiting for any answer."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from device_agent.agent.device import Clock, Device
from device_agent.agent.log import LOG
from device_agent.agent.network import Network
from device_agent.agent.sending import LONGEST_HOLD_S, SendSummary, note_outcome
from device_agent.server.messages import UploadOutcome
from device_agent.server.transport import ServerClient
from device_agent.store import OutboxSketch, first_due, offer_sketch
from shared.errors import ConfigError, StoreError
from shared.wire import DeviceAction

_BASE_S = 0.5
_CAP_S = 120.0
_SKETCH_CAP_S = 3600.0
_OF_KEY = "signature-invalid"
_DOUBTS = 5
_OF_STUDY = ("study-closed", "study-withdrawn")


def draw_pause(n_failures: int, cap_s: float = _CAP_S) -> float:
    """Draw a pause after some failures in a row, seconds.

    Full jitter spreads thousands of devices that come back at the same moment.
    """
    return random.uniform(0.0, min(cap_s, _BASE_S * 2.0 ** min(n_failures, 30)))


class Sender:
    """Sends what waits, oldest first, and pauses for all of it where the server cannot answer.

    A sketch that got no answer, or one to try again, waits by itself, longer each time, so that it
    never keeps the next one from being sent; then it takes turns with those never tried.

    Parameters
    ----------
    timer
        Monotonic seconds.
    on_suspended
        Called with the name of a stream that an answer has suspended.
    on_study
        Called when an answer says that the study is closed or gone.
    agrees
        Tells whether a sketch may be offered now: the server has just said that no other copy of
        this state was at work.
    on_silence
        Called when a sketch got no answer at all.
    """

    def __init__(
        self,
        device: Device,
        network: Network,
        *,
        clock: Clock,
        timer: Callable[[], float],
        on_suspended: Callable[[str], None],
        on_study: Callable[[], None],
        agrees: Callable[[], bool],
        on_silence: Callable[[], None],
    ) -> None:
        self.device = device
        self.network = network
        self.summary = SendSummary()
        self._clock = clock
        self._timer = timer
        self._on_suspended = on_suspended
        self._on_study = on_study
        self._agrees = agrees
        self._on_silence = on_silence
        self._tried_next = False
        self._n_failures = 0
        self._resumes_at = 0.0

    def hurry(self) -> None:
        """Forget the pause: the server has answered something else."""
        self._n_failures, self._resumes_at = 0, 0.0

    def step(self) -> None:
        """Hand the next sketch to the network, if there is one and it is time."""
        if self.network.is_busy or self._timer() < self._resumes_at:
            return
        now = self._clock()
        sketch = first_due(
            self.device.connection,
            now=now,
            longest_hold_s=LONGEST_HOLD_S,
            tried=self._tried_next,
        )
        if sketch is None or not self._agrees():
            return
        study, sketch_id = self.device.identity.study, sketch.sketch_id
        try:
            self.device.shared.require_confirmed()
            message = offer_sketch(self.device.connection, sketch_id, now=now)
        except (StoreError, ConfigError) as error:
            self._wait(error)
            return
        self._tried_next = not self._tried_next

        def put(client: ServerClient) -> UploadOutcome:
            return client.put_sketch(study=study, sketch_id=sketch_id, message=message)

        self.network.submit(put, lambda outcome: self._note(sketch, outcome))

    def _note(self, sketch: OutboxSketch, outcome: UploadOutcome) -> None:
        outcome = self._doubt(sketch, outcome)
        said = len(self.summary.messages)
        if not outcome.answered:
            self._on_silence()
        try:
            note_outcome(
                self.device,
                sketch,
                outcome,
                now=self._clock(),
                summary=self.summary,
                least_hold_s=draw_pause(sketch.attempts, _SKETCH_CAP_S),
            )
        except StoreError as error:
            # It is sent again as it is, and the server knows it already.
            self._wait(error)
            return
        self._pause(outcome)
        for message in self.summary.messages[said:]:
            LOG.warning(message, extra={"stream": sketch.stream})
        self.summary.messages.clear()
        if outcome.action is None:
            LOG.info("sketch %d sent", sketch.sequence, extra={"stream": sketch.stream})
        if outcome.problem in (*_OF_STUDY, _OF_KEY):
            self._on_study()
        if outcome.action is DeviceAction.SUSPEND:
            self._on_suspended(sketch.stream)

    def _doubt(self, sketch: OutboxSketch, outcome: UploadOutcome) -> UploadOutcome:
        """Hold what a server refuses that may just not know our present key: it is asked first."""
        is_of_key = outcome.problem == _OF_KEY and bool(self.device.retired)
        if not is_of_key or sketch.attempts >= _DOUBTS:
            return outcome
        return replace(outcome, action=DeviceAction.HOLD)

    def _wait(self, error: StoreError | ConfigError) -> None:
        """Wait until the state can be written again, as on a full disk."""
        if self._n_failures == 0:
            LOG.error("nothing is sent now: %s", error)
        self._resumes_at = self._timer() + 1.0 + draw_pause(self._n_failures)
        self._n_failures += 1

    def _pause(self, outcome: UploadOutcome) -> None:
        if outcome.action is not DeviceAction.RETRY:
            self._n_failures = 0
            return
        if self._n_failures == 0:
            LOG.warning("the server does not take sketches now: %s", outcome.detail)
        pause = max(draw_pause(self._n_failures), min(outcome.retry_after_s, LONGEST_HOLD_S))
        self._resumes_at = self._timer() + pause
        self._n_failures += 1
