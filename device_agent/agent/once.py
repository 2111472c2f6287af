"""One pass: read new records, release complete windows, send what waits, and end."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from sfumato.device_agent.agent.campaign import list_active, list_phases
from sfumato.device_agent.agent.device import SHARE_SPENT, Clock, Device, open_device
from sfumato.device_agent.agent.enrol import join_next
from sfumato.device_agent.agent.exchange.comparison import known_streams
from sfumato.device_agent.agent.exchange.network import Network
from sfumato.device_agent.agent.exchange.sender import SendSummary
from sfumato.device_agent.agent.exchange.study import Study
from sfumato.device_agent.agent.policy import describe_spent
from sfumato.device_agent.agent.reading.slots import SlotReader
from sfumato.device_agent.agent.reading.windows import StreamSummary, WindowReader
from sfumato.device_agent.settings.agent_settings import Settings
from sfumato.device_agent.store.database import check_folder, open_database, sum_ledger
from sfumato.device_agent.store.identity import load_identity
from sfumato.device_agent.store.outbox import OutboxCounts, count_sketches
from sfumato.device_agent.store.repair import holding
from sfumato.device_agent.windows import Clocks
from sfumato.shared.errors import BudgetExceededError, SketchError, TransportError
from sfumato.shared.plan import SketchPlan, decode_plan
from sfumato.shared.privacy import PrivacyLoss, compute_lifetime_loss, compute_per_record_loss

_VALUE_COUNTS = ("unsketchable", "out_of_bounds", "raw_bytes_read")


@dataclass(frozen=True, kw_only=True)
class OnceReport:
    """Report of one pass, and the state of the device after it.

    The losses are those of the stream where a record that is replaced has lost most. ``unsent``
    sketches were offered in vain. ``value_messages`` depend on values.
    """

    streams: tuple[StreamSummary, ...]
    sending: SendSummary
    outbox: OutboxCounts
    per_record_loss: PrivacyLoss
    lifetime_loss: PrivacyLoss
    messages: tuple[str, ...]
    value_messages: tuple[str, ...]
    unsent: int

    @property
    def errors(self) -> list[SketchError]:
        """Errors that ended the reading of a stream, or all sending."""
        ends = [*(stream.error for stream in self.streams), self.sending.error]
        return [error for error in ends if error is not None]

    @property
    def is_settled(self) -> bool:
        """True if the times of the plan are over, and all that is held of them was released."""
        return all(stream.is_settled for stream in self.streams)

    @property
    def hides_counts(self) -> bool:
        """True if the plan hides how many records there are."""
        return any(stream.counts is None for stream in self.streams)

    def total(self, name: str) -> int | None:
        """Sum one of the counts over the streams; None where it is secret."""
        counts = [stream.count(name) for stream in self.streams]
        public = [count for count in counts if count is not None]
        return sum(public) if len(public) == len(counts) else None

    def to_json(self, *, value_counts: bool) -> dict[str, Any]:
        """Return JSON values; exact numbers are text.

        Figures that depend on values are exact and without noise. They are included only if
        ``value_counts``, because a report may be sent on.
        """
        names = ("records_read", *(_VALUE_COUNTS if value_counts else ()))
        return {
            **{name: self.total(name) for name in names},
            "released": sum(stream.released for stream in self.streams),
            "sent": self.sending.sent,
            "bytes_sent": self.sending.bytes_sent,
            "waiting": self.outbox.waiting,
            "shelved": self.outbox.shelved,
            **describe_spent(self.per_record_loss, "per_record"),
            **describe_spent(self.lifetime_loss, "lifetime"),
            "messages": [*self.messages, *(self.value_messages if value_counts else ())],
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


def run_phases(
    settings: Settings,
    *,
    send: bool,
    send_for_s: float,
    clock: Clock,
    show: Callable[[str], None] = lambda _: None,
) -> Iterator[OnceReport]:
    """Make a pass over each phase of a campaign, also over those that can be joined now.

    Yields a report for each; a study by itself has one. Raises as :func:`run_once`, and where the
    next phase cannot be joined as :func:`join_next`.
    """
    check_folder(settings.state_dir, create=False)
    done: set[bytes] = set()
    plan = _read_plan(settings)
    is_secret = plan is not None and plan.releases_count
    # A request after reading would show how long that took, where the number of records is secret.
    while is_secret and send and _join_next(settings, clock, show):
        pass
    report: OnceReport | None = None
    while pending := [each for each in _list_active(settings) if each.study not in done]:
        report = run_once(pending[0], send=send, send_for_s=send_for_s, clock=clock, show=show)
        done.add(pending[0].study)
        yield report
    if is_secret or not send or (plan is not None and plan.campaign is None):
        return
    while report is not None and report.is_settled and _join_next(settings, clock, show):
        present = list_phases(settings)[-1]
        report = run_once(present, send=send, send_for_s=send_for_s, clock=clock, show=show)
        yield report


def _list_active(settings: Settings) -> list[Settings]:
    """Return the phases with something to do; the first, where the state must be repaired first."""
    try:
        return list_active(settings)
    except SketchError:
        return [settings]


def _read_plan(settings: Settings) -> SketchPlan | None:
    """Return the plan of the first study; None before enrolment, or where the state is damaged."""
    try:
        with closing(open_database(settings.state_dir, settings.study)) as connection:
            identity = load_identity(connection)
        return None if identity is None else decode_plan(identity.plan_bytes)
    except SketchError:
        return None


def _join_next(settings: Settings, clock: Clock, show: Callable[[str], None]) -> bool:
    """Join the next phase, if there is one; without an answer it is joined later."""
    present = list_phases(settings)[-1]
    with holding(settings.state_dir), open_device(present) as device:
        try:
            return join_next(device, settings, clock=clock)
        except TransportError as error:
            show(f"the next phase is joined later: {error}")
            return False


def run_once(
    settings: Settings,
    *,
    send: bool,
    send_for_s: float,
    clock: Clock,
    show: Callable[[str], None] = lambda _: None,
) -> OnceReport:
    """Read every stream, release complete windows, and send the outbox unless told not to.

    If presence is secret, the next run sends what this one releases, before it reads anything: how
    long reading takes tells how much there was, and the server would see it. ``show`` shows the
    progress of a long pass.

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
        open_device(settings, report_clock=clock) as opened,
    ):
        messages = [*mended]
        streams: tuple[StreamSummary, ...] = ()
        is_secret = opened.plan.releases_count

        def report(level: int, message: str, _stream: str) -> None:
            if level == logging.WARNING:
                messages.append(message)

        study = Study(opened, clock=clock, make_network=Network, report=report, is_patient=False)
        with closing(study):
            study.poll()
            study.poller.report_notice()
            # Before anything is read, so that no record decides when.
            study.puller.step()
            device, clocks = study.device, study.read_clocks()
            if study.poller.silence is not None:
                study.poller.server_clock.keep()
            study.purge()
            may_release = study.poller.may_release and device.reads
            send = send and study.poller.may_send
            if not is_secret and may_release:
                streams = _read_streams(device, clocks, clock, messages, show)
            # While a change of keys is open nobody knows which key the server takes.
            if send and device.next_key is None:
                study.sender.send_for(send_for_s)
        unsent = count_sketches(device.connection).waiting if send else 0
        if is_secret and may_release:
            # After the connection is closed: when it closes must not show it either.
            streams = _read_streams(device, clocks, clock, messages, show)
        return _report(device, streams, study.sender.summary, messages, unsent)


