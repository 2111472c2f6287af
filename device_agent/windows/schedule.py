"""Slots under ``add-remove-one``: the clock alone says which are over, and each gets a sketch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.device_agent.windows.clocks import Clocks, describe_difference, describe_uncertain
from sfumato.shared.arrays import Floats, Integers
from sfumato.shared.errors import BudgetExceededError
from sfumato.shared.plan import SketchPlan, WindowRule

LEFT_OUT = -1
"""The slot of a record that joins none."""


@dataclass(frozen=True, kw_only=True)
class SlotSchedule:
    """Schedule of slots if presence is secret: which slots are due, and which one a record joins.

    Guarantees
    ----------
    Streams begin with slot 0; every slot gets one sketch, in order, none skipped and none twice.
    What is due depends on clocks and on what was released, never on records. A record's slot
    depends on its own time, the clock and what was released, never on another record: one record
    more changes one slot's records by itself, and nothing else.

    Parameters
    ----------
    rule
        Windows by time.
    is_bounded
        Whether records outside the rule's times are left out.
    """

    rule: WindowRule
    is_bounded: bool = False

    @classmethod
    def of_plan(cls, plan: SketchPlan) -> SlotSchedule:
        """Return the schedule of a plan."""
        return cls(rule=plan.window, is_bounded=plan.is_bounded)

    def find_due(self, next_slot: int, *, clocks: Sequence[float]) -> range:
        """Return the slots from ``next_slot`` on that are over by every clock."""
        over = self._keep_within(min(self.rule.slot_of(now) for now in clocks))
        return range(next_slot, max(next_slot, over))

    def find_open(self, due: range, *, now: float) -> int:
        """Return the latest slot that records may join: that of now, or the first not yet due.

        After the last slot of a study that has an end it is one that is released.
        """
        return self._keep_within(max(due.stop, self.rule.slot_of(now)) + 1) - 1

    def _keep_within(self, stop: int) -> int:
        return stop if self.rule.n_slots is None else min(stop, self.rule.n_slots)

    def plan(
        self, next_slot: int, *, clocks: Clocks, require_affordable: Callable[[range], None]
    ) -> tuple[range, int]:
        """Return the slots that are due, and the latest that records may join.

        If the owner's budget does not pay for the open slot too, its records join the last slot
        that is due: what can never be released should not pile up on the disk.

        Parameters
        ----------
        next_slot
            The lowest slot that is not released.
        require_affordable
            Raises ``BudgetExceededError`` if the budget does not pay for all of some slots.

        Raises
        ------
        BudgetExceededError
            The budget does not pay for every slot that is due, or for none at all.
        """
        due = range(next_slot, next_slot)
        if clocks.agree:
            due = self.find_due(next_slot, clocks=clocks.spending)
        require_affordable(due)
        latest = self.find_open(due, now=clocks.latest_believable)
        try:
            require_affordable(range(next_slot, latest + 1))
        except BudgetExceededError:
            if due:
                return due, due.stop - 1
            # If the device's clock is ahead of the certain time, the budget is not at fault.
            certain = self.find_open(due, now=clocks.earliest)
            if certain == latest:
                raise
            require_affordable(range(next_slot, certain + 1))
            latest = certain
        return due, latest

    def describe_held(self, due: range, clocks: Clocks) -> str | None:
        """Describe why slots stay open while the time is uncertain; None if none does."""
        if not clocks.agree:
            return describe_difference(clocks)
        is_over = self.find_due(due.stop, clocks=clocks.closing)
        return describe_uncertain(clocks) if is_over else None

    def assign(self, timestamps: Floats, *, next_slot: int, last_slot: int) -> Integers:
        """Return the slot of each record.

        A record that is late, or of unknown time, joins the lowest slot that is not released; one
        from the future the latest. Where the plan is bounded, records outside its times join none,
        and when all slots are released no record does.

        Parameters
        ----------
        timestamps
            Shape ``(n,)``, seconds since 1970-01-01 UTC; NaN when unreadable.
        next_slot, last_slot
            The lowest and the highest slot that records may join.

        Returns
        -------
        NDArray
            Shape ``(n,)``, int64; ``LEFT_OUT`` for records that join none.
        """
        found = np.floor((timestamps - self.rule.origin) / self.rule.length_s)
        slots: Floats = np.nan_to_num(found, nan=next_slot)
        joined = np.clip(slots, next_slot, last_slot).astype(np.int64)
        if not self.is_bounded:
            return joined
        inside = self.rule.find_inside(timestamps) & (next_slot <= last_slot)
        return np.where(inside, joined, LEFT_OUT)
