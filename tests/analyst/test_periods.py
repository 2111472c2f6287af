"""Periods of time as slots: days, months, zones, and what is refused."""

from datetime import UTC, date, datetime, timedelta, timezone
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, strategies as st

from sfumato.analyst.periods import find_slots, read_period
from sfumato.shared.errors import ConfigError
from sfumato.shared.plan.parts import WindowRule

ORIGIN = int(datetime(2013, 1, 1, tzinfo=UTC).timestamp())
DAILY = WindowRule(kind="time", origin=ORIGIN, length_s=86400)
BERLIN = timezone(timedelta(hours=1))


@pytest.mark.parametrize(
    ("start", "end", "slots"),
    [
        ("2013-03-01", "2013-05-31", (59, 150)),
        ("2013-03", "2013-05", (59, 150)),
        (date(2013, 3, 1), date(2013, 5, 31), (59, 150)),
        ("2013-03-01T00:00Z", "2013-06-01T00:00Z", (59, 150)),
        ("2013-03-01T00:00+01:00", "2013-06-01T00:00+01:00", (59, 150)),
        (datetime(2013, 3, 1, 0, 0, 1, tzinfo=UTC), None, (60, None)),
        (datetime(2013, 3, 1, tzinfo=BERLIN), None, (59, None)),
        (None, "2013-12", (None, 364)),
        ("2012-06-01", "2013-01-01", (0, 0)),
        (None, None, (None, None)),
    ],
)
def test_a_day_or_month_is_whole_and_a_time_is_exact(
    start: Any, end: Any, slots: tuple[int | None, int | None]
) -> None:
    assert find_slots(DAILY, start, end) == slots


@given(
    st.lists(st.integers(0, 10**5), min_size=3, max_size=3, unique=True),
    st.sampled_from([3600, 5000, 86400, 7 * 86400]),
)
def test_periods_that_follow_each_other_share_no_slot_and_leave_none_out(
    hours: list[int], length_s: int
) -> None:
    window = WindowRule(kind="time", origin=ORIGIN + 17, length_s=length_s)
    times = [datetime(2013, 2, 1, tzinfo=UTC) + timedelta(hours=each) for each in sorted(hours)]
    both = [slots for pair in pairwise(times) if (slots := find(window, *pair))]
    whole = find(window, times[0], times[-1])
    assert [i for slots in both for i in slots] == list(whole)


def find(window: WindowRule, start: datetime, end: datetime) -> range:
    try:
        first, last = find_slots(window, start, end)
    except ConfigError:
        return range(0)
    assert first is not None
    assert last is not None
    for slot in (first, last):
        assert start.timestamp() <= window.slot_bounds(slot)[0] < end.timestamp()
    return range(first, last + 1)


@pytest.mark.parametrize(
    ("when", "message"),
    [
        ("2013-03-01T06:00", "start: must have a time zone, and 2013-03-01T06:00:00 has none"),
        (datetime(2013, 3, 1), "must have a time zone"),
        ("2013-13", "must be a day, a month or a time, and is '2013-13-01'"),
        ("2013-02-30", "must be a day"),
        ("yesterday", "must be a day"),
        ("", "must be a day"),
        (1362096000, "and is a int"),
    ],
)
def test_what_is_no_time_or_has_no_zone_is_refused(when: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_period(when, "start")
