"""Reading one stream: records into windows, windows into releases, and a checkpoint at the end."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from device_agent.agent.clocks import Clocks, describe_difference
from device_agent.agent.device import Clock, Device
from device_agent.agent.release import draw_release
from device_agent.settings import StreamSettings
from device_agent.sources import KnownPosition, Position, RecordBatch, RecordSource, open_source
from device_agent.store import (
    StoredPosition,
    StreamState,
    checkpoint,
    commit_release,
    load_positions,
    load_stream,
)
from device_agent.windows import Cut, WindowCutter, WindowState
from shared.core import SketchAccumulator, SketchOperator
from shared.errors import LedgerError, SketchError

_HIGH_SHARE = 0.1


@dataclass(kw_only=True)
class ReadCounts:
    """Records and bytes of one stream that were read in a run."""

    records_read: int = 0
    unsketchable: int = 0
    out_of_bounds: int = 0
    raw_bytes_read: int = 0


@dataclass(kw_only=True)
class StreamSummary:
    """What happened to one stream; ``counts`` is None where the number of records is secret."""

    name: str
    released: int = 0
    counts: ReadCounts | None = None
    messages: list[str] = field(default_factory=list)
    error: SketchError | None = None

    def count(self, name: str) -> int | None:
        """Return one of the counts; None where it is secret."""
        return None if self.counts is None else int(getattr(self.counts, name))


def make_operator(device: Device, stream: StreamSettings) -> SketchOperator:
    """Return the sketch operator of a stream."""
    return device.plan.operator(device.key.device_id + b"/" + stream.name.encode("utf-8"))


def require_not_suspended(state: StreamState) -> None:
    """Refuse a stream that was stopped, with a ``LedgerError``."""
    if state.suspended:
        raise LedgerError(
            f"is suspended: {state.suspended}",
            field=f"stream {state.name}",
            fix="ask the study's operator; a new device needs another state_dir",
        )


def open_stream_source(device: Device, stream: StreamSettings) -> RecordSource:
    """Open a stream's source behind what was read; close it."""
    known = [
        KnownPosition(stream=p.stream, position=Position(source=p.source, place=p.place))
        for p in load_positions(device.connection)
    ]
    return open_source(stream, [d.name for d in device.plan.dimensions], known)


def read_stream(
    device: Device, stream: StreamSettings, *, clocks: Clocks, clock: Clock
) -> StreamSummary:
    """Read a stream's new records and release the windows that are complete.

    An error ends the reading of this stream alone and stands in the summary; what was released
    before it stays released, and records behind the last release are read again.
    """
    summary = StreamSummary(name=stream.name)
    try:
        _StreamReader(device, stream, clocks, clock, summary).run()
    except SketchError as error:
        summary.error = error
    return summary


