"""Poll the server: its time, the study's state, and whether another copy of this state was at work.

A sketch is offered only after a recent answer. An answer is good for some seconds, and no longer
than the server answers: while it was away it may have learnt of another copy of this state.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from sfumato.device_agent.agent.device import Device, make_heartbeat
from sfumato.device_agent.agent.exchange.clocks import ServerClock
from sfumato.device_agent.agent.exchange.comparison import note_answer
from sfumato.device_agent.agent.exchange.earlier_keys import make_device_question
from sfumato.device_agent.agent.exchange.network import Link, catch
from sfumato.device_agent.server.messages import DeviceAnswer
from sfumato.device_agent.server.transport import ServerClient
from sfumato.device_agent.store.outbox import count_sketches, list_acknowledged
from sfumato.device_agent.store.server_state import StudyNotice, load_notice, save_notice
from sfumato.shared.errors import SketchError, StoreError, StudyWithdrawnError, TransportError
from sfumato.shared.wire.objects.devices import HeartbeatRequest

AGREED_S = 20.0
"""Seconds that an answer is good for before sketches are offered."""
_POLL_S = 300.0
_SOON_S, _GROWTH = 5.0, 1.3
"""The first pause where the next phase of a campaign is due, and the growth of those after it."""
_REFUSED_S = 60.0
_SILENT_S = 120.0
_BASE_S = 0.5
_CAP_S = 120.0


@dataclass(frozen=True, kw_only=True)
class ServerAnswer:
    """The server's knowledge of the device, and news of the study; None if there is none."""

    device: DeviceAnswer
    notice: StudyNotice | None


def draw_pause(n_failures: int, cap_s: float = _CAP_S) -> float:
    """Draw a pause after some failures in a row, seconds.

    Full jitter spreads thousands of devices that come back at the same moment.
    """
    return random.uniform(0.0, min(cap_s, _BASE_S * 2.0 ** min(n_failures, 30)))