def _read_streams(
    device: Device,
    clocks: Clocks,
    clock: Clock,
    messages: list[str],
    show: Callable[[str], None],
) -> tuple[StreamSummary, ...]:
    """Read each stream; an error ends the reading of that stream alone."""
    summaries = []
    for stream in device.settings.streams:
        reader = (
            SlotReader(device, stream, clocks=clocks, show=show)
            if device.plan.releases_count
            else WindowReader(device, stream, clocks=lambda: clocks, clock=clock)
        )
        try:
            reader.read_all()
        except SketchError as error:
            if error.field == SHARE_SPENT:
                # The stream has done all that it can: that is no failure.
                reader.summary.messages.append(str(error))
            else:
                reader.summary.error = error
        if isinstance(reader, WindowReader):
            is_spent = isinstance(reader.summary.error, BudgetExceededError)
            is_whole = reader.summary.error is None and reader.is_settled()
            reader.summary.is_settled = is_spent or is_whole
        messages += [f"stream {stream.name}: {text}" for text in reader.summary.messages]
        summaries.append(reader.summary)
    return tuple(summaries)


def _report(
    device: Device,
    streams: tuple[StreamSummary, ...],
    sending: SendSummary,
    messages: list[str],
    unsent: int,
) -> OnceReport:
    events = sum_ledger(device.connection)
    study, connection = device.identity.study, device.connection
    names = known_streams(connection, device.settings)
    shared = [{(study, name), *device.find_near(name)} for name in names]
    people = [{(study, name), *device.find_same_people(name)} for name in names]
    return OnceReport(
        streams=streams,
        sending=sending,
        outbox=count_sketches(device.connection),
        per_record_loss=_largest(compute_per_record_loss(events, readers) for readers in shared),
        lifetime_loss=_largest(compute_lifetime_loss(events, readers) for readers in people),
        messages=tuple(messages),
        value_messages=tuple(
            f"stream {stream.name}: {text}" for stream in streams for text in stream.value_messages
        ),
        unsent=unsent,
    )


def _largest(losses: Iterable[PrivacyLoss]) -> PrivacyLoss:
    return max(losses, key=lambda loss: (loss.replaced_epsilon, loss.delta))
