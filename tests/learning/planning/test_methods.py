"""Which method is chosen: by public numbers, from the table."""

from __future__ import annotations

from dataclasses import fields, replace
from fractions import Fraction

import pytest
from hypothesis import given, settings, strategies as st

from sfumato.learning.clustering.methods.contract import Task
from sfumato.learning.clustering.methods.registry import METHODS
from sfumato.learning.planning.methods import (
    ALIKE,
    NEED_DELTA,
    SKETCH,
    SPLIT,
    TABLE,
    WITH_DELTA,
    Holding,
    choose_method,
    choose_name,
    find_row,
)
from sfumato.shared.errors import ConfigError

HOLDING = Holding(n_records=100_000, n_dimensions=4, n_clusters=5, epsilon=Fraction(1), scale=0.1)


def test_the_table_names_methods_that_exist_and_no_figure_beats_k_means_by_much() -> None:
    assert len({(row.knows_scale, row.n_dimensions, row.strength) for row in TABLE}) == len(TABLE)
    assert {row.knows_scale for row in TABLE} == {True, False}
    for row in TABLE:
        assert set(row.expected) <= {SKETCH, SKETCH + WITH_DELTA, *METHODS}
        assert min(row.expected.values()) > 0.99


def test_records_in_many_places_are_for_the_sketch_alone() -> None:
    choice = choose_method(replace(HOLDING, n_parts=2))
    assert choice.name == SKETCH
    assert "2 parts" in choice.reason
    assert not choice.expected


def test_the_lowest_figure_wins_and_a_preferred_method_where_it_is_as_good() -> None:
    assert choose_name({"grid": 1.0, SKETCH: ALIKE - 0.001}) == SKETCH
    assert choose_name({"grid": 1.0, SKETCH: ALIKE + 0.001}) == "grid"
    assert choose_name({"tree": 1.3, "grid": 1.2}) == "grid"
    assert choose_name({SKETCH: 1.0, SPLIT: ALIKE - 0.001}) == SPLIT
    assert choose_name({SKETCH: 1.0, SPLIT: ALIKE + 0.001}) == SKETCH


def test_with_a_delta_cells_are_split_where_other_methods_lose() -> None:
    # Few records in many columns, and no scale.
    few = Holding(n_records=2000, n_dimensions=64, n_clusters=5, epsilon=Fraction(1))
    private = replace(few, delta=Fraction(1, 10**5))
    assert choose_method(private).name == SPLIT
    assert SPLIT not in choose_method(few).expected
    assert choose_method(few).expected
    assert not replace(private, epsilon=Fraction(101)).allows(SPLIT)


def test_the_nearest_row_is_that_of_the_nearest_columns_then_of_the_nearest_noise() -> None:
    row = find_row(5, 2000.0, knows_scale=True)
    assert row.n_dimensions in (4, 6)
    alike = [each for each in TABLE if each.knows_scale and each.n_dimensions == row.n_dimensions]
    distances = [max(each.strength / 2000.0, 2000.0 / each.strength) for each in alike]
    assert max(row.strength / 2000.0, 2000.0 / row.strength) == min(distances)


@settings(max_examples=20, deadline=None)
@given(
    n=st.integers(10, 10**9),
    d=st.integers(1, 300),
    k=st.integers(1, 10),
    epsilon=st.fractions(Fraction(1, 100), Fraction(100), max_denominator=1000),
    scale=st.none() | st.floats(0.001, 1.0),
    relation=st.sampled_from(["replace-one", "add-remove-one"]),
)
def test_what_is_chosen_can_be_planned(
    n: int, d: int, k: int, epsilon: Fraction, scale: float | None, relation: str
) -> None:
    holding = Holding(
        n_records=n, n_dimensions=d, n_clusters=k, epsilon=epsilon, scale=scale, relation=relation
    )
    choice = choose_method(holding)
    assert next(iter(choice.expected.values())) == min(choice.expected.values())
    if choice.name != SKETCH:
        method = METHODS[choice.name]()
        task = Task(
            n_records=n,
            n_dimensions=d,
            n_clusters=k,
            epsilon=epsilon,
            scale=scale,
            relation=relation,
        )
        assert sum(each.epsilon for each in method.plan_rounds(task)) == epsilon


def test_a_choice_is_given_numbers_alone() -> None:
    kinds = {field.type for field in fields(Holding)}
    assert kinds == {"int", "Fraction", "str", "float | None"}


def test_a_relation_of_half_the_noise_counts_as_twice_epsilon() -> None:
    half = replace(HOLDING, epsilon=Fraction(1, 2), relation="add-remove-one")
    assert half.strength == HOLDING.strength == 20_000


def test_methods_that_cannot_be_used_are_not_chosen() -> None:
    many = replace(HOLDING, n_dimensions=40, n_clusters=60, n_records=10**6)
    choice = choose_method(many)
    # 2,400 numbers take minutes to decode; a grid has 12 columns at most; cover needs a delta.
    assert not {SKETCH, "grid", "cover"} & set(choice.expected)
    assert "takes minutes" in choice.reason
    for name in NEED_DELTA:
        assert not HOLDING.allows(name)
        assert replace(HOLDING, delta=Fraction(1, 10**6)).allows(name)


def test_a_sketch_without_a_figure_is_not_called_slow() -> None:
    few = replace(HOLDING, n_records=150, n_dimensions=4, n_clusters=3, scale=None)
    choice = choose_method(replace(few, delta=Fraction(4, 1000)))
    assert SKETCH not in choice.expected
    assert "takes minutes" not in choice.reason


def test_numbers_out_of_range_are_refused() -> None:
    with pytest.raises(ConfigError, match="n_clusters"):
        choose_method(replace(HOLDING, n_clusters=200_000))
