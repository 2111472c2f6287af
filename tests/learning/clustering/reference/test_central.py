"""Reference methods: their laws by enumeration, and what they find with much epsilon."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from sfumato.learning.clustering.methods.contract import Method, QuantisedRecords
from sfumato.learning.clustering.reference.kvariates import KVariatesMethod
from sfumato.learning.clustering.reference.privgene import PrivGeneMethod
from sfumato.learning.clustering.reference.sample_aggregate import (
    SampleAggregateMethod,
    count_blocks,
)
from sfumato.shared.core.quantise import STEPS
from sfumato.shared.errors import ConfigError
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
