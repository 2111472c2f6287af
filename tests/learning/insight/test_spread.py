"""Spread: the devices that a change is seen in, at the stated rates."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sfumato.learning.estimate.totals import Totals
from sfumato.learning.insight.spread import Spread, measure_spread
from sfumato.shared.plan import SketchPlan, WindowRule
from tests.learning.insight.drawing import MIXTURE, Fleet, make_model, make_plan

MOVED = replace(MIXTURE, means=MIXTURE.means + np.array([[0.6, 0.0], [0.0, 0.0], [0.0, 0.0]]))
PLAN = make_plan(40, epsilon=Fraction(5))


def draw(
    fleet: Fleet, n_devices: int, n_changed: int, n_records: int = 1000
) -> list[tuple[Totals, Totals]]:
    return [
        (
            fleet.draw(n_records, 2).totals,
            fleet.draw(n_records, 2, mixture=MOVED if i < n_changed else MIXTURE).totals,
        )
        for i in range(n_devices)
    ]


def measure(plan: SketchPlan, devices: list[tuple[Totals, Totals]], **options: Any) -> Spread:
    found = measure_spread(make_model(plan), devices, **options)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("mechanism", "changes"),
    [
        ("discrete-knorm", {"epsilon": Fraction(5)}),
        ("discrete-knorm", {"epsilon": Fraction(50)}),
        ("discrete-gaussian", {"epsilon": Fraction(1)}),
        (
            "discrete-knorm",
            {
                "epsilon": Fraction(5),
                "neighbouring": "add-remove-one",
                "window": WindowRule(kind="time", origin=60, length_s=60),
            },
        ),
    ],
)
def test_devices_that_have_not_changed_are_seldom_among_those_that_have(
    mechanism: str, changes: dict[str, Any]
) -> None:
    plan = make_plan(40, mechanism, **changes)
    fleet = Fleet(plan, 3)
    found = [measure(plan, draw(fleet, 10, 0)) for _ in range(12)]
    # Seeded. Of 120 devices 1.2 are expected; more than five have a probability of 1 in 600.
    assert sum(each.n_changed for each in found) <= 5


@pytest.mark.parametrize("n_changed", [1, 3, 6])
def test_the_devices_that_changed_are_told_from_the_others(n_changed: int) -> None:
    fleet = Fleet(PLAN, 4)
    found = [measure(PLAN, draw(fleet, 6, n_changed)) for _ in range(5)]
    # Seeded; each of 30 devices is wrong with probability 1 %.
    assert sum(abs(each.n_changed - n_changed) for each in found) <= 2
    assert sum(each.n_unchanged for each in found) >= 3 * (6 - n_changed)


def test_a_device_with_few_records_cannot_tell() -> None:
    fleet = Fleet(PLAN, 5)
    found = measure(
        PLAN, draw(fleet, 4, 4) + draw(fleet, 2, 0, n_records=40), n_unread=1, n_alone=2
    )
    assert found == Spread(n_changed=4, n_unchanged=0, n_unclear=3, n_alone=2)
    assert found.words == "in 4 of 7 devices, 3 cannot tell, 2 sent only before or after"


def test_devices_that_send_more_than_before_have_not_changed() -> None:
    fleet = Fleet(PLAN, 6)
    low = [(fleet.draw(1000, 2).totals, fleet.draw(200, 2).totals) for _ in range(3)]
    high = [
        (fleet.draw(n, 2, mixture=MOVED).totals, fleet.draw(1000, 2, mixture=MOVED).totals)
        for n in (200, 200, 200)
    ]
    found = measure(PLAN, low + high)
    assert found.n_changed == 0


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ((6, 0, 0), "in 6 of 6 devices"),
        ((1, 3, 2), "in 1 of 6 devices, 2 cannot tell"),
        ((0, 6, 0), "in none of 6 devices: their shares changed"),
        ((0, 2, 4), ""),
        ((0, 4, 0, 1), "in none of 4 devices, 1 sent only before or after"),
    ],
)
def test_words_say_what_is_known(counts: tuple[int, ...], words: str) -> None:
    names = ("n_changed", "n_unchanged", "n_unclear", "n_alone")
    assert Spread(**dict(zip(names, (*counts, 0)[:4], strict=True))).words == words


def test_of_many_devices_few_are_counted_by_chance() -> None:
    fleet = Fleet(PLAN, 9)
    found = measure(PLAN, draw(fleet, 100, 0, n_records=300) + draw(fleet, 3, 3, n_records=3000))
    # Seeded; at most 5 % of those counted have not changed, in the mean.
    assert found.n_changed in (3, 4)


def test_a_device_that_moves_the_other_way_is_not_unchanged() -> None:
    fleet = Fleet(PLAN, 10)
    back = [(after, before) for before, after in draw(fleet, 1, 1)]
    found = measure(PLAN, draw(fleet, 3, 3) + back)
    assert found == Spread(n_changed=3, n_unchanged=0, n_unclear=1)


def test_one_device_or_split_frequencies_have_no_spread() -> None:
    fleet = Fleet(PLAN, 7)
    assert measure_spread(make_model(PLAN), draw(fleet, 1, 1)) is None
    split = make_plan(40, frequencies_per_sketch=20, epsilon=Fraction(5))
    assert measure_spread(make_model(split), draw(Fleet(split, 8), 3, 3)) is None
