import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sfumato.device_agent.windows import WindowCutter, WindowState
from sfumato.shared.plan import WindowRule
from sfumato.shared.wire import CLOCK_LEEWAY_S

LENGTH = 10
NOW_SLOT = 8
NOW = NOW_SLOT * LENGTH + 3.0
FUTURE = 4294967295.0

times = st.lists(
    st.one_of(st.sampled_from([math.nan, FUTURE]), st.integers(-20, 120).map(float)),
    min_size=0,
    max_size=60,
)


@dataclass
class Outcome:
    windows: list[tuple[list[int], WindowState]]
    left: list[int]
    state: WindowState


def by_time(least: int, most: int) -> WindowCutter:
    rule = WindowRule(kind="time", origin=0, length_s=LENGTH)
    return WindowCutter(rule=rule, least_records=least, most_records=most)


def by_count(length: int) -> WindowCutter:
    rule = WindowRule(kind="count", length=length)
    return WindowCutter(rule=rule, least_records=1, most_records=100)


def cut_all(
    cutter: WindowCutter, timestamps: Sequence[float], splits: Sequence[int] = (), now: float = NOW
) -> Outcome:
    outcome = Outcome([], [], WindowState())
    bounds = [0, *sorted(min(split, len(timestamps)) for split in splits), len(timestamps)]
    for begin, end in pairwise(bounds):
        batch = np.array(timestamps[begin:end], dtype=np.float64)
        for cut in cutter.cut(outcome.state, batch, now=now):
            outcome.left += range(begin + cut.start, begin + cut.taken)
            if cut.closed is not None:
                outcome.windows.append((outcome.left, cut.closed))
                outcome.left = []
            outcome.state = cut.state
    return outcome


def model(
    timestamps: Sequence[float], least: int, most: int
) -> tuple[list[tuple[list[int], int, int]], list[int]]:
    """The rules, one after the other, with lists in place of counts."""
    windows: list[tuple[list[int], int, int]] = []
    members: list[int] = []
    first: int | None = None
    last: int | None = None
    floor: int | None = None
    for i, time in enumerate(timestamps):
        # What is older than the plan's origin joins its first slot.
        is_known = time <= NOW + CLOCK_LEEWAY_S
        slot = min(max(math.floor(time / LENGTH), 0), NOW_SLOT) if is_known else None
        is_later = slot is not None and last is not None and slot > last
        if members and is_later and len(members) >= least:
            assert first is not None
            assert last is not None
            windows.append((members, first, last))
            floor, members, first, last = last + 1, [], None, None
        if last is None:
            candidates = [s for s in (slot, floor) if s is not None]
            first = last = max(candidates, default=None)
        elif slot is not None:
            last = max(last, slot)
        members = [*members, i]
        if len(members) == most:
            windows.append(
                (members, NOW_SLOT if first is None else first, NOW_SLOT if last is None else last)
            )
            floor, members, first, last = windows[-1][2], [], None, None
    return windows, members


@given(times, st.integers(1, 4), st.integers(0, 6))
def test_windows_are_those_of_a_simple_model(
    timestamps: list[float], least: int, more: int
) -> None:
    outcome = cut_all(by_time(least, least + more), timestamps)
    windows, left = model(timestamps, least, least + more)
    found = [(members, w.first_slot, w.last_slot) for members, w in outcome.windows]
    assert found == windows
    assert outcome.left == left
    assert outcome.state.n_records == len(left)
    assert all(closed.n_records == len(members) for members, closed in outcome.windows)


@given(times, st.lists(st.integers(0, 60), max_size=4), st.integers(1, 4), st.integers(0, 6))
def test_how_records_arrive_in_batches_changes_nothing(
    timestamps: list[float], splits: list[int], least: int, more: int
) -> None:
    cutter = by_time(least, least + more)
    assert cut_all(cutter, timestamps, splits) == cut_all(cutter, timestamps)


@given(times, st.integers(1, 9))
def test_windows_by_count_know_no_time(timestamps: list[float], length: int) -> None:
    outcome = cut_all(by_count(length), timestamps)
    assert [len(members) for members, _ in outcome.windows] == [length] * (
        len(timestamps) // length
    )
    assert all(window.first_slot is window.last_slot is None for _, window in outcome.windows)


def test_a_record_a_little_ahead_of_the_clock_is_of_now() -> None:
    assert cut_all(by_time(1, 9), [NOW + CLOCK_LEEWAY_S]).state.last_slot == NOW_SLOT


@pytest.mark.parametrize("leaves_out", [False, True])
@given(timestamps=times, place=st.integers(0, 60))
def test_a_record_from_the_future_closes_no_window_of_others(
    leaves_out: bool, timestamps: list[float], place: int
) -> None:
    cutter = replace(by_time(1, 99), leaves_out=leaves_out)
    without = [w.last_slot for _, w in cut_all(cutter, timestamps).windows]
    timestamps.insert(place, FUTURE)
    assert [w.last_slot for _, w in cut_all(cutter, timestamps).windows] == without


