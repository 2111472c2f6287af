"""Looks at cells: what they sum, what one record can change, and what is found with them."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from sfumato.learning.clustering.methods.contract import QuantisedRecords, Task, join_rounds
from sfumato.learning.clustering.methods.split import (
    SplitMethod,
    clip_residuals,
    measure_noise,
    sum_moments,
)
from sfumato.learning.clustering.weighted_points import run_weighted
from sfumato.shared.core.quantise import STEPS
from sfumato.shared.errors import ConfigError, PrivacyError
from sfumato.shared.privacy.cluster_sums import CellMoments
from tests.learning.clustering.methods.replaying import make_task, play

Integers = NDArray[np.int64]
DELTA = Fraction(1, 10**6)

# ---- what one record can change ----

SMALL = [
    CellMoments(count_unit=3, length=7, square=4),
    CellMoments(count_unit=6, length=5, square=1),
    CellMoments(count_unit=1, length=9, square=0),
]


def list_contributions(moments: CellMoments) -> list[Integers]:
    """List what every record of a small box adds to two cells, and an unusable record."""
    centres, radii = np.array([[-2, 0], [3, 1]]), np.array([2, 5])
    found = [
        sum_moments(np.array([record], dtype=np.int16), centres, radii, moments)
        for record in itertools.product(range(-6, 7), repeat=2)
    ]
    return [*found, np.zeros_like(found[0])]


@pytest.mark.parametrize("moments", SMALL)
@pytest.mark.parametrize("relation", ["replace-one", "add-remove-one"])
def test_no_pair_of_records_is_further_apart_than_the_sensitivity(
    moments: CellMoments, relation: str
) -> None:
    added = list_contributions(moments)
    others = added if relation == "replace-one" else [np.zeros_like(added[0])]
    furthest = max(int(np.sum((a - b) ** 2)) for a in added for b in others)
    bound = moments.measure_l2_squared(relation)
    # Opposite residuals of the largest length have the same square.
    assert bound - moments.square**2 <= furthest <= bound


residuals = arrays(np.int64, (3, 4), elements=st.integers(-2 * STEPS, 2 * STEPS))


@given(residuals=residuals, radius=st.integers(1, 2 * STEPS), square=st.integers(0, 1 << 15))
def test_clipping_never_lengthens_and_rounds_toward_zero(
    residuals: Integers, radius: int, square: int
) -> None:
    moments = CellMoments(count_unit=1, length=1 << 15, square=square)
    clipped, squares = clip_residuals(residuals, np.full(3, radius), moments)
    for z, s, y in zip(residuals.tolist(), clipped.tolist(), squares.tolist(), strict=True):
        longest = sum(value**2 for value in z)
        assert sum(value**2 for value in s) <= moments.length**2
        assert y == min(longest, radius**2) * square // radius**2
        for value, moved in zip(z, s, strict=True):
            exact = abs(value) * moments.length / max(longest**0.5, radius)
            assert moved * value >= 0
            # The length is rounded up to a whole number of steps, and then the number down.
            assert exact * (1 - 1 / max(longest**0.5, radius)) - 1.001 <= abs(moved) <= exact


@given(length=st.integers(0, 1 << 24), more=st.integers(-1, 1))
def test_lengths_are_rounded_up_exactly(length: int, more: int) -> None:
    square = max(length**2 + more, 0)
    root = int(np.ceil(np.sqrt(np.array([square])))[0])
    assert root**2 >= square
    assert root == 0 or (root - 1) ** 2 < square


def test_records_of_the_widest_table_stay_within_64_bits() -> None:
    d = 1 << 16
    corner = np.full((1, d), STEPS, dtype=np.int16)
    radius = np.array([int(np.sqrt(d)) * STEPS])
    moments = CellMoments(count_unit=1, length=1 << 16, square=1 << 16)
    found = sum_moments(corner, np.full((1, d), -STEPS), radius, moments)[0]
    assert found[0] == 1
    assert found[1:-1].tolist() == [(1 << 16) // 256] * d
    assert found[-1] == 1 << 16


# ---- rounds, and what they find ----


@pytest.mark.parametrize("relation", ["replace-one", "add-remove-one"])
def test_rounds_follow_from_public_numbers_and_are_paid_as_one(relation: str) -> None:
    method = SplitMethod()
    task = make_task(relation, delta=DELTA, n_clusters=5, n_records=5000)
    rounds = method.plan_rounds(task)
    # One cell, ceil(log2 15) + 2 levels, and two looks at the clusters.
    assert [planned.name for planned in rounds] == ["cells"] * 7 + ["clusters"] * 2
    (joint,) = join_rounds(task, rounds)
    assert (joint.epsilon, joint.delta) == (task.epsilon, task.delta)
    assert joint.rho == sum(planned.rho or 0 for planned in rounds)
    with pytest.raises(PrivacyError, match="delta"):
        method.plan_rounds(make_task(relation))


def test_less_noise_is_measured_where_more_records_or_epsilon_are_there() -> None:
    def noise(**changes: object) -> float:
        return measure_noise(make_task("replace-one", delta=DELTA, **changes))

    assert noise(n_records=600) == pytest.approx(noise() / 2)
    assert noise(n_clusters=6) == pytest.approx(noise() * 2)
    assert noise(epsilon=Fraction(2)) < noise()
    assert measure_noise(make_task("add-remove-one", delta=DELTA)) == pytest.approx(
        noise() / np.sqrt(2)
    )


def test_the_stronger_noise_is_the_fewer_cells_are_looked_for() -> None:
    def name_levels(n: int) -> int:
        task = make_task("add-remove-one", delta=DELTA, n_clusters=3, n_records=n)
        return sum(planned.name == "cells" for planned in SplitMethod().plan_rounds(task)) - 1

    # ceil(log2 9) + 2 of three cells a cluster, + 1, and ceil(log2 6) of two.
    assert [name_levels(n) for n in (1000, 120, 60)] == [6, 5, 3]


@pytest.mark.parametrize("seed", range(4))
def test_a_spread_that_noise_hides_is_not_taken_for_none(seed: int) -> None:
    steps, means = make_blobs(3, 4, n=150)
    task = make_task(
        "add-remove-one",
        n_records=150,
        n_dimensions=4,
        n_clusters=3,
        epsilon=Fraction(4),
        delta=Fraction(4, 1000),
        seed=bytes([seed]),
    )
    # A first ball that is far too narrow leaves all centres in the mean of the records.
    one_mean = measure_at(steps.mean(axis=0, keepdims=True), steps)
    found = [measure(task, steps, seed=10 * seed + each) for each in range(10)]
    assert max(found) < one_mean / 2
    assert np.median(found) < 1.2 * measure_at(means, steps)


def make_blobs(k: int, d: int, n: int = 5000) -> tuple[NDArray[np.int16], NDArray[np.float64]]:
    rng = np.random.default_rng(k)
    means = rng.uniform(-20_000, 20_000, size=(k, d))
    steps = means[rng.integers(k, size=n)] + rng.normal(scale=2000.0, size=(n, d))
    return np.rint(np.clip(steps, -STEPS, STEPS)).astype(np.int16), means


@pytest.mark.parametrize("relation", ["replace-one", "add-remove-one"])
@pytest.mark.parametrize(("k", "d"), [(1, 3), (4, 2), (12, 8)])
def test_clusters_are_found_without_a_scale_or_a_start(k: int, d: int, relation: str) -> None:
    steps, means = make_blobs(k, d)
    task = make_task(
        relation,
        n_records=len(steps),
        n_dimensions=d,
        n_clusters=k,
        epsilon=Fraction(4),
        delta=DELTA,
    )
    assert measure(task, steps) < 1.05 * measure_at(means, steps)


@pytest.mark.parametrize(("epsilon", "worst"), [("1/4", 1.1), ("1/2", 1.02)])
def test_where_noise_is_strong_most_fits_still_find_all_clusters(
    epsilon: str, worst: float
) -> None:
    steps, means = make_blobs(12, 8)
    task = make_task(
        "add-remove-one",
        n_records=len(steps),
        n_dimensions=8,
        n_clusters=12,
        epsilon=Fraction(epsilon),
        delta=DELTA,
    )
    # A quarter is a noise of 0.1, where none is found much beyond; a wrong rule costs more.
    losses = [
        measure(replace(task, seed=bytes([seed])), steps, seed=seed) / measure_at(means, steps)
        for seed in range(8)
    ]
    assert 1.0 < float(np.median(losses)) < worst


def measure(task: Task, steps: NDArray[np.int16], seed: int = 0) -> float:
    method = SplitMethod()
    answers = play(method, task, QuantisedRecords(steps=steps), seed=seed).answers
    found = method.recover(
        task, answers, n_clusters=task.n_clusters, rng=np.random.default_rng(0)
    ).centroids
    return measure_at(found, steps)


def measure_at(centroids: NDArray[np.float64], steps: NDArray[np.int16]) -> float:
    squares = [np.sum((steps - centroid) ** 2, axis=1) for centroid in centroids]
    return float(np.mean(np.min(squares, axis=0)))


@pytest.mark.parametrize("k", [3, 6, 9, 12])
def test_a_release_tells_of_fewer_clusters_and_of_as_many_as_there_were_cells(k: int) -> None:
    steps, _ = make_blobs(6, 3)
    task = make_task(
        "add-remove-one",
        n_records=len(steps),
        n_dimensions=3,
        n_clusters=6,
        epsilon=Fraction(4),
        delta=DELTA,
    )
    method, rng = SplitMethod(), np.random.default_rng(0)
    answers = play(method, task, QuantisedRecords(steps=steps)).answers
    found = method.recover(task, answers, n_clusters=k, rng=rng)
    assert found.centroids.shape == (k, 3)
    assert found.shares.sum() == pytest.approx(1.0)
    reference = min(run.cost for run in run_weighted(steps.astype(float), np.ones(5000), k, rng))
    assert measure_at(found.centroids, steps) < 1.2 * reference / len(steps)
    with pytest.raises(ConfigError, match="n_clusters: must be at most"):
        method.recover(task, answers, n_clusters=19, rng=rng)


def test_fewer_cells_than_clusters_are_split_until_there_are_enough() -> None:
    # All records alike, and so few that noise drops most cells.
    task = make_task("replace-one", n_records=40, n_clusters=20, delta=DELTA)
    method = SplitMethod()
    records = QuantisedRecords(steps=np.zeros((40, 2), dtype=np.int16))
    answers = play(method, task, records).answers
    found = method.recover(task, answers, n_clusters=20, rng=np.random.default_rng(0))
    assert found.centroids.shape == (20, 2)
    assert all(len(answer.values) <= 60 for answer in answers)
