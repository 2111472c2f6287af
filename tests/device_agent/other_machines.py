"""The same model for every other kind of sketch than whole sums of features."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from sfumato.shared.core import SketchAccumulator
from sfumato.shared.plan import SketchPlan, WindowRule
from sfumato.shared.wire import PayloadForm, SketchMessage, decode_message
from tests.device_agent.conftest import BASE, HOUR, make_other_plan, make_plan
from tests.device_agent.daemons import query
from tests.device_agent.machines import LOUD, MOST_RELEASES, Agents

TEXTS = [(0.0, "a"), (1.0, "é"), (2.0, '"1, or 2"'), (np.nan, "A"), (0.0, " a "), (np.nan, "")]
"""Levels by number, and as a file of CSV has them; others are missing."""

REPORTS = make_plan(
    release="phase.v1",
    least_records=None,
    most_records=None,
    most_sketches_per_device=MOST_RELEASES + 1,
    window=LOUD["window"],
)
# The clocks of the machine jump by up to 5000 hours, and it knows no study that has not begun.
BOUNDS = WindowRule(kind="time", origin=BASE - 9000 * HOUR, length_s=HOUR, end=BASE + 1000 * HOUR)
BOUNDED = make_plan(
    least_records=3,
    most_records=20,
    **(LOUD | {"window": BOUNDS, "late_rule": "leave-out-outside"}),
)


def make_statistic(statistic: str, **choices: Any) -> SketchPlan:
    return make_other_plan(statistic, least_records=3, most_records=20, **LOUD, **choices)


class BoundedAgents(Agents):
    """Records of other times, and those without a readable one, are as if they were not there."""

    plan = BOUNDED

    def _note_garbage(self, *, has_time: bool) -> None:
        if has_time:
            super()._note_garbage(has_time=True)

    @rule(n=st.integers(1, 6), time=st.sampled_from([BOUNDS.origin - 1, BOUNDS.end, 0, 1e12]))
    def append_outside(self, n: int, time: float) -> None:
        with self.driver.records.open("a") as file:
            file.write(f"{time},3.0,3.0\n" * n)
        self._touch()


class PersonalAgents(Agents):
    """A slot has one sketch: the mean of its first records."""

    plan = make_plan(unit="device", most_records=4, **LOUD)

    @rule(hours=st.sampled_from([0, 1, 5000]), whose=st.sampled_from("dsb"))
    def jump(self, hours: int, whose: str) -> None:
        """Never back: a record that is read while clocks are behind joins another window."""
        super().jump(hours, whose)

    def _note_garbage(self, *, has_time: bool) -> None:
        # What has no time joins no window.
        if has_time:
            super()._note_garbage(has_time=True)

    @invariant()
    def each_sketch_holds_the_next_records_and_no_other(self) -> None:
        """Each is the mean of a run of records behind those of the sketch before it."""
        first, last_slot = 0, -1
        rows = query(self.driver.state, "SELECT sequence, message FROM outbox ORDER BY sequence")
        for sequence, body in rows:
            self.bodies.setdefault(sequence, body)
            assert body in (self.bodies[sequence], None)
            message = decode_message(self.bodies[sequence])
            assert message.header.n_records == 1
            slots = message.header.slots
            assert slots is not None
            assert slots[0] == slots[1] > last_slot
            last_slot = slots[1]
            first = self._find_end(message, first)

    def _find_end(self, message: SketchMessage, first: int) -> int:
        """Return the place behind the first run of records that a sketch is the mean of."""
        (released,) = PayloadForm.of(self.plan).decode(message.payload)
        statistic = self.plan.statistic_of(b"")
        for stop, joined in self._find_runs(first):
            exact = SketchAccumulator(statistic)
            exact.add(np.array(joined))
            mean = self.plan.finish_sum(exact.sums, len(joined))
            if np.abs(released - mean).max() <= self.noise:
                return stop
        raise AssertionError(f"sketch {message.header.sequence} is the mean of no records")

    def _find_runs(self, first: int) -> Iterator[tuple[int, list[tuple[float, float]]]]:
        """Yield the end of each run of records, and those that join one window.

        Garbage may come late, and is then left out from between the others.
        """
        for start in range(first, len(self.values)):
            for stop in range(start + 1, len(self.values) + 1):
                run = self.values[start:stop]
                whole = [record for record in run if not np.isnan(record[0])]
                if len(whole) > self.plan.most_records:
                    break
                garbage = [record for record in run if np.isnan(record[0])]
                for n_garbage in range(len(garbage) + 1):
                    joined = [*whole, *garbage[:n_garbage]]
                    if 0 < len(joined) <= self.plan.most_records:
                        yield stop, joined

    def _require_all_counted(self) -> None:
        """Nothing is left to be read; what was left out is nowhere."""


class Phones(PersonalAgents):
    """A slot has one report, and its noise hides which record it is of."""

    plan = REPORTS

    def _find_end(self, message: SketchMessage, first: int) -> int:
        assert len(message.payload) == self.plan.payload_bytes
        return first


class MixedColumns(Agents):
    """A number that is missing now and then, and text, some of which is no level."""

    plan = make_statistic("columns")

    def _note_values(self, i: int, x: str, y: str) -> tuple[str, str]:
        number, text = TEXTS[i % len(TEXTS)]
        is_missing = i % 3 == 0
        self.values.append((np.nan if is_missing else float(x), number))
        return "" if is_missing else x, text

    def _note_garbage(self, *, has_time: bool) -> None:
        super()._note_garbage(has_time=has_time)
        # A number is no level.
        self.values[-1] = (np.nan, np.nan)


def with_plan(plan: SketchPlan, of: type[Agents] = Agents) -> type[Agents]:
    return type("PlannedAgents", (of,), {"plan": plan})


SPLIT = make_plan(least_records=3, most_records=20, frequencies_per_sketch=2, **LOUD)
OF_ONE_RECORD = make_other_plan("histogram", unit="device", most_records=1, **LOUD)
KINDS = {
    "bounded": BoundedAgents,
    "split": with_plan(SPLIT),
    "means": PersonalAgents,
    "reports": Phones,
    "histogram": with_plan(make_statistic("histogram", dimensions_per_sketch=1)),
    "grid": with_plan(make_statistic("grid")),
    "moments": with_plan(make_statistic("moments")),
    "clusters": with_plan(make_statistic("clusters")),
    "columns": MixedColumns,
    "one record": with_plan(OF_ONE_RECORD, PersonalAgents),
}
