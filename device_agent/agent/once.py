"""One run: read what is new, release what is complete, send what waits."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from device_agent.agent.clocks import Clocks, ask_server, known_streams
from device_agent.agent.device import Clock, Device, open_device
from device_agent.agent.reading import StreamSummary, read_stream
from device_agent.agent.rotation import finish_rotation
from device_agent.agent.sending import SendSummary, send_outbox
from device_agent.agent.slots import read_slots
from device_agent.settings import Settings
from device_agent.store import (
    OutboxCounts,
    check_folder,
    count_sketches,
    holding,
    load_notice,
    purge_sent,
    sum_ledger,
)
from shared.errors import SketchError, StoreError
from shared.privacy import PrivacyLoss, compute_lifetime_loss, compute_per_record_loss


@dataclass(frozen=True, kw_only=True)
class OnceReport:
    """What one run did, and how the device stands after it.

    The losses are those of the stream that has spent most. ``unsent`` sketches were offered to the
    server in vain.
    """

    streams: tuple[StreamSummary, ...]
    sending: SendSummary
    outbox: OutboxCounts
    per_record_loss: PrivacyLoss
    lifetime_loss: PrivacyLoss
    messages: tuple[str, ...]
    unsent: int

    @property
    def errors(self) -> list[SketchError]:
        """What ended the reading of a stream."""
        return [stream.error for stream in self.streams if stream.error is not None]

    def total(self, name: str) -> int | None:
        """Sum one of the counts over the streams; None where it is secret."""
        counts = [stream.count(name) for stream in self.streams]
        public = [count for count in counts if count is not None]
        return sum(public) if len(public) == len(counts) else None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values; exact numbers are text."""
        names = ("records_read", "unsketchable", "out_of_bounds", "raw_bytes_read")
        return {
            **{name: self.total(name) for name in names},
            "released": sum(stream.released for stream in self.streams),
            "sent": self.sending.sent,
            "bytes_sent": self.sending.bytes_sent,
            "waiting": self.outbox.waiting,
            "shelved": self.outbox.shelved,
            "epsilon_spent_per_record": str(self.per_record_loss.epsilon),
            "delta_spent_per_record": str(self.per_record_loss.delta),
            "epsilon_spent_lifetime": str(self.lifetime_loss.epsilon),
            "delta_spent_lifetime": str(self.lifetime_loss.delta),
            "messages": list(self.messages),
            "errors": [str(error) for error in self.errors],
            "streams": [
                {
                    "name": stream.name,
                    **{name: stream.count(name) for name in names},
                    "released": stream.released,
                }
                for stream in self.streams
            ],
        }


def run_once(settings: Settings, *, send: bool, send_for_s: float, clock: Clock) -> OnceReport:
    """Read every stream, release complete windows, and send the outbox unless told not to.

    Where presence is secret, what is released is sent by the next run, before it reads anything:
    how long reading takes tells how much there was, and the server would see it.

    Raises
    ------
    LedgerError
        Another agent is at work, or the server knows more than this ledger; nothing was released.
    SketchError
        The state cannot be opened, or the server refused this device.
    """
    check_folder(settings.state_dir, create=False)
    with (
        holding(settings.state_dir) as mended,
        open_device(settings, tell=clock) as opened,
    ):
        messages = [*mended]
        streams: tuple[StreamSummary, ...] = ()
        sending = SendSummary()
        device = finish_rotation(opened, clock, messages)
        is_secret = device.plan.releases_count
        with device.connect(clock) as client:
            if device.next_key is None:
                clocks, notice = ask_server(device, client, clock, messages)
            else:
                # Nobody knows which key the server takes: as without a server.
                clocks, notice = Clocks(device=clock()), load_notice(device.connection)
            with suppress(StoreError):  # on a full disk: at a later run
                # A clock that jumped forward must not take from a restored server what it needs.
                purge_sent(device.connection, now=clocks.latest_believable)
            may_release = notice.may_release
            now = clocks.device if clocks.server is None else clocks.server
            send = send and notice.takes_sketches(now)
            if not is_secret and may_release:
                streams = tuple(
                    read_stream(device, stream, clocks=clocks, clock=clock)
                    for stream in settings.streams
                )
            if send and device.next_key is None:
                sending = send_outbox(device, client, send_for_s=send_for_s, clock=clock)
        unsent = count_sketches(device.connection).waiting if send else 0
        if is_secret and may_release:
            # After the connection is closed: when it closes must not tell it either.
            streams = tuple(
                read_slots(device, stream, clocks=clocks) for stream in settings.streams
            )
        return _report(device, streams, sending, messages, unsent)


def _report(
    device: Device,
    streams: tuple[StreamSummary, ...],
    sending: SendSummary,
    messages: list[str],
    unsent: int,
) -> OnceReport:
    events = sum_ledger(device.connection)
    names = known_streams(device)
    for stream in streams:
        messages += [f"stream {stream.name}: {message}" for message in stream.messages]
    return OnceReport(
        streams=streams,
        sending=sending,
        outbox=count_sketches(device.connection),
        per_record_loss=_largest(compute_per_record_loss(events, name) for name in names),
        lifetime_loss=_largest(compute_lifetime_loss(events, name) for name in names),
        messages=(*messages, *sending.messages),
        unsent=unsent,
    )


def _largest(losses: Iterable[PrivacyLoss]) -> PrivacyLoss:
    return max(losses, key=lambda loss: (loss.epsilon, loss.delta))
