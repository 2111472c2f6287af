"""The noisy average of one cluster as published: its noise, and where there is no room for it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sfumato.lab.clustering.published_cover import (
    FRACTION,
    PublishedPlan,
    draw_noisy_average,
    plan_published,
)
from sfumato.shared.core.quantise import STEPS
from sfumato.shared.privacy.testing import SeededSource

D = 3


def make_plan(epsilon: Fraction) -> PublishedPlan:
    return plan_published(
        n_clusters=2,
        n_dimensions=D,
        n_records=10_000,
        epsilon=epsilon,
        delta=Fraction(1, 10**6),
        seed=b"public",
    )


def draw(plan: PublishedPlan, n: int, seed: int) -> NDArray[np.int64]:
    total = np.full(D, 1000 * n, dtype=np.int64)
    return draw_noisy_average(n, total, plan, SeededSource(seed), np.random.default_rng(seed))


def test_an_average_of_many_records_has_the_noise_that_their_noisy_number_asks_for() -> None:
    plan, n = make_plan(Fraction(1)), 5_000_000
    found = np.array([draw(plan, n, seed) for seed in range(400)]) / FRACTION - 1000.0
    # 5 / (4 eps) times the diameter over n, times sqrt(2 ln(3.5 / delta)), for eps = 0.4.
    wanted = 1.25 / 0.4 * 2 * plan.projection.radius / n * np.sqrt(2 * np.log(3.5 / 5e-7))
    # 1,200 draws: false alarms below 1e-8. The mean that is rounded down adds a little noise.
    assert 0.85 < found.std() / wanted < 1.35
    assert abs(found.mean()) < 0.2 * wanted


def test_where_the_noise_could_not_be_drawn_a_point_is_released_that_no_record_moves() -> None:
    plan = replace(make_plan(Fraction(1)), epsilon=Fraction(1, 10**12))
    # So many records that their noisy number is positive, and noise of more than 2^40 steps.
    n = 1 << 48
    near, far = (
        draw_noisy_average(n, np.full(D, total), plan, SeededSource(1), np.random.default_rng(1))
        for total in (0, n * STEPS)
    )
    assert np.array_equal(near, far)
    # Noise that is cut off at what can be drawn would put every coordinate at a wall.
    assert np.abs(near).min() < STEPS * FRACTION