class _StreamReader:
    def __init__(
        self,
        device: Device,
        stream: StreamSettings,
        clocks: Clocks,
        clock: Clock,
        summary: StreamSummary,
    ) -> None:
        self._device = device
        self._stream = stream
        self._clocks = clocks
        self._clock = clock
        self._summary = summary
        self._cutter = WindowCutter.of_plan(device.plan)
        self._operator = make_operator(device, stream)
        self._state = load_stream(device.connection, stream.name)
        self._accumulator = self._restore_accumulator()
        self._source: RecordSource | None = None
        # Behind the last record added of each of the source's files, those of this window alone.
        self._positions: dict[str, StoredPosition] = {}
        self._outside = np.zeros(device.plan.n_dimensions, dtype=np.int64)
        self._counts = summary.counts = ReadCounts()

    def run(self) -> None:
        require_not_suspended(self._state)
        with closing(open_stream_source(self._device, self._stream)) as source:
            self._source = source
            try:
                for batch in source.read():
                    self._add_batch(batch)
            finally:
                self._counts.raw_bytes_read = source.report.bytes_read
                self._summary.messages += source.report.describe()
        self._describe_outside()
        self._finish()

    def _add_batch(self, batch: RecordBatch) -> None:
        now = self._clocks.latest_believable
        self._count(batch.values)
        for cut in self._cutter.cut(self._state.window, batch.timestamps, now=now):
            self._add_cut(batch, cut)

    def _add_cut(self, batch: RecordBatch, cut: Cut) -> None:
        if cut.stop > cut.start:
            # Before the sum grows: what can never be released should not pile up on the disk.
            self._device.require_affordable(self._stream.name, self._state.next_sequence)
            self._accumulator.add(batch.values[cut.start : cut.stop])
            position = batch.position_after(cut.stop - 1)
            self._positions[position.source] = StoredPosition(
                stream=self._stream.name, source=position.source, place=position.place
            )
        if cut.closed is not None:
            self._release(cut.closed, cut.state)
        else:
            self._state = replace(self._state, window=cut.state)

    def _finish(self) -> None:
        """Close the open window if its time is over, or save it."""
        window = self._cutter.settle(self._state.window, now=self._clocks.latest_believable)
        self._state = replace(self._state, window=window)
        over = self._cutter.close_over(window, clocks=self._clocks.closing)
        if over is not None and self._clocks.agree:
            self._release(*over)
        elif self._positions:
            self._checkpoint()
        device_says_over = self._cutter.is_over(window, now=self._clocks.device)
        if not self._clocks.agree and device_says_over:
            self._summary.messages.append(describe_difference(self._clocks))

    def _release(self, closed: WindowState, following: WindowState) -> None:
        event = self._device.require_affordable(self._stream.name, self._state.next_sequence)
        release = draw_release(
            self._device,
            state=self._state,
            closed=closed,
            following=following,
            accumulator=self._accumulator,
            positions=tuple(self._positions.values()),
            event=event,
            now=self._clock(),
        )
        commit_release(self._device.connection, release)
        self._accumulator.sums.fill(0)
        self._state = release.state
        self._accumulator = self._restore_accumulator()
        if self._source is not None:
            self._source.released(
                Position(source=p.source, place=p.place) for p in self._positions.values()
            )
        self._positions.clear()
        self._summary.released += 1

    def _checkpoint(self) -> None:
        accumulator = self._accumulator
        self._state = replace(
            self._state,
            n_unsketchable=accumulator.n_unsketchable,
            sums=accumulator.sums if accumulator.n_records else None,
        )
        checkpoint(self._device.connection, self._state, tuple(self._positions.values()))

    def _restore_accumulator(self) -> SketchAccumulator:
        state, engine = self._state, self._device.settings.engine
        if state.sums is None:
            return SketchAccumulator(self._operator, first_record=state.first_record, engine=engine)
        return SketchAccumulator.restore(
            self._operator,
            first_record=state.first_record,
            sums=state.sums,
            n_records=state.window.n_records,
            n_unsketchable=state.n_unsketchable,
            engine=engine,
        )

    def _count(self, values: NDArray[np.float64]) -> None:
        finite = np.isfinite(values).all(axis=1)
        dimensions = self._device.plan.dimensions
        lower = np.array([dimension.lower for dimension in dimensions])
        upper = np.array([dimension.upper for dimension in dimensions])
        sketchable = values[finite]
        outside = (sketchable < lower) | (sketchable > upper)
        self._outside += np.count_nonzero(outside, axis=0)
        self._counts.records_read += len(values)
        self._counts.unsketchable += int(np.count_nonzero(~finite))
        self._counts.out_of_bounds += int(np.count_nonzero(outside.any(axis=1)))

    def _describe_outside(self) -> None:
        for dimension, count in zip(self._device.plan.dimensions, self._outside, strict=True):
            share = int(count) / max(1, self._counts.records_read)
            if share > _HIGH_SHARE:
                self._summary.messages.append(
                    f"{dimension.name}: {share:.0%} of the records lie outside the plan's bounds "
                    "and were clipped to them. Check the unit, or ask the study's operator"
                )
