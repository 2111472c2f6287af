import itertools
import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from sfumato.shared.core import (
    MomentsStatistic,
    Quantiser,
    SketchAccumulator,
    count_most_records,
)
from sfumato.shared.errors import PlanError
from tests.system.stranger import columns, sketch

STEP = 16.0
"""Quantisation steps of one step of the moments."""


def make_statistic(d: int, norm_steps: int, diagonal_weight: int = 5) -> MomentsStatistic:
    """One unit a step of the moments."""
    edge = np.full(d, 32767.0 / STEP)
    return MomentsStatistic(
        quantiser=Quantiser.from_bounds(-edge, edge),
        norm_steps=norm_steps,
        diagonal_weight=diagonal_weight,
    )


def add(statistic: MomentsStatistic, *parts: NDArray[np.floating]) -> SketchAccumulator:
    accumulator = SketchAccumulator(statistic)
    for part in parts:
        accumulator.add(part)
    return accumulator


any_value = st.one_of(st.floats(width=64), st.integers(-2100, 2100).map(float))


@given(st.integers(1, 6), st.sampled_from([5, 7]), st.data())
def test_a_record_adds_what_the_definition_says(d: int, weight: int, data: st.DataObject) -> None:
    radius = data.draw(st.integers(1, math.isqrt(2047**2 * d - 1) + 1))
    record = data.draw(st.lists(any_value, min_size=d, max_size=d))
    statistic = make_statistic(d, radius, weight)
    added = add(statistic, np.array([record]))
    edges = [32767.0 / STEP] * d
    steps = sketch.quantise(record, [-edge for edge in edges], edges)
    assert added.sums.tolist() == columns.moments_of(steps, d, radius, weight)
    assert added.n_unsketchable == (not all(map(math.isfinite, record)))
    assert statistic.lowest <= min(added.sums)
    assert max(added.sums) <= statistic.highest


@given(
    hnp.arrays(np.int16, st.tuples(st.integers(0, 30), st.integers(1, 9))),
    st.integers(1, 6141),
)
def test_clipped_records_lie_in_the_ball_whatever_they_were(
    steps: NDArray[np.int16], radius: int
) -> None:
    d = steps.shape[1]
    statistic = make_statistic(d, min(radius, 2047 * math.isqrt(d)))
    u = statistic.clip(steps)
    assert (np.sum(u * u, axis=1) <= statistic.norm_steps**2).all()
    assert (np.abs(u) <= 2047).all()


@given(hnp.arrays(np.float64, (30, 3), elements=any_value), st.integers(0, 30))
def test_order_and_split_change_no_bit(records: NDArray[np.float64], cut: int) -> None:
    statistic = make_statistic(3, 700)
    whole, parts = add(statistic, records), add(statistic, records[cut:][::-1], records[:cut])
    assert np.array_equal(whole.sums, parts.sums)
    assert whole.n_unsketchable == parts.n_unsketchable


@pytest.mark.parametrize("weight", [5, 7])
@pytest.mark.parametrize(("d", "radius"), [(1, 3), (1, 5), (2, 3), (2, 5), (2, 12), (3, 3)])
def test_no_pair_of_records_is_further_apart_than_the_sensitivity(
    d: int, radius: int, weight: int
) -> None:
    statistic = make_statistic(d, radius, weight)
    values = range(-radius - 1, radius + 2)
    records = np.array(list(itertools.product(values, repeat=d)), dtype=np.float64)
    sums = np.unique([add(statistic, record[None]).sums for record in records], axis=0)
    # A record alone is also a complete one against one with a missing value, which adds zero.
    alone = np.abs(sums).sum(axis=1).max(), (sums**2).sum(axis=1).max()
    change = [np.abs(sums - row) for row in sums]
    pair = max(c.sum(axis=1).max() for c in change), max((c**2).sum(axis=1).max() for c in change)
    assert alone[0] <= statistic.measure_l1("add-remove-one")
    assert alone[1] == statistic.measure_l2_squared("add-remove-one")
    l1 = statistic.measure_l1("replace-one")
    l2_squared = statistic.measure_l2_squared("replace-one")
    assert max(pair[0], alone[0]) <= l1
    assert max(pair[1], alone[1]) <= l2_squared
    # Not larger than need be, and from two dimensions on the constant costs nothing. The worst pair
    # in L1 lies between the few steps of these small balls.
    if d == 1:
        assert (l1, l2_squared) == alone
    else:
        assert pair[0] > alone[0]
        assert pair[1] > alone[1]
    if d == 2:
        assert pair[1] > 0.99 * l2_squared
        assert pair[0] > 0.8 * l1


