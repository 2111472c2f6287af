"""Private max cover: what it releases, and how good it is."""

import math
from fractions import Fraction

import numpy as np
import pytest

from sfumato.lab.clustering.published_cover import (
    FRACTION,
    plan_published,
    run_published,
)
from sfumato.learning.clustering.cover import run_cover
from sfumato.shared.errors import ConfigError
from sfumato.shared.privacy.samplers import UNIT
from sfumato.shared.privacy.testing import SeededSource
from tests.learning.coverage.mixtures import DELTA, SEED, draw_clusters, make_plan, measure_cost


def test_clusters_are_found() -> None:
    steps, centres = draw_clusters(1, n_records=6000, n_dimensions=8, n_clusters=6)
    answer = run_cover(steps, make_plan(), source=SeededSource(1), rng=np.random.default_rng(1))
    best, one = measure_cost(steps, centres), measure_cost(steps, np.zeros((1, 8)))
    # Of all that clusters can explain, at most a quarter is lost; noise alone loses nearly all.
    assert measure_cost(steps, answer.centroids) < best + 0.25 * (one - best)
    assert answer.masses.sum() == pytest.approx(6000, rel=0.05)
    assert answer.candidates.shape == (36, 4)
    assert np.abs(answer.centroids).max() <= 32767


@pytest.mark.parametrize("n", [0, 1, 40])
@pytest.mark.parametrize("relation", ["add-remove-one", "replace-one"])
def test_how_much_is_released_depends_on_no_record(n: int, relation: str) -> None:
    plan = make_plan(n_clusters=2, n_dimensions=2, relation=relation, n_records=100)
    steps = np.random.default_rng(n).integers(-32767, 32768, size=(n, 2))
    answer = run_cover(steps, plan, source=SeededSource(n), rng=np.random.default_rng(0))
    assert answer.candidates.shape == (12, 2)
    assert answer.votes.shape == (12,)
    assert answer.rounds.shape == (2, 2, 3)
    assert answer.centroids.shape == (2, 2)


def test_one_cluster_needs_no_cover() -> None:
    plan = make_plan(n_clusters=1)
    assert len(plan.events) == 1
    steps, _ = draw_clusters(3, n_records=2000, n_dimensions=8, n_clusters=1)
    answer = run_cover(steps, plan, source=SeededSource(1), rng=np.random.default_rng(1))
    # One spread of the noise on a mean, with room.
    error = np.abs(answer.centroids[0] - steps.mean(axis=0)).max()
    assert error < 6 * plan.averages[0].sigma_sum / 2000 + 1


def test_the_same_noise_gives_the_same_release_in_any_order_of_records() -> None:
    steps, _ = draw_clusters(4, n_records=1000, n_dimensions=8, n_clusters=3)
    plan = make_plan()
    order = np.random.default_rng(5).permutation(1000)
    first, second = (
        run_cover(each, plan, source=SeededSource(9), rng=np.random.default_rng(9))
        for each in (steps, steps[order])
    )
    assert np.array_equal(first.candidates, second.candidates)
    assert np.array_equal(first.rounds, second.rounds)


def test_the_published_algorithm_runs_and_loses_more() -> None:
    steps, _ = draw_clusters(2, n_records=6000, n_dimensions=8, n_clusters=6)
    plan = plan_published(
        n_clusters=6, n_dimensions=8, n_records=6000, epsilon=Fraction(1), delta=DELTA, seed=SEED
    )
    assert len(plan.grids) == 4
    assert plan.cover_rate / UNIT == pytest.approx(0.1 / (math.e * math.log(1e6)))
    averages = run_published(steps, plan, source=SeededSource(1), rng=np.random.default_rng(1))
    answer = run_cover(steps, make_plan(), source=SeededSource(1), rng=np.random.default_rng(1))
    assert averages.shape == (6, 8)
    assert measure_cost(steps, answer.centroids) < measure_cost(steps, averages / FRACTION)


def test_records_of_another_width_are_refused() -> None:
    with pytest.raises(ConfigError, match="8 columns"):
        run_cover(
            np.zeros((5, 3), dtype=np.int16),
            make_plan(),
            source=SeededSource(1),
            rng=np.random.default_rng(1),
        )
