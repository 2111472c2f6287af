"""Send what waits to the server, the same bytes each time, until it has answered."""

from __future__ import annotations

import hashlib
import logging
import random
import time
from collections.abc import Callable
from ssl import SSLContext

from sfumato.device_agent.agent.monitoring import report_event
from sfumato.device_agent.relay.answers import Answer, answer_as_server
from sfumato.device_agent.relay.queue import LONGEST_HOLD_S, Queue, Waiting
from sfumato.device_agent.server.http_connection import HttpConnection, NoAnswerError
from sfumato.device_agent.server.messages import UploadOutcome
from sfumato.device_agent.server.transport import read_upload
from sfumato.shared.wire import SKETCH_MEDIA_TYPE, DeviceAction

_BASE_S = 1.0
_CAP_S = 300.0
_IDLE_S = 5.0
_MOST_ANSWER_BYTES = 1 << 16


class Forwarder:
    """Sends one message after the other; none keeps another waiting.

    A message that the server wants later waits by itself. Where the server does not answer, or
    cannot take messages now, everything pauses, longer each time.

    Parameters
    ----------
    on_answer
        Called with a message and the server's last word on it, which is on the disk already.
    """

    def __init__(
        self,
        queue: Queue,
        address: str,
        *,
        clock: Callable[[], float],
        context: SSLContext,
        on_answer: Callable[[Waiting, Answer], None] = lambda waiting, answer: None,
    ) -> None:
        self._queue = queue
        self._clock = clock
        self._on_answer = on_answer
        self._http = HttpConnection(address, clock=clock, context=context)
        self._n_failures = 0
        self._resumes_at = 0.0

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def step(self) -> float:
        """Send the next message that is due; return the seconds until the next step makes sense.

        0 after an answer; otherwise nothing is due, or the server is away.

        Raises
        ------
        StoreError
            The queue cannot be read or written; the message is sent again, and nothing is lost.
        """
        pause = self._resumes_at - time.monotonic()
        if pause > 0:
            return pause
        waiting = self._queue.next_due(self._clock())
        if waiting is None:
            return _IDLE_S
        if hashlib.sha256(waiting.message).digest() != waiting.digest:
            self._queue.drop(waiting.digest)
            report_event(
                logging.ERROR,
                f"a message of device {waiting.device.hex()} was damaged on this disk, and dropped",
            )
            return 0.0
        path = f"/v1/studies/{waiting.study.hex()}/sketches/{waiting.sketch_id.hex()}"
        headers = {"Content-Type": SKETCH_MEDIA_TYPE}
        try:
            response = self._http.send("PUT", path, headers=headers, content=waiting.message)
        except NoAnswerError as error:
            return self._pause(str(error))
        now = self._clock()
        outcome = read_upload(response, sketch_id=waiting.sketch_id, now=now)
        return self._note(waiting, outcome, answer_as_server(response), now=now)

    def _note(
        self, waiting: Waiting, outcome: UploadOutcome, answer: Answer, *, now: float
    ) -> float:
        # What is so long is no answer of an aggregator, and would fill this disk.
        is_odd = len(answer.body) > _MOST_ANSWER_BYTES
        if is_odd or outcome.action in (DeviceAction.RETRY, DeviceAction.HOLD):
            pause = max(outcome.retry_after_s, self._draw_pause(waiting.attempts))
            self._queue.hold(
                waiting.digest,
                problem=outcome.problem or "answer-too-long",
                not_before=now + min(pause, LONGEST_HOLD_S),
            )
            if is_odd or outcome.action is DeviceAction.RETRY:
                return self._pause(outcome.detail, least_s=outcome.retry_after_s)
        else:
            self._queue.settle(waiting.digest, answer, problem=outcome.problem, now=now)
            if outcome.problem:
                report_event(
                    logging.WARNING,
                    f"a message of device {waiting.device.hex()} was refused: {outcome.detail}",
                )
            self._on_answer(waiting, answer)
        self._n_failures = 0
        self._queue.note_server(is_away=False)
        return 0.0

    def _pause(self, why: str, *, least_s: float = 0.0) -> float:
        if self._n_failures == 0:
            report_event(logging.WARNING, f"nothing is forwarded now: {why}")
        pause = max(self._draw_pause(self._n_failures), min(least_s, _CAP_S))
        self._n_failures += 1
        self._queue.note_server(is_away=True)
        self._resumes_at = time.monotonic() + pause
        return pause

    @staticmethod
    def _draw_pause(n_failures: int) -> float:
        # Full jitter: all relays of a server lose it at the same moment.
        return random.uniform(0.1, min(_CAP_S, _BASE_S * 2.0 ** min(n_failures, 30)))