class Poller:
    """Polls the server, and decides whether windows may be released and sketches offered.

    Before the first answer, or the first failure to get one, nothing is released; nor while the
    server refuses this device, because what is spent then would be spent in vain.
    """

    def __init__(self, link: Link) -> None:
        self.server_clock = ServerClock(link.device.connection)
        self.answered_at: float | None = None
        """The device's time of the last answer."""
        self.notice = load_notice(link.device.connection)
        """The last known state of the study."""
        self.silence: TransportError | None = None
        """The reason why the last request got no answer."""
        self._link = link
        self._reported_state = "open"
        self._is_accepted = False
        self._polls_at = 0.0
        self._n_failures = self._n_awaited = 0
        self._problem: str | None = None
        self._agreed_at: float | None = None

    @property
    def may_release(self) -> bool:
        """True if windows may be released: the server takes this device, and the study is open."""
        return self._is_accepted and self.notice.may_release

    @property
    def may_send(self) -> bool:
        """True if the server would take a sketch; one sent to a closed study would be lost."""
        clocks = self.server_clock.read(self._link.clock())
        return self.notice.takes_sketches(clocks.device if clocks.server is None else clocks.server)

    def agrees(self) -> bool:
        """Return whether a sketch may be offered by the last answer; if not, poll soon."""
        if not self._is_recent() and (self._problem is None or not self._link.is_patient):
            self.poll_soon()
            self.step()
        return self._is_recent()

    def distrust(self) -> None:
        """Discard the last answer, because a request got none."""
        self._agreed_at = None

    def poll_soon(self) -> None:
        """Poll at the next step: another request's answer says that the study has changed."""
        self._polls_at = 0.0

    def step(self) -> bool:
        """Poll if it is time; return whether a request is to be let through first."""
        if self._link.timer() < self._polls_at:
            return False
        if not self._link.network.is_busy:
            self._link.network.submit(
                catch(_make_question(self._link.device, self.notice)), self._note
            )
        return True

    def note_silence(self, error: TransportError) -> None:
        """Note that the server does not answer: what needs no answer goes on."""
        self.silence = error
        self._wait()
        if self._problem is None:
            # A server that refused this device before must take that back itself.
            self._is_accepted = True
            self._report(
                f"{error}. Without the server it cannot be checked whether this device was cloned "
                "or restored from a backup"
            )

    def report_notice(self) -> None:
        """Report the study's state if it has changed since the last report."""
        if self.notice.state != self._reported_state:
            self._link.report(logging.WARNING, self.notice.describe(), "")
        self._reported_state = self.notice.state

    def _is_recent(self) -> bool:
        agreed_at = self._agreed_at
        return agreed_at is not None and self._link.timer() - agreed_at <= AGREED_S

    def _note(self, answer: ServerAnswer | StudyNotice | SketchError) -> None:
        match answer:
            case ServerAnswer():
                self._note_answer(answer.device)
                self._note_notice(answer.notice)
            case StudyNotice():
                self._agreed_at = None
                self._polls_at = self._link.timer() + _POLL_S
                self._note_notice(answer)
            case TransportError():
                self.note_silence(answer)
            case _:
                if not self._link.is_patient:
                    raise answer
                self._polls_at = self._link.timer() + _REFUSED_S
                self._is_accepted, self._agreed_at = False, None
                self._report(f"the server refuses this device, so nothing is read: {answer}")

    def _note_answer(self, answer: DeviceAnswer) -> None:
        messages: list[str] = []
        try:
            note_answer(self._link.device, answer, messages, now=self._link.clock())
        except StoreError as error:
            if not self._link.is_patient:
                raise
            self._wait()
            self._report(str(error))
            return
        for message in messages:
            self._link.report(logging.WARNING, message, "")
        self.server_clock.note(answer.server_time, self._link.clock())
        self.answered_at = self._link.clock()
        self.silence, self._n_failures = None, 0
        self._polls_at = self._link.timer() + self._draw_pause()
        self._is_accepted, self._agreed_at = True, self._link.timer()
        if self._problem is not None:
            self._link.report(logging.INFO, "the server answers again", "")
        self._problem = None

    def _draw_pause(self) -> float:
        """Return the pause until the next poll: short at first where the next phase is due."""
        plan = self._link.device.plan
        awaits_next = plan.campaign is not None and not plan.campaign.is_last
        if not awaits_next or self.notice.next_study or self._link.clock() < (plan.window.end or 0):
            self._n_awaited = 0
            return _POLL_S
        pause = _SOON_S * _GROWTH**self._n_awaited
        self._n_awaited += pause < _POLL_S
        return min(_POLL_S, pause)

    def _note_notice(self, notice: StudyNotice | None) -> None:
        if notice is None or notice == self.notice:
            return
        self.notice = notice
        # On a full disk it is not kept: the next start polls again with the old ETag.
        with suppress(StoreError):
            save_notice(self._link.device.connection, notice)
        self.report_notice()

    def _wait(self) -> None:
        self._n_failures += 1
        self._polls_at = self._link.timer() + 1.0 + draw_pause(self._n_failures, _SILENT_S)
        self._agreed_at = None

    def _report(self, problem: str) -> None:
        if problem != self._problem:
            self._link.report(logging.WARNING, problem, "")
        self._problem = problem


def _make_question(
    device: Device, notice: StudyNotice
) -> Callable[[ServerClient], ServerAnswer | StudyNotice]:
    """Return a request that polls device and study and sends the heartbeat; for any thread.

    A study that was withdrawn is an answer; every other refusal is raised.
    """
    study = device.identity.study
    poll_device = make_device_question(device)
    heartbeat = make_heartbeat(
        device.settings,
        waiting=count_sketches(device.connection).waiting,
        # In ascending order: the last one stays.
        acknowledged={name: last for name, last, _ in list_acknowledged(device.connection)},
    )

    def request(client: ServerClient) -> ServerAnswer | StudyNotice:
        try:
            found = poll_device(client)
            new = _fetch_study(client, study, notice)
            _send_heartbeat(client, heartbeat)
        except StudyWithdrawnError:
            return StudyNotice(state="withdrawn")
        return ServerAnswer(device=found, notice=new)

    return request


def _fetch_study(client: ServerClient, study: bytes, before: StudyNotice) -> StudyNotice | None:
    try:
        answer = client.fetch_study(study, before.etag)
    except (StudyWithdrawnError, TransportError):
        raise
    except SketchError:
        # A server of before says nothing of it to devices.
        return None
    if answer is None:
        return None
    until = None
    if answer.accept_until is not None:
        until = datetime.fromisoformat(answer.accept_until).timestamp()
    return StudyNotice(
        state=answer.state, accept_until=until, etag=answer.etag, next_study=answer.next_study
    )


def _send_heartbeat(client: ServerClient, heartbeat: HeartbeatRequest) -> None:
    """Send the heartbeat; a failure to deliver it changes nothing."""
    try:
        client.put_heartbeat(heartbeat)
    except StudyWithdrawnError:
        raise
    except SketchError:
        pass
