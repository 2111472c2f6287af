"""One study at work, in `once` and in the daemon: poll, finish a change of keys, send."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from sfumato.device_agent.agent.device import Clock, Device
from sfumato.device_agent.agent.exchange.network import Link, Network
from sfumato.device_agent.agent.exchange.polling import Poller
from sfumato.device_agent.agent.exchange.published_result import ResultPuller
from sfumato.device_agent.agent.exchange.rotation import KeyChanger
from sfumato.device_agent.agent.exchange.sender import Sender
from sfumato.device_agent.server.transport import ServerClient
from sfumato.device_agent.store.outbox import purge_sent
from sfumato.device_agent.windows import Clocks
from sfumato.shared.errors import StoreError


class Study:
    """A device's dealings with one server.

    Parameters
    ----------
    make_network
        Makes the network of a connection.
    report, is_patient
        See ``Link``.
    """

    def __init__(
        self,
        device: Device,
        *,
        clock: Clock,
        make_network: Callable[[Callable[[], ServerClient]], Network],
        report: Callable[[int, str, str], None],
        is_patient: bool,
    ) -> None:
        self._make_network = make_network
        self.link = Link(
            device=device,
            network=make_network(lambda: device.connect(clock)),
            clock=clock,
            timer=time.monotonic,
            report=report,
            is_patient=is_patient,
        )
        self._begin()

    @property
    def device(self) -> Device:
        """The device under its present settings and key."""
        return self.link.device

    def use(self, device: Device) -> None:
        """Go on under other settings or another key of the same device."""
        before, self.link.device = self.link.device, device
        self.sender.retry_now()
        if _connection_of(device) != _connection_of(before):
            self.link.network.close()
            self.link.network = self._make_network(lambda: device.connect(self.link.clock))
            self._begin()

    def close(self) -> None:
        """Close the connection."""
        self.link.network.close()

    def poll(self) -> bool:
        """Finish a change of keys, then poll, if it is time; return whether sending must wait."""
        return self.key_changer.step() or self.poller.step()

    def read_clocks(self) -> Clocks:
        """Return the clocks now."""
        return self.poller.server_clock.read(self.link.clock())

    def purge(self) -> None:
        """Drop the bytes of sketches that were sent long ago."""
        with suppress(StoreError):  # on a full disk: later
            # A clock that jumped forward must not take from a restored server what it needs.
            purge_sent(self.device.connection, now=self.read_clocks().earliest)

    def stop_stream(self, name: str) -> None:
        """Stop reading a stream that an answer has suspended."""

    def _begin(self) -> None:
        self.poller = Poller(self.link)
        self.sender = Sender(self.link, self.poller, on_suspended=self.stop_stream)
        self.puller = ResultPuller(self.link)
        self.key_changer = KeyChanger(
            self.link, on_settled=self.use, on_silence=self.poller.note_silence
        )


def _connection_of(device: Device) -> tuple[object, ...]:
    """Return the values whose change needs another connection."""
    return device.settings.server, device.settings.tls, device.key
