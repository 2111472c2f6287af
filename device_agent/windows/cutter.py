"""Windows under ``replace-one``: tumbling, cut by counts and times alone.

A late record joins the open window, as does one from the future, which closes none. Closed windows
never reopen, the slot number never goes back, too few records are carried over, and at the most
records a window closes early. Where the plan is
bounded, records outside its times are as if they were not there: they join and close no window.

Where the unit is a device, a slot has one sketch and no more: a full window stays open and leaves
out what follows, and records without a readable time, from the future, or of a closed slot, join no
window.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sfumato.shared.arrays import Bools, Floats
from sfumato.shared.plan import SketchPlan, WindowRule
from sfumato.shared.wire import CLOCK_LEEWAY_S


@dataclass(frozen=True, kw_only=True)
class WindowState:
    """State of a stream that its next decision depends on.

    Parameters
    ----------
    n_records
        Records in the open window; 0 when none is open.
    first_slot, last_slot
        Slots of the open window. None with windows by count, when no window is open, and while no
        record of the stream has had a readable time yet.
    floor_slot
        The lowest slot at which the next window may begin; None before the first is closed.
    """

    n_records: int = 0
    first_slot: int | None = None
    last_slot: int | None = None
    floor_slot: int | None = None


@dataclass(frozen=True, kw_only=True)
class Cut:
    """A run of records that belong together.

    Parameters
    ----------
    start, stop
        The records ``start .. stop - 1`` of those given; may be none.
    taken
        Those before it are in the window; ``taken .. stop - 1`` are left out.
    closed
        The window that they complete, or None when it stays open.
    state
        The state after it.
    """

    start: int
    taken: int
    stop: int
    closed: WindowState | None
    state: WindowState


@dataclass(frozen=True, kw_only=True)
class WindowCutter:
    """Assigns each record to exactly one window.

    Parameters
    ----------
    rule
        Windows by time or by count.
    least_records, most_records
        Fewer are carried over; at the most the window closes early.
    leaves_out
        Whether it stays open instead, and leaves out the records that follow; and those without a
        readable time, or of a closed slot, too.
    is_bounded
        Whether records outside the rule's times are left out, and those that are late after its
        last slot was closed.
    begins
        The first slot; records before it are left out, and those without a readable time: they may
        be of a device that this one replaces.
    """

    rule: WindowRule
    least_records: int
    most_records: int
    leaves_out: bool = False
    is_bounded: bool = False
    begins: int = 0

    @classmethod
    def of_plan(cls, plan: SketchPlan, *, begins: int = 0) -> WindowCutter:
        """Return the cutter of a plan."""
        return cls(
            rule=plan.window,
            least_records=plan.least_records,
            most_records=plan.most_records,
            leaves_out=plan.protects_devices,
            is_bounded=plan.is_bounded,
            begins=begins,
        )

    @property
    def by_time(self) -> bool:
        """True if slots decide; otherwise counts alone do."""
        return self.rule.kind == "time"

    def find_inside(self, timestamps: Floats) -> Bools | None:
        """Return which records may join a window by their times; None where all may."""
        inside = self.rule.find_inside(timestamps) if self.is_bounded else None
        if not self.begins:
            return inside
        is_own: Bools = timestamps >= self.rule.slot_bounds(self.begins)[0]
        return is_own if inside is None else inside & is_own

    def cut(self, state: WindowState, timestamps: Floats, *, now: float) -> Iterator[Cut]:
        """Cut records into runs that end where a window closes; the last run may leave it open.

        Parameters
        ----------
        state
            The state before these records.
        timestamps
            Shape ``(n,)``, seconds since 1970-01-01 UTC; NaN when unreadable.
        now
            The time beyond which no record is believed, same unit.
        """
        # Records `start .. taken - 1` joined the open window since the last cut.
        start = taken = 0
        found = self.find_inside(timestamps)
        inside = None if found is None else found.tolist()
        for i, slot in enumerate(self._slots(timestamps, now)):
            if inside is not None and (not inside[i] or self._has_ended(state)):
                continue
            if self._completes(state, slot):
                closed, state = self._close(state)
                yield Cut(start=start, taken=taken, stop=i, closed=closed, state=state)
                start = taken = i
            if self.leaves_out and self._is_left_out(state, slot):
                continue
            if taken < i:
                yield Cut(start=start, taken=taken, stop=i, closed=None, state=state)
                start = i
            state = self._join(state, slot)
            taken = i + 1
            if state.n_records == self._most() and not self.leaves_out:
                closed, state = self._close_full(self.settle(state, now=now))
                yield Cut(start=start, taken=taken, stop=taken, closed=closed, state=state)
                start = taken
        if start < len(timestamps):
            stop = len(timestamps)
            yield Cut(start=start, taken=taken, stop=stop, closed=None, state=state)

    def _is_left_out(self, state: WindowState, slot: int | None) -> bool:
        """Return whether a record joins no window, so that a slot has one sketch and no more.

        It has no readable time, the window is full, or its slot is closed: a later one may be open.
        """
        if slot is None or state.n_records == self._most():
            return True
        lowest = state.floor_slot if state.last_slot is None else state.last_slot
        return lowest is not None and slot < lowest

    def _has_ended(self, state: WindowState) -> bool:
        """Return whether the study's last slot is closed, so that no window may open any more."""
        n_slots, floor = self.rule.n_slots, state.floor_slot
        is_over = n_slots is not None and floor is not None and floor >= n_slots
        return is_over and state.last_slot is None

    def settle(self, state: WindowState, *, now: float) -> WindowState:
        """Give a window of records without readable times the slot of now, if it has none yet."""
        if not self.by_time or not state.n_records or state.last_slot is not None:
            return state
        slot = self.rule.slot_of(now)
        return replace(state, first_slot=slot, last_slot=slot)

    def is_over(self, state: WindowState, *, now: float) -> bool:
        """Return whether the open window has enough records and its slot has ended by ``now``."""
        if not self.by_time or state.last_slot is None or state.n_records < self.least_records:
            return False
        return self.rule.slot_bounds(state.last_slot)[1] <= now

    def close_over(
        self, state: WindowState, *, clocks: Sequence[float]
    ) -> tuple[WindowState, WindowState] | None:
        """Return the window and the state after it, if it is over by every clock; else None."""
        return self._close(state) if all(self.is_over(state, now=now) for now in clocks) else None

    def _most(self) -> int:
        return self.most_records if self.by_time else self.rule.length

    def _slots(self, timestamps: Floats, now: float) -> Iterator[int | None]:
        if not self.by_time:
            yield from (None for _ in timestamps)
            return
        latest = self.rule.slot_of(now)
        for timestamp in timestamps.tolist():
            # One garbled year must not close the windows of the records behind it. NaN is no time.
            is_believed = timestamp <= now + CLOCK_LEEWAY_S
            yield min(self.rule.slot_of(timestamp), latest) if is_believed else None

    def _completes(self, state: WindowState, slot: int | None) -> bool:
        return (
            slot is not None
            and state.last_slot is not None
            and slot > state.last_slot
            and state.n_records >= self.least_records
        )

    def _join(self, state: WindowState, slot: int | None) -> WindowState:
        first, last = state.first_slot, state.last_slot
        if last is None:
            first = last = self._opening_slot(state, slot)
        elif slot is not None:
            last = max(last, slot)
        return replace(state, n_records=state.n_records + 1, first_slot=first, last_slot=last)

    def _opening_slot(self, state: WindowState, slot: int | None) -> int | None:
        # A record that is late, or of unknown time, opens the lowest slot that is left: a higher
        # one would swallow the records that are still to come.
        if slot is None or state.floor_slot is None:
            return state.floor_slot if slot is None else slot
        return max(slot, state.floor_slot)

    def _close(self, state: WindowState) -> tuple[WindowState, WindowState]:
        """Close at the end of a slot: the next window begins in a later one."""
        floor = None if state.last_slot is None else state.last_slot + 1
        return state, WindowState(floor_slot=floor)

    def _close_full(self, state: WindowState) -> tuple[WindowState, WindowState]:
        """Close at the most records: the next window may begin in the same slot."""
        return state, WindowState(floor_slot=state.last_slot)
