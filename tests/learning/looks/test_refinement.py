"""What is known of centroids is combined by precision, and no further than both agree."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.learning.looks.refinement import Estimate, combine

Floats = NDArray[np.float64]
K, D, RUNS = 6, 3, 300


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
    # 300 runs errs by 4 %, so that a false alarm needs three deviations; it is seeded.
    together, last = measure((deviation, 0.0), (1.0, 0.0))
    assert share * 0.85 < together / last < 0.15 * (1.0 - share) + 1.2 * share


def test_three_looks_of_one_noise_are_three_times_as_precise_as_one() -> None:
    together, last = measure((1.0, 0.0), (1.0, 0.0), (1.0, 0.0))
    assert together / last < 0.42


@pytest.mark.parametrize("bias", [0.0, 1.0, 2.0, 4.0, 100.0])
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


def step(records: Floats, centres: Floats) -> tuple[Floats, Floats]:
    """Return the means and the numbers of the records nearest to each centre."""
    labels = ((records[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    counts = np.bincount(labels, minlength=len(centres))
    sums = np.zeros_like(centres)
    np.add.at(sums, labels, records)
    return sums / np.maximum(counts, 1)[:, None], np.maximum(counts, 1).astype(np.float64)


def follow(seed: int, deviations: tuple[float, float], error: float, is_known: bool) -> Floats:
    """Look twice at overlapping clusters; return the distances to the optimum of k-means.

    Of the sketch, after the first look, of the second look alone, and of all combined.
    """
    rng, weights = np.random.default_rng(seed), np.ones(4)
    means = 1.5 * rng.normal(size=(5, 4))
    records = means[rng.choice(5, 1500)] + rng.normal(size=(1500, 4))
    best = means
    for _ in range(60):
        best, counts = step(records, best)
    sketch = best + error * rng.normal(size=best.shape)
    known = Estimate(points=sketch, variances=np.full((5, 4), error**2) if is_known else None)
    found, alone = [sketch], sketch
    for deviation in deviations:
        middle, numbers = step(records, known.points)
        noise = np.repeat(deviation / numbers[:, None], 4, axis=1)
        drawn = middle + rng.laplace(scale=noise / np.sqrt(2.0))
        new = Estimate(points=drawn, variances=noise**2)
        alone = combine(Estimate(points=known.points), new, weights).points
        known = combine(known, new, weights)
        found.append(known.points)
    found.insert(2, alone)
    return np.array([((each - best) ** 2 @ weights * counts).sum() for each in found])


@pytest.mark.parametrize(
    ("deviations", "most", "is_known"),
    [
        ((20.0, 20.0), 0.95, True),
        ((20.0, 60.0), 0.75, False),
        ((60.0, 20.0), 1.08, True),
        ((60.0, 20.0), 1.08, False),
    ],
)
def test_on_overlapping_records_all_looks_together_are_no_worse_than_the_last(
    deviations: tuple[float, float], most: float, is_known: bool
) -> None:
    # Means of 15 seeds, which err by 10 % of each other: fixed, so that no run is a false alarm.
    found = np.mean([follow(seed, deviations, 0.15, is_known) for seed in range(15)], axis=0)
    sketch, _, alone, combined = found
    assert combined < most * alone
    assert combined < sketch
