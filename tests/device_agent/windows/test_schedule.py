import math

import numpy as np
from hypothesis import given, strategies as st

from sfumato.device_agent.windows import LEFT_OUT, SlotSchedule
from sfumato.shared.plan import WindowRule

LENGTH = 1000
ORIGIN = 1_700_000_000
SCHEDULE = SlotSchedule(rule=WindowRule(kind="time", origin=ORIGIN, length_s=LENGTH))
moments = st.floats(min_value=ORIGIN - 3 * LENGTH, max_value=ORIGIN + 40 * LENGTH)
runs_of_clocks = st.lists(st.lists(moments, min_size=1, max_size=2), max_size=12)


@given(runs_of_clocks)
def test_every_slot_gets_exactly_one_sketch_in_order_whatever_the_clocks_do(
    runs: list[list[float]],
) -> None:
    released: list[int] = []
    for run in runs:
        due = SCHEDULE.find_due(len(released), clocks=run)
        released += due
        assert all(SCHEDULE.rule.slot_bounds(slot)[1] <= now for slot in due for now in run)
        assert SCHEDULE.find_open(due, now=run[0]) >= len(released)
    assert released == list(range(len(released)))
    latest = max((min(run) for run in runs), default=0.0)
    assert len(released) == max(0, SCHEDULE.rule.slot_of(latest))


times = st.lists(st.one_of(moments, st.sampled_from([math.nan, math.inf, -math.inf])), max_size=30)


@given(times, st.integers(0, 20), st.integers(0, 20), st.integers(0, 30))
def test_where_a_record_belongs_depends_on_no_other_record(
    timestamps: list[float], next_slot: int, more: int, removed: int
) -> None:
    bounds = {"next_slot": next_slot, "last_slot": next_slot + more}
    found = SCHEDULE.assign(np.array(timestamps), **bounds)
    index = removed % max(1, len(timestamps))
    without = timestamps[:index] + timestamps[index + 1 :]
    assert np.array_equal(
        SCHEDULE.assign(np.array(without), **bounds), np.delete(found, slice(index, index + 1))
    )
    for slot, timestamp in zip(found.tolist(), timestamps, strict=True):
        own = next_slot if math.isnan(timestamp) else timestamp
        inside = not math.isnan(timestamp) and at(next_slot) <= own < at(next_slot + more + 1)
        if inside:
            assert slot == SCHEDULE.rule.slot_of(timestamp)
        else:
            assert slot == (next_slot + more if own >= at(next_slot + more + 1) else next_slot)


def at(slot: float) -> float:
    return ORIGIN + slot * LENGTH


N_SLOTS = 6
ENDING = SlotSchedule(
    rule=WindowRule(kind="time", origin=ORIGIN, length_s=LENGTH, end=ORIGIN + N_SLOTS * LENGTH),
    is_bounded=True,
)


@given(runs_of_clocks)
def test_a_study_with_an_end_gets_one_sketch_for_each_slot_before_it(
    runs: list[list[float]],
) -> None:
    released: list[int] = []
    for run in runs:
        due = ENDING.find_due(len(released), clocks=run)
        released += due
        assert ENDING.find_open(due, now=run[0]) < N_SLOTS
    assert released == list(range(len(released)))
    latest = max((min(run) for run in runs), default=0.0)
    assert len(released) == min(max(0, ENDING.rule.slot_of(latest)), N_SLOTS)


@given(times, st.integers(0, 8), st.integers(0, 8), st.booleans())
def test_a_bounded_study_leaves_out_records_of_other_times_and_moves_no_other(
    timestamps: list[float], next_slot: int, last_slot: int, has_end: bool
) -> None:
    rule = ENDING.rule if has_end else SCHEDULE.rule
    schedule = SlotSchedule(rule=rule, is_bounded=True)
    stamps = np.array(timestamps, dtype=np.float64)
    found = schedule.assign(stamps, next_slot=next_slot, last_slot=last_slot)
    assert len(found) == len(timestamps)
    joins = SCHEDULE.assign(stamps, next_slot=next_slot, last_slot=max(next_slot, last_slot))
    for slot, timestamp, joined in zip(found.tolist(), timestamps, joins.tolist(), strict=True):
        inside = timestamp >= ORIGIN and (not has_end or timestamp < at(N_SLOTS))
        # All slots are released: nothing can join any more.
        is_over = next_slot > last_slot
        assert slot == (joined if inside and not is_over else LEFT_OUT)
        assert slot == LEFT_OUT or next_slot <= slot <= last_slot
