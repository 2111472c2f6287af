"""The cost of centroids: what a record adds, what neighbours move, and the noise."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.learning.clustering.evaluation import UNIT, NoisyCost, bound_distance
from sfumato.shared.errors import ConfigError, PrivacyError
from sfumato.shared.privacy.testing import SeededSource

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

RELATIONS = ("replace-one", "add-remove-one")
CENTROIDS = np.array([[0.0, 0.0], [4.0, 1.0]])
RECORDS = np.array([[0.0, 0.0], [4.0, 1.0], [1.0, -2.0], [90.0, 90.0], [np.nan, 1.0], [3.9, 1.2]])


def make(relation: str = "replace-one", epsilon: str = "1", largest: float = 3.0) -> NoisyCost:
    return NoisyCost.calibrate(
        largest_distance=largest, epsilon=Fraction(epsilon), neighbouring=relation
    )


def test_sums_are_those_of_the_records_one_by_one() -> None:
    rng = np.random.default_rng(0)
    records = np.concatenate([RECORDS, rng.normal(scale=4.0, size=(20_000, 2))])
    whole = make().sum_records(records, CENTROIDS)
    turned = make().sum_records(rng.permutation(records), CENTROIDS)
    single = sum(make().sum_records(row[None], CENTROIDS) for row in records[:2000])
    rest = make().sum_records(records[2000:], CENTROIDS)
    assert np.array_equal(whole, turned)
    assert np.array_equal(whole, single + rest)


Sum = Callable[[Floats, Floats], Integers]


def find_largest_change(sum_records: Sum, relation: str) -> int:
    """The largest coordinate of any change by one record, which the noise was made for."""
    worst = 0
    for n in (0, 1, 3):
        rest = RECORDS[:n]
        with_one = [
            sum_records(np.concatenate([rest, [one]]), CENTROIDS).astype(object) for one in RECORDS
        ]
        pairs = list(itertools.combinations(with_one, 2))
        if relation == "add-remove-one":
            pairs = [(sum_records(rest, CENTROIDS).astype(object), each) for each in with_one]
        worst = max(worst, *(int(np.abs(a - b).max()) for a, b in pairs))
    return worst


@pytest.mark.parametrize("relation", RELATIONS)
def test_neighbours_are_no_further_apart_than_the_noise_allows(relation: str) -> None:
    noise = make(relation)
    assert find_largest_change(noise.sum_records, relation) == noise.mechanism.norm_sensitivity
    assert Fraction(999_999, 10**6) < noise.mechanism.guarantee.epsilon <= 1
    assert noise.mechanism.guarantee.neighbouring == relation
    # Mistakes that this finds: a distance that is not clipped, and one to a mean of the records.

    def forget_clip(points: Floats, centroids: Floats) -> Integers:
        whole = points[np.isfinite(points).all(axis=1)]
        squares = np.sum((whole[:, None] - centroids) ** 2, axis=2).min(axis=1)
        return np.array([[int(squares.sum() / 9.0 * UNIT), UNIT * len(whole)]])

    def measure_from_the_mean(points: Floats, centroids: Floats) -> Integers:
        whole = points[np.isfinite(points).all(axis=1)]
        mean = whole.mean(axis=0, keepdims=True) if len(whole) else centroids
        return noise.sum_records(points, mean)

    for mutant in (forget_clip, measure_from_the_mean):
        assert find_largest_change(mutant, relation) > noise.mechanism.norm_sensitivity


def test_the_noise_has_the_stated_deviations_and_no_others() -> None:
    noise, sums = make(epsilon="1/2"), np.array([[700 * UNIT, 1000 * UNIT]])
    found = [noise.read(noise.add_noise(sums, SeededSource(seed))) for seed in range(2000)]
    totals, counts = (
        np.array([getattr(each, name) for each in found]) for name in ("total", "n_records")
    )
    for values, deviation in (
        (totals, found[0].total_std),
        (counts, found[0].n_records_std),
        ([each.mean for each in found], found[0].mean_std),
    ):
        # The variance of 2000 has a relative deviation of 5 % here: 2/3 and 3/2 of the scale give
        # 0.67 and 1.5.
        assert 0.85 < float(np.std(values)) / deviation < 1.15
    assert totals.mean() == pytest.approx(700 * 9.0, abs=5 * found[0].total_std / 40)
    assert counts.mean() == pytest.approx(1000, abs=5 * found[0].n_records_std / 40)
    # Twice the largest square over epsilon, to a hundredth.
    assert found[0].total_std == pytest.approx(2 * 9.0 / 0.5, rel=0.01)


def test_what_noise_makes_impossible_is_read_as_the_nearest_that_is_possible() -> None:
    cost = make().read(np.array([[-5, -3 * UNIT]]))
    assert (cost.total, cost.n_records) == (0.0, 1.0)
    assert math.isfinite(cost.mean_std)


def test_no_point_of_a_box_is_further_than_its_bound() -> None:
    rng = np.random.default_rng(1)
    lower, upper = np.array([-1.0, 0.0, -5.0]), np.array([2.0, 1.0, 5.0])
    for k in (1, 2, 5):
        centroids = rng.uniform(lower, upper, size=(k, 3))
        corners = np.array(list(itertools.product(*zip(lower, upper, strict=True))))
        points = np.concatenate([corners, rng.uniform(lower, upper, size=(500, 3))])
        squares = np.sum((points[:, None] - centroids) ** 2, axis=2).min(axis=1)
        furthest, bound = math.sqrt(squares.max()), bound_distance(centroids, lower, upper)
        assert furthest <= bound * (1 + 1e-12)
        if k == 1:
            assert furthest == pytest.approx(bound)


def test_a_record_adds_its_clipped_squared_distance_and_itself() -> None:
    squares = [0.0, 0.0, 5.0, 9.0, 0.01 + 0.04]
    steps = [round(UNIT * square / 9.0) for square in squares]
    assert make().sum_records(RECORDS, CENTROIDS).tolist() == [[sum(steps), 5 * UNIT]]


@pytest.mark.parametrize("largest", [1e-100, 1e100])
def test_a_record_adds_no_more_in_any_unit_of_length(largest: float) -> None:
    noise = make(largest=largest)
    sums = noise.sum_records(RECORDS * largest / 3.0, CENTROIDS * largest / 3.0)
    assert np.abs(sums - make().sum_records(RECORDS, CENTROIDS)).max() <= len(RECORDS)
    far = np.array([[1e300, -1e300]])
    with np.errstate(all="raise"):
        assert noise.sum_records(far, CENTROIDS).tolist() == [[UNIT, UNIT]]
    assert math.isfinite(noise.read(sums).mean_std)


def test_numbers_that_cannot_hold_are_refused() -> None:
    # Beyond these, squares leave the range of floats, and a record could add anything.
    for largest in (0.0, -1.0, math.nan, math.inf, 1e-155, 1e-101, 1e101, 1e160):
        with pytest.raises(ConfigError, match="largest_distance"):
            make(largest=largest)
    with pytest.raises(PrivacyError, match="epsilon"):
        make(epsilon="0")
