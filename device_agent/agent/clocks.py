"""The clocks that windows are closed by, and whether the server already knows more than we do."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass

from device_agent.agent.device import Clock, Device
from device_agent.agent.study import ServerAnswer, make_question, note_notice
from device_agent.messages import DeviceAnswer
from device_agent.store import (
    StudyNotice,
    list_streams,
    load_notice,
    load_stream,
    save_generation,
    send_again,
    suspend_stream,
    transaction,
)
from device_agent.transport import ServerClient
from shared.errors import LedgerError, StoreError, TransportError
from shared.wire import CLOCK_LEEWAY_S

_BELIEVED_S = 86400.0
"""Clocks drift apart; within a day by seconds."""


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


class ServerClock:
    """The server's time between two of its answers, carried on by a clock that nobody sets."""

    def __init__(self) -> None:
        self._answered: tuple[float, float] | None = None

    def note(self, server_time: float) -> None:
        """Note an answer that came just now."""
        self._answered = server_time, _boot_time()

    def read(self, device: float) -> Clocks:
        """Return the clocks now; an answer of more than a day ago says nothing any more."""
        if self._answered is None:
            return Clocks(device=device)
        server_time, then = self._answered
        passed = _boot_time() - then
        if passed > _BELIEVED_S:
            return Clocks(device=device)
        return Clocks(device=device, server=server_time + passed)


def _boot_time() -> float:
    # Unlike the monotonic clock it goes on while the machine sleeps.
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def describe_difference(clocks: Clocks) -> str:
    """Say that the clocks differ, and what that means."""
    seconds = abs(clocks.device - (clocks.server or 0.0))
    return (
        f"clock: this device and the server differ by {seconds:.0f} s, so no window is closed by "
        "the clock. Set this machine's clock"
    )


def ask_server(
    device: Device, client: ServerClient, clock: Clock, messages: list[str]
) -> tuple[Clocks, StudyNotice]:
    """Learn the server's time, and make sure that it does not know more of us than we do.

    Raises
    ------
    LedgerError
        The server has sketches that this ledger does not know; their streams are suspended.
    SketchError
        The server refused to answer; the class says why.
    """
    before = load_notice(device.connection)
    clocks, new = Clocks(device=clock()), None
    try:
        answer = make_question(device, before)(client)
    except TransportError as error:
        messages.append(describe_unasked(error))
    else:
        if isinstance(answer, ServerAnswer):
            note_answer(device, answer.device, messages)
            clocks = Clocks(device=clock(), server=answer.device.server_time)
            new = answer.notice
        else:
            new = answer
    notice = note_notice(device, new, before)
    if not notice.may_release:
        messages.append(notice.describe())
    return clocks, notice


def describe_unasked(error: TransportError) -> str:
    """Say what it means that the server did not answer."""
    return (
        f"{error}. Without the server it cannot be checked whether this device was cloned or "
        "restored from a backup"
    )


def note_answer(device: Device, answer: DeviceAnswer, messages: list[str]) -> None:
    """Stop if the server knows more than we do, and offer it again what it may have lost.

    Raises
    ------
    LedgerError
        The server has sketches that this ledger does not know; their streams are suspended.
    """
    require_not_behind(device, answer)
    _follow_generation(device, answer, messages)


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
    # On a full disk it cannot be kept; then nothing can be released either.
    with suppress(StoreError), transaction(device.connection):
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
