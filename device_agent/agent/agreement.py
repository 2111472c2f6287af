"""Agreement with the server: a sketch is offered only after a recent answer.

An answer is believed for some seconds, and for no moment longer than the server answers: where it
was away it may have heard of another copy of this state meanwhile, so it is asked again before
anything is offered to it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from device_agent.agent.clocks import ServerClock, describe_unasked
from device_agent.agent.comparing import note_answer
from device_agent.agent.device import Clock, Device
from device_agent.agent.presenting import make_device_question
from device_agent.agent.study import ServerAnswer, make_question, note_notice
from device_agent.server.messages import DeviceAnswer
from device_agent.server.transport import ServerClient
from device_agent.store import StudyNotice, load_notice
from device_agent.windows import Clocks
from shared.errors import TransportError

AGREED_S = 20.0
"""Seconds that an answer is good for before sketches are offered."""


class Agreement:
    """Recent answer of the server that no other copy of this state was at work, for `once`."""

    def __init__(
        self,
        device: Device,
        client: ServerClient,
        *,
        clock: Clock,
        messages: list[str],
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._device = device
        self._client = client
        self._clock = clock
        self._messages = messages
        self._timer = timer
        self._agreed_at: float | None = None

    def ask(self) -> tuple[Clocks, StudyNotice]:
        """Request the server's time and the study's state too.

        Raises
        ------
        LedgerError
            Another copy was at work; see ``device_agent.agent.comparing``.
        SketchError
            The server refused to answer; the class says why.
        """
        before = load_notice(self._device.connection)
        server_clock = ServerClock(self._device.connection)
        clocks, new = server_clock.read(self._clock()), None
        try:
            answer = make_question(self._device, before)(self._client)
        except TransportError as error:
            self._messages.append(describe_unasked(error))
            server_clock.keep()
        else:
            if isinstance(answer, ServerAnswer):
                self._note(answer.device)
                clocks = server_clock.note(answer.device.server_time, self._clock())
                new = answer.notice
            else:
                new = answer
        notice = note_notice(self._device, new, before)
        if not notice.may_release:
            self._messages.append(notice.describe())
        return clocks, notice

    def renew(self) -> None:
        """Request a new answer if the last is too old to offer a sketch by.

        Raises
        ------
        TransportError
            The server does not answer, so nothing may be offered now.
        LedgerError, SketchError
            As :meth:`ask`.
        """
        if self._agreed_at is None or self._timer() - self._agreed_at > AGREED_S:
            self._note(make_device_question(self._device)(self._client))

    def doubt(self) -> None:
        """Discard the last answer, as a request got none: nothing is offered before the next."""
        self._agreed_at = None

    def _note(self, answer: DeviceAnswer) -> None:
        note_answer(self._device, answer, self._messages, now=self._clock())
        self._agreed_at = self._timer()
