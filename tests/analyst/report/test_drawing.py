"""Scales and ticks of charts."""

import math

import pytest
from hypothesis import given, strategies as st

from sfumato.analyst.report.drawing import find_ticks, show_number, widen

NUMBERS = st.floats(-1e12, 1e12, allow_subnormal=False)


@given(NUMBERS, st.floats(1e-6, 1e12))
def test_ticks_are_round_few_and_inside(low: float, width: float) -> None:
    high = low + width
    ticks = find_ticks(low, high)
    room = 1e-6 * width + 1e-6 * abs(low)
    assert len(ticks) <= 7
    assert all(low - room <= tick <= high + room for tick in ticks)
    assert ticks == sorted(ticks)


@given(st.lists(NUMBERS, min_size=1, max_size=9))
def test_a_range_holds_its_values_and_is_never_empty(values: list[float]) -> None:
    low, high = widen(values)
    assert low < high
    assert low <= min(values)
    assert max(values) <= high


@pytest.mark.parametrize(
    ("value", "text"), [(1234.56, "1235"), (0.0, "0"), (1e-9, "1e-9"), (-math.pi, "-3.142")]
)
def test_numbers_have_four_digits(value: float, text: str) -> None:
    assert show_number(value) == text
