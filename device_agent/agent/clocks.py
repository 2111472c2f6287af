"""The clocks that windows are closed by, and whether the server already knows more than we do."""

from __future__ import annotations

from dataclasses import dataclass

from device_agent.agent.device import Clock, Device
from device_agent.store import (
    list_streams,
    load_stream,
    save_generation,
    send_again,
    suspend_stream,
    transaction,
)
from device_agent.transport import CLOCK_LEEWAY_S, DeviceAnswer, ServerClient
from shared.errors import LedgerError, TransportError


@dataclass(frozen=True, kw_only=True)
class Clocks:
    """The time by the device, and by the server if it answered; seconds since 1970-01-01 UTC."""

    device: float
    server: float | None = None

    @property
    def agree(self) -> bool:
        """Whether they differ by no more than the leeway; true if only one is known."""
        return self.server is None or abs(self.device - self.server) <= CLOCK_LEEWAY_S

    @property
    def latest_believable(self) -> float:
        """The time beyond which no record is believed."""
        if self.agree or self.server is None:
            return self.device
        return min(self.device, self.server)

    @property
    def closing(self) -> list[float]:
        """The clocks that must all agree that a slot is over."""
        return [self.device] if self.server is None else [self.device, self.server]


def describe_difference(clocks: Clocks) -> str:
    """Say that the clocks differ, and what that means."""
    seconds = abs(clocks.device - (clocks.server or 0.0))
    return (
        f"clock: this device and the server differ by {seconds:.0f} s, so no window is closed by "
        "the clock. Set this machine's clock"
    )


def ask_server(device: Device, client: ServerClient, clock: Clock, messages: list[str]) -> Clocks:
    """Learn the server's time, and make sure that it does not know more of us than we do.

    Raises
    ------
    LedgerError
        The server has sketches that this ledger does not know; their streams are suspended.
    SketchError
        The server refused to answer; the class says why.
    """
    try:
        answer = client.ask_device()
    except TransportError as error:
        messages.append(
            f"{error}. Without the server it cannot be checked whether this device was cloned or "
            "restored from a backup"
        )
        return Clocks(device=clock())
    require_not_behind(device, answer)
    _follow_generation(device, answer, messages)
    return Clocks(device=clock(), server=answer.server_time)


def find_ahead(device: Device, answer: DeviceAnswer) -> list[str]:
    """Return the streams of which the server knows a sketch that we did not release."""
    return [
        name
        for name, last in answer.last_sequences.items()
        if last >= load_stream(device.connection, name).next_sequence
    ]


def require_not_behind(device: Device, answer: DeviceAnswer) -> None:
    """Stop a clone or a restored backup before it releases the same windows again."""
    ahead = find_ahead(device, answer)
    if not ahead:
        return
    error = LedgerError(
        "the server knows later sketches than this ledger: it was restored from a backup, or this "
        "device was cloned; nothing was released",
        field=f"stream {', '.join(ahead)}",
        fix="use the state_dir that released them, or enrol a new device with another state_dir",
    )
    with transaction(device.connection):
        # Kept, because the next start may find no server to ask.
        for name in ahead:
            suspend_stream(device.connection, name, error.rule)
    raise error


def _follow_generation(device: Device, answer: DeviceAnswer, messages: list[str]) -> None:
    """Offer a server that was restored from a backup what it may have lost."""
    if answer.generation == device.identity.generation:
        return
    with transaction(device.connection):
        n_again = send_again(device.connection)
        save_generation(device.connection, answer.generation)
    messages.append(
        f"the server was restored from a backup; {n_again} sketch(es) are sent again as they were"
    )


def known_streams(device: Device) -> list[str]:
    """Return the streams that were ever read or are configured."""
    configured = [stream.name for stream in device.settings.streams]
    return sorted({*list_streams(device.connection), *configured})
