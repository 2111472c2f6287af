"""A search box has one form, lies inside the plan's bounds, and is refused by name and rule."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sfumato.learning.estimate.search_box import check_search_box, make_search_box
from sfumato.shared.errors import ConfigError
from sfumato.shared.plan import SketchPlan, plan_from_spec
from tests.shared.plan.test_plan import SPEC

PLAN: SketchPlan = plan_from_spec(SPEC)
FIRST, SECOND = PLAN.dimensions[:2]


def inside(share: float) -> float:
    return FIRST.bounds[0] + share * (FIRST.bounds[1] - FIRST.bounds[0])


def test_bounds_equal_to_the_plans_are_left_out_and_the_order_is_the_plans() -> None:
    stated = {SECOND.name: SECOND.bounds, FIRST.name: (inside(0.2), inside(0.7))}
    assert check_search_box(PLAN, stated) == {FIRST.name: [inside(0.2), inside(0.7)]}
    both = {**stated, SECOND.name: (SECOND.bounds[0], sum(SECOND.bounds) / 2)}
    assert list(check_search_box(PLAN, both)) == [FIRST.name, SECOND.name]


@given(shares=st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 1.0)))
def test_a_checked_box_is_checked_again_to_the_same(shares: tuple[float, float]) -> None:
    low, high = sorted(inside(share) for share in shares)
    low, high = max(low, FIRST.bounds[0]), min(high, FIRST.bounds[1])
    if low >= high:
        return
    found = check_search_box(PLAN, {FIRST.name: [low, high]})
    assert check_search_box(PLAN, found) == found
    box = make_search_box(PLAN, found)
    if box is not None:
        np.testing.assert_array_equal(box.lower[0], low)
        np.testing.assert_array_equal(box.upper[1:], [d.upper for d in PLAN.dimensions[1:]])


@pytest.mark.parametrize(
    ("name", "bounds", "rule"),
    [
        ("nothing", (0.0, 1.0), "is not a number of the plan, which has"),
        (FIRST.name, (inside(0.5), inside(0.5)), "the lower bound first"),
        (FIRST.name, (inside(0.6), inside(0.5)), "the lower bound first"),
        (FIRST.name, (math.nan, inside(0.5)), "finite"),
        (FIRST.name, (-math.inf, inside(0.5)), "finite"),
        (FIRST.name, (inside(0.1),), "two"),
        (FIRST.name, (inside(0.1), inside(1.5)), "inside the plan's bounds"),
        (FIRST.name, (inside(-0.5), inside(0.5)), "inside the plan's bounds"),
    ],
)
def test_a_wrong_box_is_refused_with_its_field_rule_and_fix(
    name: str, bounds: tuple[float, ...], rule: str
) -> None:
    with pytest.raises(ConfigError, match=rule) as caught:
        check_search_box(PLAN, {name: bounds})
    assert caught.value.field == f"search_box.{name}"
    assert caught.value.fix


def test_a_box_without_bounds_of_its_own_is_the_plans() -> None:
    assert make_search_box(PLAN, {}) is None
    assert make_search_box(PLAN, {FIRST.name: FIRST.bounds}) is None
