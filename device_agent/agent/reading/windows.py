"""Reading of one stream under ``replace-one``: records into windows, and windows into releases."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace

import numpy as np

from sfumato.device_agent.agent.device import Clock, Device
from sfumato.device_agent.agent.membership import FirstTimes, require_joined
from sfumato.device_agent.agent.reading.release import release_window
from sfumato.device_agent.sources import (
    Position,
    RecordBatch,
    RecordSource,
    SourceChanges,
    open_source,
)
from sfumato.device_agent.sources.settings import StreamSettings
from sfumato.device_agent.store.database import sum_ledger, transaction
from sfumato.device_agent.store.key import key_folder, load_digest_key
from sfumato.device_agent.store.outbox import count_waiting_bytes
from sfumato.device_agent.store.positions import load_positions, note_source_changes
from sfumato.device_agent.store.streams import checkpoint, load_stream
from sfumato.device_agent.windows import (
    Clocks,
    Cut,
    WindowCutter,
    WindowState,
    describe_difference,
)
from sfumato.shared.arrays import Floats, Integers
from sfumato.shared.core import SketchAccumulator, Statistic
from sfumato.shared.errors import LedgerError, RecordError, SketchError
from sfumato.shared.privacy import Origin
from sfumato.shared.wire import encode_stream_id, format_time

ENVELOPE_BYTES = 400
"""Size of a message without its payload, about."""
OUTBOX_IS_FULL = (
    "the outbox is full, so no window is closed and records wait in their source; see [outbox] and "
    "whether the server answers"
)
_HIGH_SHARE = 0.1


@dataclass(kw_only=True)
class ReadCounts:
    """Records and bytes of one stream that were read in a run."""

    records_read: int = 0
    unsketchable: int = 0
    out_of_bounds: int = 0
    raw_bytes_read: int = 0

    def __add__(self, other: ReadCounts) -> ReadCounts:
        return ReadCounts(**{name: n + getattr(other, name) for name, n in asdict(self).items()})


@dataclass(kw_only=True)
class StreamSummary:
    """Result of reading one stream; ``counts`` is None where the number of records is secret.

    ``is_settled`` says that no further window of the plan is awaited from it.
    ``value_messages`` depend on values: the owner may ask for them, and no log holds them.
    """

    name: str
    released: int = 0
    counts: ReadCounts | None = None
    messages: list[str] = field(default_factory=list)
    value_messages: list[str] = field(default_factory=list)
    error: SketchError | None = None
    is_settled: bool = False

    def count(self, name: str) -> int | None:
        """Return one of the counts; None where it is secret."""
        return None if self.counts is None else int(getattr(self.counts, name))


def make_statistic(device: Device, stream: StreamSettings, *, block: int = 0) -> Statistic:
    """Return the statistic of a window."""
    stream_id = encode_stream_id(device.identity.device, stream.name)
    return device.plan.statistic_of(stream_id, block=block)


def choose_block(device: Device, stream: StreamSettings, *, turn: int) -> int:
    """Choose the block of features of a window; ``turn`` is its first slot, or its number."""
    ordinal = device.identity.ordinal
    return device.plan.blocks.choose(ordinal=ordinal, stream=stream.name, turn=turn)


def require_accepted_stream(device: Device, stream: StreamSettings) -> None:
    """Refuse a stream beyond those that the plan accepts of a device, with a ``LedgerError``.

    Streams that were renamed or removed count: where the unit is a device, a slot has one sketch.
    """
    study, most = device.identity.study, device.plan.most_streams_per_device
    events = sum_ledger(device.connection)
    others = {event.stream for event in events if event.study == study} - {stream.name}
    if len(others) >= most:
        raise LedgerError(
            f"would be one more than the {most} that the plan accepts of a device, which has "
            f"released {', '.join(map(repr, sorted(others)))}",
            field=f"stream {stream.name}",
            fix="give it the name of a stream that released before, or ask the operator for "
            "another study",
        )


def require_sole_reader(device: Device, stream: StreamSettings) -> None:
    """Refuse a source that another stream of the study has read, with a ``LedgerError``.

    Another study may release its records again; both releases are counted.
    """
    study = device.identity.study
    others = sorted(name for of, name in device.find_near(stream.name) if of == study)
    if others:
        raise LedgerError(
            f"cannot read records that stream {others[0]!r} may have sketched already",
            field=f"stream {stream.name}",
            fix=f"name the stream {others[0]!r}, or remove it here; where the two share no record, "
            'say so with a different `disjoint = "NAME"` in the source of each',
        )


def open_stream_source(
    device: Device, stream: StreamSettings, *, now: Clock = time.time
) -> RecordSource:
    """Open a stream's source where the last reader stopped; the caller closes it.

    Raises
    ------
    RecordError, LedgerError, ConfigError
        As ``open_source``, :func:`require_accepted_stream`, :func:`require_sole_reader` and
        :func:`~sfumato.device_agent.agent.membership.require_joined`.
    """
    require_accepted_stream(device, stream)
    require_sole_reader(device, stream)
    require_joined(device.settings, stream)
    known = load_positions(device.connection)
    folder = key_folder(device.settings.state_dir, device.identity.study)
    key = load_digest_key(folder)
    return open_source(stream, device.plan.dimensions, known, key, folder, now=now)


def store_changes(device: Device, stream: StreamSettings, changes: SourceChanges) -> None:
    """Store the changes of a source's files; to be called in a transaction.

    All records that the source gave before must be stored: a file that took another's place is
    noted as read up to where the other was.
    """
    note_source_changes(device.connection, stream.name, changes)


def restore_accumulator(
    device: Device,
    statistic: Statistic,
    *,
    first_record: int = 0,
    sums: Integers | None = None,
    n_records: int = 0,
    n_unsketchable: int = 0,
) -> SketchAccumulator:
    """Return the accumulator of a window: with its stored sums, or empty without them."""
    engine = device.settings.engine
    if sums is None:
        return SketchAccumulator(statistic, first_record=first_record, engine=engine)
    return SketchAccumulator.restore(
        statistic,
        first_record=first_record,
        sums=sums,
        n_records=n_records,
        n_unsketchable=n_unsketchable,
        engine=engine,
    )


class WindowReader:
    """Reader of one stream: a window is released as soon as it is complete.

    Counts are public, except where the unit is a device: then no report shows them.

    After an error the open window may be incomplete in memory: close the reader and make another,
    which begins at the last checkpoint.

    Parameters
    ----------
    clocks
        Reads the clocks that windows are closed by.
    clock
        The device's, seconds since 1970-01-01 UTC.
    """

    def __init__(
        self,
        device: Device,
        stream: StreamSettings,
        *,
        clocks: Callable[[], Clocks],
        clock: Clock,
    ) -> None:
        self.device = device
        self.summary = StreamSummary(name=stream.name)
        self.counts = ReadCounts()
        self.summary.counts = None if device.plan.hides_counts else self.counts
        self.n_unsaved = 0
        """Records that were added since the last checkpoint or release."""
        self._stream = stream
        self._clocks = clocks
        self._clock = clock
        self._cutter = WindowCutter.of_plan(device.plan, begins=device.identity.begins)
        self._state = load_stream(device.connection, stream.name)
        self._accumulator = self._restore_accumulator()
        self._source: RecordSource | None = None
        self._delay_s = 0.0
        self._first_times: FirstTimes | None = None
        # Behind the last record added of each of the source's files, those of this window alone.
        self._positions: dict[str, Position] = {}
        self._outside = np.zeros(device.plan.n_dimensions, dtype=np.int64)
        self._n_judged = self._n_left_out = 0
        self._affordable: int | None = None
        # What was sent since it was counted is left out, so the truth is this or less.
        self._waiting_bytes: int | None = None

    def read_all(self) -> None:
        """Read all that the source has now, release complete windows, and save the open one.

        If the source itself breaks off, the open window is saved; after any other error records
        behind the last release are read again.
        """
        with closing(self):
            self.open()
            found = self.source.report
            try:
                self._add_all()
            finally:
                self.counts.raw_bytes_read = found.bytes_read
                hidden = self.device.plan.hides_counts
                self.summary.messages += found.describe_reading(hides_counts=hidden)
                self.summary.value_messages += found.describe_values(hides_counts=hidden)
            self.summary.value_messages += self.take_warnings()
            # Times are public here, and how many records there are is where no unit is a device.
            if self._n_left_out and not hidden:
                self.summary.messages.append(
                    f"{self._n_left_out} record(s) were left out: their times lie outside the "
                    "study's or before this device took over, or cannot be read"
                )
            if self.is_outbox_full():
                self.summary.messages.append(OUTBOX_IS_FULL)
            # Only now: before, records of its slot might still come.
            if not self.close_over() and self.n_unsaved:
                self.checkpoint()
            if difference := self.describe_held_up():
                self.summary.messages.append(difference)

    def _add_all(self) -> None:
        # Not by `read_batch`, which gives nothing when the source is slow.
        batches = self.source.read()
        while not self.is_outbox_full():
            try:
                batch = next(batches, None)
            except RecordError:
                if self.n_unsaved:
                    self.checkpoint()
                raise
            if batch is None:
                return
            self.add(batch)

    def open(self) -> None:
        """Open the source where the last reader stopped."""
        self._state.require_not_suspended()
        self._require_begun()
        self._source = open_stream_source(
            self.device, self._stream, now=lambda: self._clocks().latest_believable
        )
        self._delay_s = self._source.delay_s
        # The times of joined records are those of their intervals, whatever messages say.
        if self._stream.source.join is None:
            self._first_times = FirstTimes(self.device, self._stream)
        self.note_changes()

    @property
    def source(self) -> RecordSource:
        """The open source."""
        assert self._source is not None
        return self._source

    def close(self) -> None:
        """Close the source; what was not checkpointed is read again."""
        if self._source is not None:
            self._source.close()
            self._source = None

    def note_changes(self) -> None:
        """Store the changes of the source's files, if all its records are stored."""
        if self._source is None or self.n_unsaved:
            return
        changes = self._source.take_changes()
        if changes.seen or changes.gone:
            with transaction(self.device.connection):
                store_changes(self.device, self._stream, changes)

    def _require_begun(self) -> None:
        """Refuse to read by a clock that is wrong for certain: no server takes such a slot."""
        clocks = self._clocks()
        if self._cutter.by_time and clocks.latest_believable < self._cutter.rule.origin:
            fix = "wait until the study begins, or set this machine's clock if it is wrong"
            raise RecordError(
                f"is not read: by the clock it is {format_time(clocks.device)}, before the study's "
                "first window",
                field=f"stream {self._stream.name}",
                fix=f"{fix if clocks.agree else describe_difference(clocks)}; nothing is lost",
            )

    def is_outbox_full(self) -> bool:
        """Return whether no more windows may be closed: too many sketches wait already."""
        most = self.device.settings.outbox.most_bytes
        if self._waiting_bytes is None or self._waiting_bytes >= most:
            self._waiting_bytes = count_waiting_bytes(self.device.connection)
        return self._waiting_bytes >= most

    def require_affordable(self) -> None:
        """Check, once for each window, that the owner's budget pays for the next release.

        Call it before the sum grows: what can never be released should not pile up on the disk.
        """
        if self._affordable != self._state.next_sequence:
            self.device.require_affordable(self._stream.name, self._state.next_sequence)
            self._affordable = self._state.next_sequence

    def use(self, device: Device) -> None:
        """Go on under other settings of the same device."""
        self.device = device
        self._affordable = None

    def add(self, batch: RecordBatch) -> None:
        """Add records to the open window, and release each window that they complete."""
        if not len(batch.timestamps):
            return
        clocks = self._clocks()
        now = clocks.latest_believable
        if self._first_times is not None and self._first_times.is_open:
            self._first_times.require_readable(batch.timestamps, now=max(clocks.known))
        self._count(batch.values)
        if (inside := self._cutter.find_inside(batch.timestamps)) is not None:
            self._n_left_out += int(np.count_nonzero(~inside))
        for cut in self._cutter.cut(self._state.window, batch.timestamps, now=now):
            self._add_cut(batch, cut, now=now)

    def _add_cut(self, batch: RecordBatch, cut: Cut, *, now: float) -> None:
        if cut.taken > cut.start:
            self.require_affordable()
            if not self._state.window.n_records:
                self._open_window(cut.closed or cut.state, now=now)
            self._accumulator.add(batch.values[cut.start : cut.taken])
        if cut.stop > cut.start:
            position = batch.position_after(cut.stop - 1)
            is_last = cut.stop == len(batch.timestamps)
            for each in (position, *(batch.beside() if is_last else ())):
                self._positions[each.source] = each
            self.n_unsaved += cut.stop - cut.start
        if cut.closed is not None:
            self._release(cut.closed, cut.state)
        else:
            self._state = replace(self._state, window=cut.state)

    def _open_window(self, window: WindowState, *, now: float) -> None:
        """Choose the features of a window by its number, or its first slot, or the slot of now."""
        turn = self._state.next_sequence
        if self._cutter.by_time:
            turn = self._cutter.rule.slot_of(now)
            if window.first_slot is not None:
                turn = window.first_slot
        block = choose_block(self.device, self._stream, turn=turn)
        self._state = replace(self._state, block=block)
        self._accumulator = self._restore_accumulator()

    def close_over(self) -> bool:
        """Release the open window if its time is over by every clock; return whether it was."""
        clocks = self._clocks()
        window = self._cutter.settle(self._state.window, now=clocks.latest_believable)
        self._state = replace(self._state, window=window)
        delay = 0.0 if self._source is None else self._source.delay_s
        over = self._cutter.close_over(window, clocks=[now - delay for now in clocks.closing])
        if over is None or not clocks.may_close or self.is_outbox_full():
            return False
        self._release(*over)
        return True

    def is_settled(self) -> bool:
        """Return whether every clock is past the plan's times, and what closed by them is stored.

        A window that is open then has fewer records than a sketch must have.
        """
        clocks, end = self._clocks(), self.device.plan.window.end
        delay = self._delay_s
        is_past = end is not None and all(now - delay >= end for now in clocks.closing)
        return is_past and clocks.may_close and not self.is_outbox_full()

    def describe_held_up(self) -> str | None:
        """Describe a window that is over by one clock and open by another; None without one."""
        clocks = self._clocks()
        is_over = self._cutter.is_over(self._state.window, now=max(clocks.known))
        return describe_difference(clocks) if is_over and not clocks.may_close else None

    def _release(self, closed: WindowState, following: WindowState) -> None:
        origins = self._find_origins()
        event = self.device.require_affordable(
            self._stream.name, self._state.next_sequence, origins
        )
        release = release_window(
            self.device,
            self._state,
            self._accumulator,
            closed=closed,
            following=following,
            positions=tuple(self._positions.values()),
            origins=origins,
            event=event,
            now=self._clock(),
        )
        if self._waiting_bytes is not None:
            self._waiting_bytes += len(release.message)
        self._state = release.state
        self._accumulator = self._restore_accumulator()
        if self._source is not None:
            self._source.released(
                Position(source=p.source, place=p.place) for p in self._positions.values()
            )
        self._positions.clear()
        self.n_unsaved = 0
        self.note_changes()
        self.summary.released += 1

    def checkpoint(self) -> None:
        """Save the open window and the positions behind its last record, together."""
        accumulator = self._accumulator
        self._state = replace(
            self._state,
            n_unsketchable=accumulator.n_unsketchable,
            sums=accumulator.sums if accumulator.n_records else None,
        )
        checkpoint(
            self.device.connection,
            self._state,
            tuple(self._positions.values()),
            self._find_origins(),
        )
        self.n_unsaved = 0
        self.note_changes()

    def _find_origins(self) -> set[Origin]:
        return self._stream.find_origins(self.device.plan, self._positions.values())

    def _restore_accumulator(self) -> SketchAccumulator:
        state = self._state
        return restore_accumulator(
            self.device,
            make_statistic(self.device, self._stream, block=state.block),
            first_record=state.first_record,
            sums=state.sums,
            n_records=state.window.n_records,
            n_unsketchable=state.n_unsketchable,
        )

    def _count(self, values: Floats) -> None:
        space = self.device.plan.space
        sketchable = self.device.plan.find_sketchable(values)
        outside = np.isfinite(values) & ((values < space.lower) | (values > space.upper))
        outside &= sketchable[:, None]
        self._outside += np.count_nonzero(outside, axis=0)
        self._n_judged += len(values)
        self.counts.records_read += len(values)
        self.counts.unsketchable += int(np.count_nonzero(~sketchable))
        self.counts.out_of_bounds += int(np.count_nonzero(outside.any(axis=1)))

    def take_warnings(self) -> list[str]:
        """Return a warning for each dimension that lay out of bounds often since the last call."""
        warnings = []
        for dimension, count in zip(self.device.plan.dimensions, self._outside, strict=True):
            share = int(count) / max(1, self._n_judged)
            if share > _HIGH_SHARE:
                warnings.append(
                    f"{dimension.name}: {share:.0%} of the records lie outside the plan's bounds "
                    "and were clipped to them. Check the unit, or ask the study's operator"
                )
        self._outside.fill(0)
        self._n_judged = 0
        return warnings
