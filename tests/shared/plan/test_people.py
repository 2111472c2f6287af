"""What a statement says to people is true, and its numbers are rounded towards more loss."""

import math
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from sfumato.shared.plan import (
    Dimension,
    PlanSpec,
    SketchPlan,
    WindowRule,
    create_plan,
    make_statement,
)
from sfumato.shared.plan.people import bound_odds, describe_odds, describe_person, find_person_doubt

HOUR, DAY = 3600, 86_400
SPEC = PlanSpec(
    dimensions=(Dimension(name="x", unit="1", lower=-10.0, upper=10.0, scale=1.0),),
    n_frequencies=8,
    seed=bytes(32).hex(),
    epsilon=Fraction(1),
    window=WindowRule(kind="time", origin=DAY, length_s=HOUR),
    most_records=1000,
)


def make(**choices: object) -> SketchPlan:
    return create_plan(replace(SPEC, **choices))  # type: ignore[arg-type]


def bound_exponential(x: Fraction) -> tuple[Fraction, Fraction]:
    """Bound exp(x) from below and above by its series."""
    terms, term = Fraction(1), Fraction(1)
    for k in range(1, 90):
        term *= x / k
        terms += term
    return terms, terms + 2 * term


@given(st.fractions(Fraction(1, 1000), 10), st.fractions(0, Fraction(1, 2)))
def test_odds_are_never_understated_and_hardly_overstated(
    epsilon: Fraction, delta: Fraction
) -> None:
    low, high = ((each + delta) / (1 - delta) for each in bound_exponential(epsilon))
    assert low < bound_odds(epsilon, delta) < high * (1 + Fraction(1, 10**30))


@given(st.floats(0.01, 5.0), st.floats(0.0, 0.2), st.floats(0.0, 1.0))
def test_no_test_that_the_guarantee_allows_beats_the_odds(
    epsilon: float, delta: float, second: float
) -> None:
    factor = math.exp(epsilon)
    # The most that two-sided (epsilon, delta) leaves to the first answer in the first case.
    first = min(1.0, factor * second + delta, 1.0 - (1.0 - second - delta) / factor)
    right = (first + 1.0 - second) / 2.0
    odds = float(bound_odds(Fraction(epsilon), Fraction(delta)))
    assert right <= odds / (1.0 + odds) + 1e-12


def test_the_odds_name_what_is_protected_and_by_whom_it_is_seen() -> None:
    assert "what one record says" in describe_odds(make())
    assert "at most 2.72 to 1 (epsilon 1)" in describe_odds(make())
    hidden = describe_odds(make(neighbouring="add-remove-one"))
    assert "whether one record exists" in hidden
    assert "says is protected at epsilon 2 (odds of at most 7.39 to 1)" in hidden
    assert "the records of a device in one window say" in describe_odds(make(unit="device"))
    assert "one of the two servers sees alone" in describe_odds(make(release="sum.v1"))


def test_with_a_delta_the_odds_hold_on_average_and_it_is_said() -> None:
    said = describe_odds(make(delta=Fraction(1, 10**6)))
    assert "to 1 on average, and seldom to more (epsilon 1 and delta 1e-06)" in said
    assert "on average" not in describe_odds(make())


def test_an_absurd_level_gets_no_odds() -> None:
    said = describe_odds(make(epsilon=Fraction(11)))
    assert "all but certain (epsilon 11)." in said
    assert "to 1" not in said
    assert "to 1" not in describe_odds(make(epsilon=Fraction(10**4), mechanism="discrete-laplace"))


def test_a_person_in_all_records_of_a_sensor_of_five_minutes_is_not_protected() -> None:
    words = "is protected in the 14 windows of two weeks at epsilon 4,032, which is next to no"
    plan = make(window=WindowRule(kind="time", length_s=DAY))
    assert "288 a day, one every five minutes, " + words in describe_person(plan)
    seen = describe_person(plan, records_a_day=1440)
    assert "about 1,440 a day is protected in the 14 windows of two weeks at epsilon 20,160" in seen


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        (
            {"max_records_per_person": 3, "window": WindowRule(kind="time", length_s=7 * DAY)},
            "in one window at epsilon 3 (odds of at most 20.1 to 1), and in the 2 windows of two "
            "weeks at epsilon 6 (odds of at most 404 to 1).",
        ),
        (
            {"max_records_per_person": 2, "window": WindowRule(kind="time", length_s=90 * DAY)},
            "in one window at epsilon 2 (odds of at most 7.39 to 1).",
        ),
        (
            {"max_records_per_person": 1, "window": WindowRule(kind="count", length=100)},
            "and in 10 windows at epsilon 10 (odds of at most 22,027 to 1).",
        ),
        (
            {
                "max_records_per_person": 1,
                "late_rule": "leave-out-outside",
                "window": WindowRule(kind="time", origin=DAY, length_s=DAY, end=4 * DAY),
            },
            "and in the 3 windows of the study at epsilon 3",
        ),
        (
            {"unit": "device", "window": WindowRule(kind="time", length_s=DAY)},
            "Somebody who is in all of them is protected in one window at epsilon 1 "
            "(odds of at most 2.72 to 1), and in the 14 windows of two weeks at epsilon 14, which "
            "is next to no protection.",
        ),
        (
            {"release": "phase.v1", "most_records": None},
            "is protected in one window at epsilon 1 (odds of at most 2.72 to 1).",
        ),
        ({"window": WindowRule(kind="count", length=100)}, "in two weeks at epsilon 4,032"),
        (
            {"window": WindowRule(kind="time", length_s=90 * DAY)},
            "in two weeks at epsilon 4,032",
        ),
        (
            {
                "late_rule": "leave-out-outside",
                "window": WindowRule(kind="time", origin=DAY, length_s=DAY, end=2 * DAY),
            },
            "in one window at epsilon 288,",
        ),
    ],
)
def test_a_person_is_told_of_one_window_and_of_two_weeks(
    choices: dict[str, object], words: str
) -> None:
    assert words in describe_person(make(**choices))


def test_gaussian_losses_of_a_person_follow_its_curve_and_not_the_multiple() -> None:
    said = describe_person(make(delta=Fraction(1, 10**6), max_records_per_person=2))
    assert "in one window at epsilon 2.13 and delta 1e-06" in said


def test_only_a_plan_that_leaves_the_person_open_is_doubted() -> None:
    doubt = find_person_doubt(make())
    assert doubt is not None
    assert "at epsilon 4,032" in doubt
    assert "State the number, or with windows by time" in doubt
    assert find_person_doubt(make(max_records_per_person=4)) is None
    assert find_person_doubt(make(unit="device")) is None


def test_the_statement_begins_with_a_sentence_for_people_and_the_exact_one_follows() -> None:
    said = make_statement(make()).describe()
    plain, _, exact = said.partition(" In exact terms: ")
    assert plain.startswith("In plain words: ")
    assert "replace-one neighbouring" in exact
    assert "provided that the device runs this code" in exact