def test_the_slot_does_not_go_back_with_the_clock() -> None:
    cutter = by_time(1, 9)
    before = cut_all(cutter, [75.0])
    (cut,) = cutter.cut(before.state, np.array([76.0]), now=12.0)
    assert (cut.state.first_slot, cut.state.last_slot, cut.state.n_records) == (7, 7, 2)


def test_a_window_whose_time_nobody_knows_takes_the_slot_of_now_when_it_settles() -> None:
    cutter = by_time(1, 9)
    outcome = cut_all(cutter, [math.nan, math.nan])
    assert outcome.state.last_slot is None
    assert cutter.settle(outcome.state, now=NOW).last_slot == NOW_SLOT


@pytest.mark.parametrize(
    ("n_records", "clocks", "closes"),
    [
        (1, [20.0], True),
        (1, [19.9], False),
        (1, [20.0, 19.9], False),
        (1, [19.9, 20.0], False),
        (1, [21.0, 20.0], True),
        (0, [21.0], False),
    ],
)
def test_a_window_closes_by_the_clock_only_when_every_clock_agrees(
    n_records: int, clocks: list[float], closes: bool
) -> None:
    cutter = by_time(1, 9)
    state = cut_all(cutter, [15.0] * n_records).state
    closed = cutter.close_over(state, clocks=clocks)
    assert (closed is not None) == closes
    if closed is not None:
        assert closed[1].floor_slot == 2


def test_too_few_records_are_not_released_by_the_clock() -> None:
    cutter = by_time(2, 9)
    assert cutter.close_over(cut_all(cutter, [15.0]).state, clocks=[1e9]) is None


