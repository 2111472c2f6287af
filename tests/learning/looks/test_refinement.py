"""What is known of centroids is combined by precision, and no further than both agree."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.learning.looks.refinement import Estimate, combine

Floats = NDArray[np.float64]
K, D, RUNS = 6, 3, 600


def draw(rng: np.random.Generator, deviation: float, bias: float = 0.0) -> Estimate:
    """Estimate centroids at zero, each moved by a bias in a direction of its own."""
    away = rng.normal(size=(K, D))
    away *= bias / np.linalg.norm(away, axis=1, keepdims=True)
    noise = rng.laplace(scale=deviation / np.sqrt(2.0), size=(K, D))
    return Estimate(points=away + noise, variances=np.full((K, D), deviation**2))


def measure(*stages: tuple[float, float]) -> tuple[float, float]:
    """Return the mean squared error of all looks together, and that of the last alone."""
    rng, both = np.random.default_rng(5), np.zeros(2)
    weights = np.ones(D)
    for _ in range(RUNS):
        looks = [draw(rng, deviation, bias) for deviation, bias in stages]
        found = looks[0]
        for each in looks[1:]:
            found = combine(found, each, weights)
        both += (found.points**2).sum(), (looks[-1].points ** 2).sum()
    return float(both[0] / RUNS), float(both[1] / RUNS)


@pytest.mark.parametrize(("deviation", "share"), [(1.0, 0.5), (0.5, 0.2), (2.0, 0.8)])
def test_looks_that_agree_are_combined_nearly_by_precision(deviation: float, share: float) -> None:
    # Exact precision has the share; estimating how far both agree costs a part of it. The mean of
    # 600 runs errs by 3 %, so that a false alarm needs five deviations.
    together, last = measure((deviation, 0.0), (1.0, 0.0))
    assert share * 0.85 < together / last < 0.15 * (1.0 - share) + 1.2 * share


def test_three_looks_of_one_noise_are_three_times_as_precise_as_one() -> None:
    together, last = measure((1.0, 0.0), (1.0, 0.0), (1.0, 0.0))
    assert together / last < 0.42


@pytest.mark.parametrize("bias", [0.0, 0.5, 1.0, 2.0, 4.0, 10.0, 100.0])
@pytest.mark.parametrize("deviation", [0.3, 1.0, 3.0])
def test_an_earlier_look_never_makes_the_later_one_worse(bias: float, deviation: float) -> None:
    together, last = measure((deviation, bias), (1.0, 0.0))
    assert together < 1.1 * last


def test_a_sketch_of_unknown_error_is_kept_where_noise_explains_the_step() -> None:
    weights = np.ones(2)
    step = Estimate(points=np.array([[1.0, 0.0], [6.0, 0.0]]), variances=np.full((2, 2), 2.0))
    found = combine(Estimate(points=np.zeros((2, 2))), step, weights)
    assert found.points.tolist() == [[0.0, 0.0], [6.0 * (1 - 4 / 36), 0.0]]
    assert found.variances is step.variances


def test_a_phantom_says_nothing_and_what_was_known_stays() -> None:
    rng = np.random.default_rng(1)
    before, new = draw(rng, 1.0), draw(rng, 1.0)
    known = np.array([False, *[True] * (K - 1)])
    found = combine(
        before, Estimate(points=new.points, variances=new.variances, is_known=known), np.ones(D)
    )
    assert before.variances is not None
    assert found.variances is not None
    assert np.array_equal(found.points[0], before.points[0])
    assert np.array_equal(found.variances[0], before.variances[0])
    assert (found.variances[1:] < 1.0).all()
