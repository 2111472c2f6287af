"""Reference methods: their laws by enumeration, and what they find with much epsilon."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from sfumato.lab.clustering.kvariates import KVariatesMethod, draw_weighted
from sfumato.lab.clustering.privgene import PrivGeneMethod
from sfumato.lab.clustering.sample_aggregate import (
    SampleAggregateMethod,
    count_blocks,
)
from sfumato.learning.clustering.methods.contract import Method, QuantisedRecords
from sfumato.shared.core.quantise import STEPS
from sfumato.shared.errors import ConfigError, PrivacyError
from sfumato.shared.privacy.testing import SeededSource
from tests.learning.clustering.methods.replaying import draw_steps, make_task, play


def measure(steps: np.ndarray, centroids: np.ndarray) -> float:
    squares = ((steps[:, None].astype(float) - centroids[None]) ** 2).sum(axis=2)
    return float(squares.min(axis=1).mean())


@pytest.mark.parametrize(
    ("method", "epsilon", "share"),
    [
        (PrivGeneMethod(n_candidates=60, n_survivors=6), 1000, 0.8),
        (SampleAggregateMethod(), 5000, 0.7),
        (SampleAggregateMethod.published(), 5000, 0.9),
        (KVariatesMethod(spread=Fraction(1, 20)), 9000, 0.8),
    ],
)
def test_with_much_epsilon_something_is_found(method: Method, epsilon: int, share: float) -> None:
    steps = draw_steps(2, n=2000)
    task = make_task("replace-one", n_records=2000, epsilon=Fraction(epsilon))
    curator = play(method, task, QuantisedRecords(steps=steps))
    found = method.recover(task, curator.answers, n_clusters=3, rng=np.random.default_rng(0))
    assert measure(steps, found.centroids) < share * measure(steps, steps.mean(axis=0)[None])


def test_a_record_is_in_one_block_that_its_place_decides() -> None:
    steps = draw_steps(3, n=500)
    task = make_task("replace-one", n_records=500, epsilon=Fraction(5000))
    whole = play(SampleAggregateMethod(), task, QuantisedRecords(steps=steps)).exact[0]
    places = np.delete(np.arange(500), 7)
    missing = QuantisedRecords(steps=steps[places], n_missing=1, places=places)
    moved = play(SampleAggregateMethod(), task, missing).exact[0]
    assert 0 <= np.abs(whole - moved).max() <= 2 * STEPS
    # If the records behind the missing one changed their blocks, the sums would move by far more.
    shifted = QuantisedRecords(steps=steps[places], n_missing=1)
    other = play(SampleAggregateMethod(), task, shifted).exact[0]
    assert np.abs(whole - other).max() > 0
    assert count_blocks(500) == 12


def find_pick_loss(n: int, most: int, least: int, ratio: float) -> float:
    """The largest log-ratio of a noisy pick over all weights of n records and two kernels."""
    worst = 0.0
    kernels = (1.0, math.sqrt(ratio), ratio)
    for rest in itertools.combinations_with_replacement(range(most + 1), n - 1):
        for density in itertools.combinations_with_replacement(kernels, n - 1):
            base = sum(w * q for w, q in zip(rest, density, strict=True))
            for (w, q), (v, r) in itertools.product(
                itertools.product(range(most + 1), kernels), repeat=2
            ):
                total, other = sum(rest) + w, sum(rest) + v
                if min(total, other) < least:
                    continue
                near, far = (base + w * q) / total, (base + v * r) / other
                worst = max(worst, math.log(near / far))
    return worst


def test_a_noisy_pick_loses_what_is_stated_under_its_condition() -> None:
    n, most, ratio = 4, 2, 3.0
    spread = Fraction(1, 2)
    least = math.ceil(n * most * spread)
    stated = math.log1p((ratio - 1) / float(n * spread))
    assert find_pick_loss(n, most, least, ratio) == pytest.approx(stated)
    # Where the condition does not hold, a pick loses more.
    assert find_pick_loss(n, most, 1, ratio) > 1.05 * stated


@pytest.mark.parametrize("method", [PrivGeneMethod(), KVariatesMethod(spread=Fraction(1, 2))])
def test_records_whose_squares_could_overflow_are_refused_by_public_numbers(method: Method) -> None:
    # Records in opposite corners are d (2 U)^2 apart, and so many of them pass 2^63: a sum that
    # wraps has no sensitivity, and weights that wrap no law.
    n_records, n_dimensions = 1 << 21, 1 << 10
    assert n_records * n_dimensions * (2 * STEPS) ** 2 >= 1 << 62
    task = make_task("replace-one", n_records=n_records, n_dimensions=n_dimensions)
    with pytest.raises(ConfigError, match="could pass 2"):
        method.plan_rounds(task)


def test_weighted_picks_have_their_law() -> None:
    weights, source = np.array([5, 0, 1, 4]), SeededSource(1)
    drawn = np.bincount([draw_weighted(weights, source) for _ in range(4000)], minlength=4)
    # Five standard deviations of a share of one half: 158.
    assert np.max(np.abs(drawn - 400 * weights)) < 158
    assert drawn[1] == 0
    assert draw_weighted(np.zeros(3, dtype=np.int64), source) in (0, 1, 2)


def test_the_noise_of_a_pick_follows_from_the_stated_condition() -> None:
    method = KVariatesMethod(spread=Fraction(1, 10))
    task = make_task("replace-one", n_records=1000, epsilon=Fraction(3))
    local = float(method.find_local(task))
    assert math.log1p(math.expm1(local) / 100) == pytest.approx(1.0)
    with pytest.raises(PrivacyError, match=r"spread: is missing.*State it from public knowledge"):
        KVariatesMethod().plan_rounds(task)


def test_another_number_of_clusters_needs_another_fit() -> None:
    task = make_task("replace-one")
    method = PrivGeneMethod(n_candidates=10, n_survivors=2)
    curator = play(method, task, QuantisedRecords(steps=draw_steps(1)))
    with pytest.raises(ConfigError, match="n_clusters"):
        method.recover(task, curator.answers, n_clusters=2, rng=np.random.default_rng(0))
    with pytest.raises(ConfigError, match="n_survivors"):
        PrivGeneMethod(n_candidates=5, n_survivors=5)
