"""Noise of the device in C has its law, and a broken generator releases nothing.

Seeded; each estimate lies within 5 standard errors, so a false alarm has probability below one in
a million. Every law is told from 2/3 and 3/2 of its scale.
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from sfumato.shared.privacy.mechanisms.knorm import DiscreteKNorm
from tests.clients.c.building import Driver, list_plans, number_of

RATIOS = (2 / 3, 3 / 2)


def is_near(values: np.ndarray, expected: float) -> bool:
    return bool(abs(values.mean() - expected) < 5 * values.std(ddof=1) / math.sqrt(values.size))


def test_laplace_noise_has_its_variance_and_as_many_zeros_as_its_law_says(native: Driver) -> None:
    wide, narrow = native.run(f"laplace {2**52 // 50} 3000 0a", f"laplace {2**51} 4000 0b")
    noise = np.array(wide.split(), dtype=float)
    q = math.exp(-1 / 50)
    variance = 2 * q / (1 - q) ** 2
    assert is_near(noise**2, variance)
    assert is_near(noise, 0.0)
    assert not any(is_near(noise**2, variance * ratio**2) for ratio in RATIOS)
    zeros = np.array(narrow.split(), dtype=float) == 0
    q = math.exp(-1 / 2)
    # Minus zero is drawn again.
    assert is_near(zeros.astype(float), (1 - q) / (1 + q))
    assert not is_near(zeros.astype(float), 1 - q)


def test_points_of_the_polygon_are_uniform(native: Driver) -> None:
    n = 40_000
    (answer,) = native.run(f"polygon 1 {n} 0c")
    counts = Counter(answer.split())
    # Pick's theorem: area 458, and 44 points on the boundary.
    cells = 458 + 44 // 2 + 1
    assert len(counts) == cells
    statistic = sum((count - n / cells) ** 2 / (n / cells) for count in counts.values())
    # Chi-squared with 480 degrees of freedom exceeds 640 with probability below one in a million.
    assert statistic < 640


def test_no_point_lies_outside_the_polygon_and_some_lie_at_each_corner(native: Driver) -> None:
    radius = 10
    (answer,) = native.run(f"polygon {radius} 5000 0e")
    points = np.array([[*map(int, point.split(","))] for point in answer.split()])
    corners = np.array([[12, 2], [11, 5], [10, 7], [7, 10], [5, 11], [2, 12]])
    signs = [(x, y) for x in (1, -1) for y in (1, -1)]
    around = np.concatenate([corners * sign for sign in signs])
    around = radius * around[np.argsort(np.arctan2(around[:, 1], around[:, 0]))]
    for start, end in zip(around, np.roll(around, -1, axis=0), strict=True):
        (dx, dy), (x, y) = end - start, (points - start).T
        # Left of every edge.
        inside = dx * y - dy * x
        assert inside.min() >= 0
        assert inside.min() < 10 * np.hypot(dx, dy)


def draw_noise(driver: Driver, plan: str, n_releases: int) -> np.ndarray:
    zeros = " 0" * list_plans()[plan].n_features
    head = f"noise {number_of(plan)} {list_plans()[plan].most_records} 0"
    answers = driver.run(*(f"{head} {i:04x}{zeros}" for i in range(n_releases)))
    rows = np.array([answer.split() for answer in answers], dtype=float)
    assert not rows[:, 0].any()
    noise: np.ndarray = rows[:, 1:]
    return noise


def test_knorm_noise_has_the_variance_of_its_law_in_both_parts(native: Driver) -> None:
    plan = list_plans()["knorm"]
    assert isinstance(plan.mechanism, DiscreteKNorm)
    noise = draw_noise(native, "knorm", 200)
    m = plan.n_frequencies
    for part in (noise[:, :m], noise[:, m:]):
        # One radius for all features of a release: releases are the independent samples.
        squares = (part**2).mean(axis=1)
        assert is_near(squares, plan.mechanism.variance)
        assert not any(is_near(squares, plan.mechanism.variance * ratio**2) for ratio in RATIOS)


def test_noise_is_added_to_the_sum_of_its_own_coordinate(driver: Driver) -> None:
    for name in ("knorm", "laplace"):
        plan = list_plans()[name]
        sums = [1000 * (i + 1) * (-1) ** i for i in range(plan.n_features)]
        head = f"noise {number_of(name)} {plan.most_records} 0 0d "
        zero, moved = driver.run(head + "0 " * plan.n_features, head + " ".join(map(str, sums)))
        noise = np.array(zero.split()[1:], dtype=np.int64)
        assert np.array(moved.split()[1:], dtype=np.int64).tolist() == (noise + sums).tolist()


@pytest.mark.parametrize("plan", ["knorm", "laplace"])
def test_a_generator_that_fails_or_stands_still_is_an_error(driver: Driver, plan: str) -> None:
    n = list_plans()[plan].n_features
    for how in ("fails", "same", "repeats"):
        (answer,) = driver.run(f"noise {number_of(plan)} 8 1 {how}{' 1000' * n}")
        # The exact sums are gone.
        assert answer.split() == ["1", *(["0"] * n)], how
