"""Reading of one stream under ``add-remove-one``: the clock alone decides what is released when.

Nothing that a run reports, stores for good or does on the network depends on how many records there
were, or on what was unusable about them, and no error of a source holds up a slot. Only positions,
and sums until their slot is over, stay on the device.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial

import numpy as np

from sfumato.device_agent.agent.device import Device
from sfumato.device_agent.agent.membership import require_joined
from sfumato.device_agent.agent.reading.release import release_window
from sfumato.device_agent.agent.reading.windows import (
    ENVELOPE_BYTES,
    StreamSummary,
    choose_block,
    make_statistic,
    open_stream_source,
    restore_accumulator,
    store_changes,
)
from sfumato.device_agent.sources import Position, RecordBatch
from sfumato.device_agent.sources.settings import StreamSettings
from sfumato.device_agent.store.positions import load_positions, write_positions
from sfumato.device_agent.store.streams import (
    SlotSum,
    adding_to_slots,
    load_slot,
    load_stream,
    note_origins,
    write_slot,
)
from sfumato.device_agent.windows import LEFT_OUT, Clocks, SlotSchedule, WindowState
from sfumato.shared.arrays import Integers
from sfumato.shared.core import SketchAccumulator
from sfumato.shared.errors import BudgetExceededError, SketchError
from sfumato.shared.plan import SketchPlan

_SHOWN_SLOTS = 100
"""Number of due slots from which they are announced, and counted while they are released."""
_SECONDS_A_SLOT = (0.005, 0.05)
"""Durable storage of one slot, seconds: on a fast disk, and on a slow one."""
_MOST_OPENED = 8
"""Sums held in memory while reading; records come roughly in the order of their slots."""


def plan_slots(device: Device, stream: str, *, clocks: Clocks) -> tuple[range, int]:
    """Return the slots that are due, and the latest that records may join; see ``SlotSchedule``."""
    return SlotSchedule.of_plan(device.plan).plan(
        load_stream(device.connection, stream).next_sequence,
        clocks=clocks,
        require_affordable=partial(device.require_all_affordable, stream),
    )


def describe_due(plan: SketchPlan, due: range) -> str:
    """Describe the sketches of the slots that are due."""
    size = plan.payload_bytes + ENVELOPE_BYTES
    return f"{len(due):,} sketch(es) of about {size} bytes, one for each slot that is over"


class SlotReader:
    """Reader of one stream: counts are secret, and every slot that is over is released.

    Parameters
    ----------
    clocks
        The clocks at the beginning of the run: how long it takes must not show.
    show
        Shows the progress where many slots are due. It depends on their number alone.
    """

    def __init__(
        self,
        device: Device,
        stream: StreamSettings,
        *,
        clocks: Clocks,
        show: Callable[[str], None],
    ) -> None:
        self._show = show
        self.summary = StreamSummary(name=stream.name)
        self._device = device
        self._stream = stream
        self._clocks = clocks
        self._schedule = SlotSchedule.of_plan(device.plan)
        self._state = load_stream(device.connection, stream.name)
        self._origins = stream.find_origins(device.plan)
        self._event = device.make_event(stream.name, self._state.next_sequence)

    def read_all(self) -> None:
        """Add each new record to its slot, and release every slot that is over, empty ones too.

        An error of the source ends the reading, but holds up no slot: records that could not be
        read in time join a later one.
        """
        self._state.require_not_suspended()
        require_joined(self._device.settings, self._stream)
        due, latest = plan_slots(self._device, self._stream.name, clocks=self._clocks)
        is_long = len(due) >= _SHOWN_SLOTS
        if is_long:
            least, most = (len(due) * seconds / 60 for seconds in _SECONDS_A_SLOT)
            self._show(
                f"stream {self._stream.name}: releases {describe_due(self._device.plan, due)}, "
                f"also where it has no records; it takes {least:.1f} to {most:.1f} minutes"
            )
        try:
            # As a whole or not at all: where a source breaks off among the batches, the number of
            # records before would decide which of them are in time.
            with adding_to_slots(self._device.connection):
                self._read(next_slot=due.start, latest=latest)
                self._device.require_all_affordable(self._stream.name, due, self._origins)
        except BudgetExceededError as error:
            # A file was released before, in another stream or study: nothing was added.
            self.summary.error = error
            return
        except SketchError as error:
            self.summary.error = error
        for slot in due:
            self._release(slot)
            n_done = self.summary.released
            if is_long and n_done % max(_SHOWN_SLOTS, len(due) // 10) == 0:
                self._show(f"stream {self._stream.name}: {n_done:,} of {len(due):,} are released")
        if held := self._schedule.describe_held(due, self._clocks):
            self.summary.messages.append(held)

    def _read(self, *, next_slot: int, latest: int) -> None:
        opened: dict[int, SketchAccumulator] = {}
        positions: dict[str, Position] = {}
        with closing(open_stream_source(self._device, self._stream)) as source:
            for batch in source.read():
                if not len(batch.timestamps):
                    continue
                slots = self._schedule.assign(
                    batch.timestamps, next_slot=next_slot, last_slot=latest
                )
                self._add_batch(batch, slots, opened)
                position = batch.position_after(len(slots) - 1)
                positions[position.source] = position
            self._write(opened, keep=0)
            write_positions(self._device.connection, self._stream.name, positions.values())
            store_changes(self._device, self._stream, source.take_changes())
            # Of every file that is known, for those that gave a record would tell where one was.
            known = load_positions(self._device.connection)
            own = [k.position for k in known if k.stream == self._stream.name]
            self._origins |= self._stream.find_origins(self._device.plan, own)
            note_origins(self._device.connection, self._stream.name, self._origins)

    def _add_batch(
        self, batch: RecordBatch, slots: Integers, opened: dict[int, SketchAccumulator]
    ) -> None:
        for slot in np.unique(slots[slots != LEFT_OUT]).tolist():
            if slot not in opened:
                self._write(opened, keep=_MOST_OPENED - 1)
                opened[slot] = self._restore(slot)
            opened[slot].add(batch.values[slots == slot])

    def _write(self, opened: dict[int, SketchAccumulator], *, keep: int) -> None:
        """Write the sums that were opened first, until ``keep`` are left in memory."""
        while len(opened) > keep:
            slot = next(iter(opened))
            accumulator = opened.pop(slot)
            found = SlotSum(slot=slot, n_records=accumulator.n_records, sums=accumulator.sums)
            write_slot(self._device.connection, self._stream.name, found)

    def _restore(self, slot: int) -> SketchAccumulator:
        block = choose_block(self._device, self._stream, turn=slot)
        statistic = make_statistic(self._device, self._stream, block=block)
        stored = load_slot(self._device.connection, self._stream.name, slot)
        if stored is None:
            return restore_accumulator(self._device, statistic)
        return restore_accumulator(
            self._device, statistic, sums=stored.sums, n_records=stored.n_records
        )

    def _release(self, slot: int) -> None:
        """Release a slot under its own number; an empty one is released as any other."""
        release = release_window(
            self._device,
            replace(self._state, block=choose_block(self._device, self._stream, turn=slot)),
            self._restore(slot),
            closed=WindowState(first_slot=slot, last_slot=slot),
            following=WindowState(),
            positions=(),
            origins=self._origins,
            event=replace(self._event, sequence=slot),
            # The time of the run, for how long reading took tells how much there was.
            now=self._clocks.device,
        )
        self._state = release.state
        self.summary.released += 1