@pytest.mark.parametrize("weight", [5, 7])
def test_a_missing_value_decides_no_sensitivity_from_two_dimensions_on(weight: int) -> None:
    for d, radius in itertools.product((2, 3, 4, 7, 30, 200), (1, 2, 3, 4, 7, 100, 2047)):
        statistic = make_statistic(d, radius, weight)
        for measure in (statistic.measure_l1, statistic.measure_l2_squared):
            assert measure("add-remove-one") < measure("replace-one")


@pytest.mark.parametrize("weight", [5, 7])
@pytest.mark.parametrize("d", [2, 5, 30])
def test_no_search_finds_records_further_apart_than_the_bound_in_l1(d: int, weight: int) -> None:
    # Alternating: with the signs of the change fixed, the best pair is at the ends of a quadratic.
    statistic = make_statistic(d, 2047, weight)
    radius, q = float(statistic.norm_steps), statistic.norm_steps // 4
    rng = np.random.default_rng(d)
    upper = np.triu_indices(d)

    def measure(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
        products = statistic.product_weights * (np.outer(x, x) - np.outer(y, y))[upper]
        return float(np.abs(products).sum() + 7 * q * np.abs(x - y).sum())

    best = 0.0
    for _ in range(20):
        x, y = (radius * v / np.linalg.norm(v) for v in rng.normal(size=(2, d)))
        for _ in range(30):
            signs = np.sign(np.outer(x, x) - np.outer(y, y))
            form = 3.5 * signs + (weight - 3.5) * np.diag(np.diag(signs))
            linear = 7 * q * np.sign(x - y)
            for _ in range(10):
                ascend, descend = 2 * form @ x + linear, -2 * form @ y - linear
                shift = np.linalg.norm(form, 2) * 2
                x, y = ascend + shift * x, descend + shift * y
                x, y = radius * x / np.linalg.norm(x), radius * y / np.linalg.norm(y)
        best = max(best, measure(x, y))
    bound = statistic.measure_l1("replace-one")
    assert (0.98 if d == 2 else 0.9) * bound < best <= bound


def test_the_largest_sums_of_one_record_are_reached() -> None:
    for d, radius in ((1, 2047), (2, 2047), (4, 4094), (20, 9154)):
        statistic = make_statistic(d, radius)
        corner = np.full((1, d), 2047.0)
        edge = np.zeros((1, d))
        edge[0, 0] = 2047.0
        found = np.concatenate([add(statistic, corner).sums, add(statistic, edge).sums])
        assert 0.99 * statistic.highest <= max(found) <= statistic.highest


@pytest.mark.parametrize(
    ("d", "norm_steps", "weight", "field"),
    [
        (2, 0, 5, "statistic.norm_steps"),
        (2, 2896, 5, "statistic.norm_steps"),
        (2, 5, 6, "statistic.diagonal_weight"),
        (2048, 5, 5, "dimensions"),
    ],
)
def test_impossible_parameters_are_refused(
    d: int, norm_steps: int, weight: int, field: str
) -> None:
    with pytest.raises(PlanError, match=field):
        make_statistic(d, norm_steps, weight)


def test_a_sum_at_its_limit_of_records_fits_64_bits() -> None:
    for d, radius in ((1, 1), (2, 2047), (100, 20470)):
        statistic = make_statistic(d, radius, 7)
        largest = max(statistic.highest, -statistic.lowest)
        assert largest * count_most_records(statistic) <= 2**63 - 1