def leave_out(
    timestamps: Sequence[float], most: int
) -> tuple[list[tuple[list[int], int]], list[int]]:
    """Return each slot with its records that were taken: the first in order, and in time."""
    windows: list[tuple[list[int], int]] = []
    for i, timestamp in enumerate(timestamps):
        if math.isnan(timestamp):
            continue
        slot = min(max(0, int(timestamp // LENGTH)), int(NOW // LENGTH))
        if not windows or slot > windows[-1][1]:
            windows.append(([], slot))
        if slot == windows[-1][1] and len(windows[-1][0]) < most:
            windows[-1][0].append(i)
    return windows[:-1], windows[-1][0] if windows else []


@given(
    st.lists(st.one_of(st.floats(0, NOW + LENGTH), st.just(math.nan)), max_size=40),
    st.integers(1, 5),
    st.lists(st.integers(0, 40), max_size=3),
)
def test_where_the_unit_is_a_device_a_slot_has_one_window_with_its_first_records(
    timestamps: list[float], most: int, splits: list[int]
) -> None:
    rule = WindowRule(kind="time", origin=0, length_s=LENGTH)
    cutter = WindowCutter(rule=rule, least_records=1, most_records=most, leaves_out=True)
    state = WindowState()
    taken: list[int] = []
    windows: list[tuple[list[int], int | None]] = []
    done = 0
    bounds = [0, *sorted(min(split, len(timestamps)) for split in splits), len(timestamps)]
    for begin, end in pairwise(bounds):
        batch = np.array(timestamps[begin:end], dtype=np.float64)
        for cut in cutter.cut(state, batch, now=NOW):
            assert (begin + cut.start, cut.start <= cut.taken <= cut.stop) == (done, True)
            done = begin + cut.stop
            taken += range(begin + cut.start, begin + cut.taken)
            if cut.closed is not None:
                assert cut.closed.first_slot == cut.closed.last_slot
                assert cut.closed.n_records == len(taken)
                windows.append((taken, cut.closed.last_slot))
                taken = []
            state = cut.state
    assert done == len(timestamps)
    assert (windows, taken) == leave_out(timestamps, most)


def test_records_of_a_closed_slot_are_left_out_whoever_closed_it() -> None:
    rule = WindowRule(kind="time", origin=0, length_s=LENGTH)
    cutter = WindowCutter(rule=rule, least_records=1, most_records=100, leaves_out=True)
    *_, cut = cutter.cut(WindowState(), np.array([2.5 * LENGTH]), now=NOW)
    over = cutter.close_over(cut.state, clocks=[NOW])
    assert over is not None
    times = np.array([2.6, 2.7, 1.0, math.nan, 7.5, 2.8]) * LENGTH
    cuts = list(cutter.cut(over[1], times, now=NOW))
    assert [(cut.start, cut.taken, cut.stop) for cut in cuts] == [(0, 0, 4), (4, 5, 6)]
    assert cuts[-1].state.last_slot == 7
    assert cuts[-1].state.n_records == 1


START, END = 2 * LENGTH, 5 * LENGTH


def bounded(
    least: int, most: int, *, leaves_out: bool = False, end: int | None = END
) -> WindowCutter:
    """Return the cutter of a study of slots 2 to 4 of the others, or of all from 2 on."""
    rule = WindowRule(kind="time", origin=START, length_s=LENGTH, end=end)
    return WindowCutter(
        rule=rule, least_records=least, most_records=most, leaves_out=leaves_out, is_bounded=True
    )


def is_inside(timestamp: float, end: int | None = END) -> bool:
    return timestamp >= START and (end is None or timestamp < end)


sizes = st.tuples(st.integers(1, 4), st.integers(0, 6), st.booleans()).map(
    # A window of a device has no least number of records.
    lambda drawn: (1 if drawn[2] else drawn[0], drawn[0] + drawn[1], drawn[2])
)
ends = st.sampled_from([None, END])


@given(times, sizes, ends, st.lists(st.integers(0, 60), max_size=3))
def test_records_outside_a_bounded_study_are_as_if_they_were_not_there(
    timestamps: list[float],
    size: tuple[int, int, bool],
    end: int | None,
    splits: list[int],
) -> None:
    least, most, leaves_out = size
    cutter = bounded(least, most, leaves_out=leaves_out, end=end)
    inside = [i for i, t in enumerate(timestamps) if is_inside(t, end)]
    found = cut_all(cutter, timestamps, splits)
    alone = cut_all(cutter, [timestamps[i] for i in inside])
    assert [w for _, w in found.windows] == [w for _, w in alone.windows]
    assert found.state == alone.state
    members = [[inside[i] for i in members] for members, _ in alone.windows]
    assert [members for members, _ in found.windows] == members
    assert found.left == [inside[i] for i in alone.left]
    for i in [*(i for members in members for i in members), *found.left]:
        assert is_inside(timestamps[i], end)


@given(times, sizes)
def test_records_inside_a_bounded_study_without_an_end_are_cut_as_in_any_other(
    timestamps: list[float], size: tuple[int, int, bool]
) -> None:
    least, most, leaves_out = size
    cutter = bounded(least, most, leaves_out=leaves_out, end=None)
    within = [t for t in timestamps if is_inside(t, None)]
    assert cut_all(cutter, within) == cut_all(replace(cutter, is_bounded=False), within)


@given(st.lists(st.integers(START, END - 1).map(float), min_size=1, max_size=30), sizes)
def test_no_window_is_behind_the_end_of_a_study(
    timestamps: list[float], size: tuple[int, int, bool]
) -> None:
    least, most, leaves_out = size
    cutter = bounded(least, most, leaves_out=leaves_out)
    state = WindowState()
    for timestamp in timestamps:
        for cut in cutter.cut(state, np.array([timestamp]), now=NOW):
            state = cut.state
            assert cut.closed is None or (cut.closed.last_slot or 0) < 3
        # The clock closes what it can, so that late records find their slots closed.
        over = cutter.close_over(state, clocks=[NOW])
        state = state if over is None else over[1]
        assert (state.last_slot or 0) < 3
        if state.floor_slot == 3 and not state.n_records:
            (cut,) = cutter.cut(state, np.array([timestamps[0]]), now=NOW)
            assert (cut.taken, cut.stop, cut.state) == (0, 1, state)


def test_a_record_outside_closes_no_window_whatever_its_time() -> None:
    before = cut_all(bounded(1, 9), [START + 1.0])
    for timestamp in (math.nan, START - 0.001, -5.0, float(END), END + 1e9):
        (cut,) = bounded(1, 9).cut(before.state, np.array([timestamp]), now=NOW)
        assert (cut.start, cut.taken, cut.stop, cut.closed) == (0, 0, 1, None)
        assert cut.state == before.state


@given(times, sizes, sizes)
def test_no_record_is_in_two_studies_of_times_apart(
    timestamps: list[float], first: tuple[int, int, bool], second: tuple[int, int, bool]
) -> None:
    pilot = bounded(first[0], first[1], leaves_out=first[2])
    rule = WindowRule(kind="time", origin=END, length_s=LENGTH)
    main = replace(bounded(second[0], second[1], leaves_out=second[2]), rule=rule)
    taken: list[set[int]] = []
    for cutter in (pilot, main):
        outcome = cut_all(cutter, timestamps)
        taken.append({*outcome.left, *(i for members, _ in outcome.windows for i in members)})
    assert not taken[0] & taken[1]


def test_without_bounds_a_record_is_in_both_studies() -> None:
    rules = [WindowRule(kind="time", origin=o, length_s=LENGTH) for o in (START, END)]
    timestamps = [START + 1.0, END + 1.0, math.nan]
    for rule in rules:
        outcome = cut_all(replace(by_time(1, 9), rule=rule), timestamps)
        assert sum(len(members) for members, _ in outcome.windows) + len(outcome.left) == 3


@given(times, st.integers(1, 6), st.integers(1, 7), st.integers(0, 4), st.integers(1, 10))
def test_records_of_slots_that_a_lost_device_has_sent_are_as_if_they_were_not_there(
    timestamps: list[float], least: int, extra: int, split: int, begins: int
) -> None:
    usual = by_time(least, least + extra)
    found = cut_all(replace(usual, begins=begins), timestamps, [split])
    own = [i for i, time in enumerate(timestamps) if time >= begins * LENGTH]
    expected = cut_all(usual, [timestamps[i] for i in own])
    assert found.state == expected.state
    assert found.left == [own[i] for i in expected.left]
    assert found.windows == [([own[i] for i in w], state) for w, state in expected.windows]
    if begins * LENGTH <= NOW:
        assert all(state.first_slot >= begins for _, state in found.windows if state.first_slot)
