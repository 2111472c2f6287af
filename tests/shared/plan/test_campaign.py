"""Terms of campaigns, and which plans a device that has joined may follow."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from sfumato.shared.errors import PlanError, PlanMismatchError
from sfumato.shared.plan import (
    Campaign,
    Dimension,
    Label,
    Phase,
    SketchPlan,
    decode_plan,
    encode_plan,
    make_statement,
    plan_from_json,
    plan_to_json,
    require_follows,
)
from sfumato.shared.plan.derivation import verify
from tests.shared.plan.campaigns import COLUMNS, DAY, START, TERMS, make_phase, make_window

PILOT, SKETCH, LOOK = (make_phase(i) for i in range(3))
ANOTHER = replace(COLUMNS[0], name="another")
NARROW = tuple(replace(each, lower=0.0, upper=50.0) for each in COLUMNS)


def test_each_phase_verifies_survives_its_encodings_and_follows_the_one_before() -> None:
    for plan in (PILOT, SKETCH, LOOK):
        verify(plan)
        assert decode_plan(encode_plan(plan)) == plan
        assert plan_from_json(plan_to_json(plan)) == plan
    require_follows(PILOT, SKETCH)
    require_follows(SKETCH, LOOK)
    assert PILOT.shares_no_record(SKETCH)
    assert SKETCH.shares_no_record(LOOK)


def test_a_later_plan_may_have_fewer_columns_narrower_bounds_and_less_epsilon() -> None:
    dimensions = tuple(replace(each, scale=1.0) for each in NARROW[:1])
    require_follows(PILOT, make_phase(1, dimensions=dimensions, epsilon=Fraction(1, 2)))


def test_the_statement_says_what_someone_in_every_phase_loses() -> None:
    said = make_statement(SKETCH).describe()
    assert "phase 2 of 3 of a campaign: pilot at epsilon 1, sketch at epsilon 1, look at" in said
    assert "loses at most epsilon 2" in said
    assert "a person with a record in every phase loses epsilon 4" in said
    drawn = replace(SKETCH, campaign=replace(TERMS, number=1, devices="drawn"))
    assert "which a public hash of its identity draws" in make_statement(drawn).describe()


def test_a_draw_is_public_even_and_the_same_in_every_phase() -> None:
    """Chance of a false alarm below 1e-6: 0.02 is over six standard deviations of a share."""
    devices = [i.to_bytes(32, "big") for i in range(30_000)]
    drawn = [TERMS.draw(device) for device in devices]
    assert drawn == [TERMS.next.draw(device) for device in devices]
    assert all(abs(drawn.count(i) / len(drawn) - 1 / 3) < 0.02 for i in range(3))


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"epsilon": Fraction(3, 2)}, "release.epsilon"),
        ({"delta": Fraction(1, 10**6)}, "release.delta"),
        ({"window": make_window(1, 3)}, "window"),
        ({"window": make_window(2, 2)}, "window"),
        ({"most_records": 2000}, "most_records"),
        ({"most_clusters": 4}, "most_clusters"),
        ({"late_rule": "open-window", "window": replace(make_window(1, 2), end=None)}, "late_rule"),
        (
            {"dimensions": (Dimension(name="name", unit="1", lower=0.0, upper=1.0, scale=1.0),)},
            "dimensions.name",
        ),
        ({"dimensions": (replace(COLUMNS[0], unit="K", scale=1.0),)}, "dimensions.room.unit"),
        ({"dimensions": (replace(COLUMNS[0], upper=61.0, scale=1.0),)}, "dimensions.room"),
        ({"dimensions": (replace(COLUMNS[0], lower=-41.0, scale=1.0),)}, "dimensions.room"),
    ],
    ids=[
        "epsilon", "delta", "more windows", "later", "records", "clusters", "undated",
        "another column", "unit", "higher", "lower",
    ],
)  # fmt: skip
def test_a_plan_that_breaks_the_terms_of_its_phase_is_no_plan(
    changed: dict[str, Any], field: str
) -> None:
    with pytest.raises(PlanError) as caught:
        verify(make_phase(1, **changed))
    assert caught.value.field == field


def test_a_phase_has_the_statistic_that_it_was_announced_with() -> None:
    asked = replace(LOOK, campaign=replace(TERMS, number=1), window=TERMS.phases[1].window)
    with pytest.raises(PlanError, match=r"statistic\.kind: must be fourier"):
        verify(asked)


def change_phase(number: int, **changes: Any) -> Campaign:
    phases = list(TERMS.phases)
    phases[number] = replace(phases[number], **changes)
    return replace(TERMS, phases=tuple(phases))


@pytest.mark.parametrize(
    ("terms", "rule"),
    [
        (replace(TERMS, phases=TERMS.phases[:1]), "must be 2 to 8"),
        (replace(TERMS, phases=(TERMS.phases[0], TERMS.phases[2])), "one sketch"),
        (change_phase(2, statistic="histogram"), "one sketch"),
        (change_phase(1, window=make_window(0, 2)), "ends before the next begins"),
        (change_phase(2, window=replace(make_window(4, 2), end=None)), "an end"),
        (replace(TERMS, most_clusters=0), "must be at least 1"),
        (change_phase(2, epsilon=Fraction(-1)), "must be above 0"),
        (change_phase(2, delta=Fraction(1)), "must be from 0 to below 1"),
        (change_phase(2, window=replace(make_window(4, 2), length_s=0)), "whole number of windows"),
        (change_phase(2, window=replace(make_window(4, 2), length_s=7)), "whole number of windows"),
        (replace(TERMS, columns=(*COLUMNS, COLUMNS[0])), "must have names"),
        (replace(TERMS, columns=(*COLUMNS, replace(COLUMNS[0], name="\x1b[2J"))), "no control"),
        (replace(TERMS, columns=(*COLUMNS, replace(ANOTHER, upper=math.inf))), "must have bounds"),
        (replace(TERMS, devices="drawn"), "cannot be drawn where a device has several records"),
    ],
    ids=[
        "one phase", "no sketch", "a second pilot", "overlap", "no end", "no clusters",
        "negative epsilon", "delta", "no length", "odd length", "a name twice", "control",
        "no bound", "drawn records",
    ],
)  # fmt: skip
def test_terms_that_would_ask_a_record_twice_or_lead_nowhere_are_refused(
    terms: Campaign, rule: str
) -> None:
    with pytest.raises(PlanError, match=rule):
        verify(make_phase(0, terms))


def test_a_secure_sum_has_no_campaign() -> None:
    summed = make_phase(0, release="sum.v1", mechanism="discrete-laplace")
    with pytest.raises(PlanError, match=r"cannot be sum\.v1 in a campaign"):
        verify(summed)


def more_epsilon(terms: Campaign) -> Campaign:
    phases = list(terms.phases)
    phases[1] = replace(phases[1], epsilon=Fraction(5))
    return replace(terms, phases=tuple(phases))


def longer(terms: Campaign) -> Campaign:
    more = Phase(statistic="clusters", epsilon=Fraction(1), window=make_window(7, 1))
    return replace(terms, phases=(*terms.phases, more))


@pytest.mark.parametrize(
    ("after", "field"),
    [
        (make_phase(1, more_epsilon(TERMS), epsilon=Fraction(5)), "campaign"),
        (make_phase(1, longer(TERMS)), "campaign"),
        (make_phase(1, replace(TERMS, most_records=5000)), "campaign"),
        (make_phase(1, replace(TERMS, devices="drawn")), "campaign"),
        (make_phase(1, replace(TERMS, columns=(*COLUMNS, ANOTHER))), "campaign"),
        (LOOK, "campaign"),
        (replace(SKETCH, campaign=None), "campaign"),
        (make_phase(1, neighbouring="add-remove-one"), "release.neighbouring"),
        (make_phase(1, unit="device"), "release.unit"),
        (make_phase(1, least_records=7), "least_records"),
        (make_phase(1, max_records_per_person=9), "max_records_per_person"),
        (make_phase(1, most_streams_per_device=3), "most_streams_per_device"),
        (make_phase(1, labels=(Label(name="age", values=("old", "young")),)), "labels"),
        (make_phase(1, n_frequencies=1000), "payload_width"),
    ],
    ids=[
        "more epsilon", "one phase more", "more records", "drawn", "another column",
        "a phase left out", "no terms", "relation", "unit", "least records", "person",
        "streams", "labels", "bytes",
    ],
)  # fmt: skip
def test_a_device_follows_to_no_plan_that_leaves_the_terms_it_joined(
    after: SketchPlan, field: str
) -> None:
    with pytest.raises(PlanMismatchError) as caught:
        require_follows(PILOT, after)
    assert caught.value.field == field


def test_nothing_follows_the_last_phase_or_a_study_by_itself() -> None:
    for before in (LOOK, replace(PILOT, campaign=None)):
        with pytest.raises(PlanMismatchError, match="this study is the last"):
            require_follows(before, SKETCH)


def test_the_phases_of_the_fixture_lie_as_the_terms_say() -> None:
    assert [each.window.origin for each in TERMS.phases] == [START, START + DAY, START + 4 * DAY]
