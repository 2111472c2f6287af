"""A change of keys that was begun, in the daemon: finished before anything is sent."""

from __future__ import annotations

from collections.abc import Callable

from device_agent.agent.device import Clock, Device
from device_agent.agent.log import LOG
from device_agent.agent.network import Network, catch
from device_agent.agent.rotation import Settled, describe_open, make_offer, settle
from device_agent.agent.sender import draw_pause
from shared.errors import SketchError, StoreError, TransportError

_CAP_S = 300.0
_REFUSED_S = 60.0


class KeyChanger:
    """Offers the next key until the server says which it takes.

    Parameters
    ----------
    timer
        Monotonic seconds.
    on_settled
        Called with the device as it is then.
    on_silence
        Called when the server does not answer.
    """

    def __init__(
        self,
        device: Device,
        network: Network,
        *,
        clock: Clock,
        timer: Callable[[], float],
        on_settled: Callable[[Device], None],
        on_silence: Callable[[TransportError], None],
    ) -> None:
        self.device = device
        self.network = network
        self.is_offering = False
        """True if an answer is outstanding: what was signed meanwhile would be refused."""
        self._clock = clock
        self._timer = timer
        self._on_settled = on_settled
        self._on_silence = on_silence
        self._n_failures = 0
        self._offers_at = 0.0

    def step(self) -> bool:
        """Offer the key if it is time; tell whether the change is still open."""
        if self.device.next_key is None:
            return False
        if self._timer() >= self._offers_at and not self.network.is_busy:
            self.is_offering = True
            self.network.submit(catch(make_offer(self.device, self._clock)), self._note)
        return True

    def stop(self) -> None:
        """Note that the pending request is cancelled."""
        self.is_offering = False

    def _note(self, answer: Settled | SketchError) -> None:
        self.is_offering = False
        match answer:
            case Settled():
                self._settle(answer)
            case TransportError():
                self._wait(describe_open(answer), draw_pause(self._n_failures, _CAP_S))
                self._on_silence(answer)
            case _:
                self._wait(f"the server refuses this device with either key: {answer}", _REFUSED_S)

    def _settle(self, settled: Settled) -> None:
        try:
            device = settle(self.device, settled)
        except StoreError as error:
            self._wait(str(error), draw_pause(self._n_failures, _CAP_S))
            return
        LOG.warning(settled.describe())
        self._on_settled(device)

    def _wait(self, problem: str, pause: float) -> None:
        if self._n_failures == 0:
            LOG.warning(problem)
        self._n_failures += 1
        self._offers_at = self._timer() + 1.0 + pause
