"""Poll the server for its time, and for another copy of this state that was at work."""

from __future__ import annotations

from collections.abc import Callable

from device_agent.agent.agreement import AGREED_S
from device_agent.agent.clocks import ServerClock, describe_unasked
from device_agent.agent.comparing import note_answer
from device_agent.agent.device import Clock, Device
from device_agent.agent.log import LOG
from device_agent.agent.network import Network, catch
from device_agent.agent.sender import draw_pause
from device_agent.agent.study import ServerAnswer, make_question, note_notice
from device_agent.server.messages import DeviceAnswer
from device_agent.store import StudyNotice, load_notice
from shared.errors import SketchError, StoreError, TransportError

_ASK_S = 300.0
_REFUSED_S = 60.0
_SILENT_S = 120.0


class Asker:
    """Says whether windows may be released now.

    Before the first answer, or the first failure to get one, nothing is; nor while the server
    refuses this device, for what is spent then would be spent in vain.
    """

    def __init__(
        self, device: Device, network: Network, *, clock: Clock, timer: Callable[[], float]
    ) -> None:
        self.device = device
        self.network = network
        self.server_clock = ServerClock(device.connection)
        self.answered_at: float | None = None
        """The device's time of the last answer."""
        self.notice = load_notice(device.connection)
        """The last known state of the study."""
        self._is_accepted = False
        self._clock = clock
        self._timer = timer
        self._asks_at = 0.0
        self._n_failures = 0
        self._problem: str | None = None
        self._agreed_at: float | None = None

    @property
    def may_release(self) -> bool:
        """True if windows may be released: the server takes this device, and the study is open."""
        return self._is_accepted and self.notice.may_release

    @property
    def may_send(self) -> bool:
        """True if the server would take a sketch; what a closed study is sent would be lost."""
        return self.notice.takes_sketches(self._now())

    def agrees(self) -> bool:
        """Return whether a sketch may be offered by the last answer; if not, ask soon."""
        if self._agreed_at is not None and self._timer() - self._agreed_at <= AGREED_S:
            return True
        if self._problem is None:
            self.hurry()
        return False

    def doubt(self) -> None:
        """Discard the last answer, as a request got none: nothing is offered before the next."""
        self._agreed_at = None

    def hurry(self) -> None:
        """Poll at the next step: an answer to another request says that the study has changed."""
        self._asks_at = 0.0

    def _now(self) -> float:
        clocks = self.server_clock.read(self._clock())
        return clocks.device if clocks.server is None else clocks.server

    def step(self) -> bool:
        """Poll if it is time; return whether a request is to be let through first."""
        if self._timer() < self._asks_at:
            return False
        if not self.network.is_busy:
            self.network.submit(catch(make_question(self.device, self.notice)), self._note)
        return True

    def _note(self, answer: ServerAnswer | StudyNotice | SketchError) -> None:
        match answer:
            case ServerAnswer():
                self._note_answer(answer.device)
                self._note_notice(answer.notice)
            case StudyNotice():
                self._asks_at = self._timer() + _ASK_S
                self._agreed_at = None
                self._note_notice(answer)
            case TransportError():
                self.note_silence(answer)
            case _:
                self._asks_at = self._timer() + _REFUSED_S
                self._is_accepted, self._agreed_at = False, None
                self._say(f"the server refuses this device, so nothing is read: {answer}")

    def _note_answer(self, answer: DeviceAnswer) -> None:
        messages: list[str] = []
        try:
            note_answer(self.device, answer, messages, now=self._clock())
        except StoreError as error:
            self._n_failures += 1
            self._asks_at = self._timer() + 1.0 + draw_pause(self._n_failures, _SILENT_S)
            self._agreed_at = None
            self._say(str(error))
            return
        for message in messages:
            LOG.warning(message)
        self.server_clock.note(answer.server_time, self._clock())
        self.answered_at = self._clock()
        self._n_failures = 0
        self._asks_at = self._timer() + _ASK_S
        self._is_accepted, self._agreed_at = True, self._timer()
        if self._problem is not None:
            LOG.info("the server answers again")
        self._problem = None

    def _note_notice(self, notice: StudyNotice | None) -> None:
        before = self.notice
        self.notice = note_notice(self.device, notice, before)
        if self.notice.state != before.state:
            LOG.warning(self.notice.describe())

    def note_silence(self, error: TransportError) -> None:
        """Note that the server does not answer: what needs no answer goes on."""
        self._n_failures += 1
        self._asks_at = self._timer() + 1.0 + draw_pause(self._n_failures, _SILENT_S)
        self._agreed_at = None
        if self._problem is None:
            # A server that refused this device before must take that back itself.
            self._is_accepted = True
            self._say(describe_unasked(error))

    def _say(self, problem: str) -> None:
        if problem != self._problem:
            LOG.warning(problem)
        self._problem = problem
