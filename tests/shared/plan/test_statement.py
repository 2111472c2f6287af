"""The statement of privacy leaves nothing out, and says of people what is proved."""

from __future__ import annotations

import inspect
from dataclasses import fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from sfumato.device_agent.server.messages import KeyOffer
from sfumato.device_agent.server.transport import ServerClient
from sfumato.shared.plan import (
    Dimension,
    PlanSpec,
    SketchPlan,
    WindowRule,
    create_plan,
    make_statement,
)
from sfumato.shared.plan.statement import PublicFact, describe_release, list_public_facts
from sfumato.shared.privacy.group import format_upper
from sfumato.shared.wire import RequestSignature, SketchHeader
from sfumato.shared.wire.objects.devices import HeartbeatRequest, PlanRefusalRequest

WIDE = Dimension(name="x", unit="1", lower=-10.0, upper=10.0, scale=1.0)


def make(
    epsilon: str = "1",
    delta: str = "0",
    most: int | None = None,
    scale: float = 1.0,
    *,
    hidden: bool = False,
) -> SketchPlan:
    return create_plan(
        PlanSpec(
            dimensions=(replace(WIDE, scale=scale),),
            n_frequencies=8,
            seed=bytes(32).hex(),
            epsilon=Fraction(epsilon),
            delta=Fraction(delta),
            neighbouring="add-remove-one" if hidden else "replace-one",
            window=WindowRule(kind="time", origin=3600, length_s=3600),
            most_records=1000,
            max_records_per_person=most,
        )
    )


@pytest.mark.parametrize("by_time", [True, False])
@pytest.mark.parametrize("hides_presence", [True, False])
def test_every_field_that_a_device_sends_is_stated_and_no_other(
    hides_presence: bool, by_time: bool
) -> None:
    sent = {
        field.name
        for kind in (SketchHeader, HeartbeatRequest, PlanRefusalRequest, KeyOffer, RequestSignature)
        for field in fields(kind)
    }
    sent |= set(inspect.signature(ServerClient.enrol).parameters) - {"self"}
    # `parameters` repeats device and time of a signed request.
    stated = [
        field
        for fact in list_public_facts(hides_presence=hides_presence, by_time=by_time)
        for field in fact.fields
    ]
    assert sorted(stated) == sorted(sent - {"parameters"})


def test_under_add_remove_one_a_thief_gets_every_slot_that_is_not_released_and_it_is_said() -> None:
    hidden = " ".join(make_statement(make(hidden=True)).unprotected)
    assert "all slots that it has not released yet" in hidden
    assert "how many records it has" not in hidden
    assert "its open window" in " ".join(make_statement(make()).unprotected)


@pytest.mark.parametrize("delta", ["0", "1e-6"])
@pytest.mark.parametrize(("most", "groups"), [(None, (1, 2, 5, 20)), (1, (1,)), (7, (1, 7))])
def test_people_are_those_of_the_plan_or_a_small_table(
    most: int | None, groups: tuple[int, ...], delta: str
) -> None:
    people = make_statement(make(delta=delta, most=most)).people
    assert [(p.n_records, p.n_windows) for p in people] == [(q, w) for w in (1, 10) for q in groups]


@given(st.fractions(0, 10**12))
def test_a_number_that_is_shown_is_never_less_than_it_is(value: Fraction) -> None:
    shown = Fraction(format_upper(value))
    assert value <= shown <= value * Fraction(101, 100)


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (make("200"), "epsilon is 200: above 10"),
        (make("11"), "above 10"),
        (make("2"), "refuses more than 1"),
        (make(delta="1e-5"), "judges its limits at 1e-06"),
        (make(delta="1/500"), "above one over the 1000 records"),
        (make(scale=11.0), "above half of the width"),
        (make(scale=0.01), "below a thousandth"),
    ],
)
def test_a_plan_that_is_odd_gets_a_warning(plan: SketchPlan, words: str) -> None:
    assert words in " ".join(make_statement(plan).cautions)


def make_rows() -> list[str]:
    """Write the public facts as the rows of a table, one column for each relation and unit."""
    values = list_public_facts(hides_presence=False, by_time=True)
    presence = list_public_facts(hides_presence=True, by_time=True)
    devices = list_public_facts(hides_presence=False, by_time=True, protects_devices=True)

    def show(other: PublicFact, fact: PublicFact) -> str:
        return "the same" if other.detail == fact.detail else other.detail

    return [
        f"| {fact.what} | {fact.detail} | {show(hidden, fact)} | {show(whole, fact)} | "
        f"{fact.seen_by} |"
        for fact, hidden, whole in zip(values, presence, devices, strict=True)
    ]


def test_the_page_of_public_facts_lists_the_same() -> None:
    page = Path(__file__).parents[3] / "docs" / "explanation" / "public.md"
    lines = page.read_text(encoding="utf-8").splitlines()
    shown = [line for line in lines if line.startswith("| ")]
    assert shown[1:] == make_rows(), "\n".join(make_rows())


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"statistic": "histogram"}, "counts of the records in the bins of each dimension, with"),
        (
            {"statistic": "histogram", "dimensions_per_sketch": 1},
            "with noise; of 1 of 2 dimensions in each sketch; epsilon 1 for each record",
        ),
        ({"statistic": "grid", "cells": (2, 4)}, "in the cells of a grid, with noise; epsilon 1"),
        ({"statistic": "moments"}, "second moments of the records, summed, with noise; epsilon 1"),
        (
            {"statistic": "histogram", "unit": "device", "most_records": 1},
            "of the first record of each slot alone; epsilon 1 for all records of a window",
        ),
    ],
)
def test_it_says_what_a_device_sends_of_each_statistic(choices: dict[str, Any], words: str) -> None:
    dimensions = tuple(Dimension(name=n, unit="1", lower=0.0, upper=1.0) for n in "ab")
    window = WindowRule(kind="time", origin=0, length_s=3600)
    settings: dict[str, Any] = {"epsilon": Fraction(1), "most_records": 10}
    spec = PlanSpec(dimensions=dimensions, window=window, **(settings | choices))
    assert words in describe_release(create_plan(spec))


def test_under_add_remove_one_the_number_of_records_is_not_said_to_be_public() -> None:
    facts = {fact.what: fact.detail for fact in make_statement(make(hidden=True)).public}
    assert "not sent" in facts["number of records"]
    assert "empty or not" in facts["windows"]


def test_both_numbers_stand_in_the_words_for_gaussian_noise() -> None:
    words = make_statement(make(delta="1e-6")).describe()
    # Twenty records: epsilon at the same delta, and delta at twenty times epsilon.
    assert "33.1 for 20" in words
    assert "0.0211 for 20" in words
    assert "protected at q w times epsilon" not in words


def test_a_plan_within_all_limits_gets_none() -> None:
    for plan in (make(), make("1/10"), make(delta="1e-6"), make(scale=10.0), make(scale=0.02)):
        assert make_statement(plan).cautions == ()
