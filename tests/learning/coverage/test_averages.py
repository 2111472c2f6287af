"""Averages of clusters under Gaussian noise: what one record moves, by enumeration."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from sfumato.learning.coverage.averages import COUNT_UNIT, GaussianAverages
from sfumato.learning.coverage.projection import Integers
from sfumato.shared.privacy.testing import SeededSource


def list_changes(relation: str, radius: int) -> list[Integers]:
    """All changes of K counts and one-dimensional sums of two clusters by one record."""
    places = range(-radius, radius + 1)
    ones = [(c, x) for c in (0, 1) for x in places]

    def release(record: tuple[int, int]) -> Integers:
        released = np.zeros((2, 2), dtype=np.int64)
        released[record[0]] = COUNT_UNIT, record[1]
        return released

    if relation == "add-remove-one":
        return [release(one) for one in ones]
    return [release(a) - release(b) for a, b in itertools.product(ones, ones)]


@pytest.mark.parametrize("relation", ["add-remove-one", "replace-one"])
@pytest.mark.parametrize("mu", ["1/10", "1", "3"])
def test_averages_move_by_no_more_than_stated(relation: str, mu: str) -> None:
    radius, wanted = 6, Fraction(mu) ** 2
    averages = GaussianAverages.calibrate(radius=radius, mu_squared=wanted, relation=relation)
    scales = Fraction(averages.sigma_count**2 - 4), Fraction(averages.sigma_sum**2 - 4)
    moved = max(
        int(np.sum(change[:, 0] ** 2)) / scales[0] + int(np.sum(change[:, 1] ** 2)) / scales[1]
        for change in list_changes(relation, radius)
    )
    # Attained, so that a smaller noise would be found.
    assert moved == averages.measure(relation) <= wanted


def test_noise_on_averages_has_its_scales() -> None:
    averages = GaussianAverages(radius=100, sigma_count=300, sigma_sum=50)
    counts, sums = np.full(4000, 7), np.tile([10, -10], (4000, 1))
    released = averages.add_noise(counts, sums, SeededSource(1))
    for column, mean, sigma in ((0, 7 * COUNT_UNIT, 300), (1, 10, 50), (2, -10, 50)):
        values = released[:, column]
        # Five standard deviations, once in 1.7e6; two thirds and three halves are far outside.
        assert abs(values.mean() - mean) < 5 * sigma / math.sqrt(4000)
        assert abs(values.std() / sigma - 1) < 5 / math.sqrt(8000)


def test_centres_are_shrunk_by_what_noise_explains() -> None:
    averages = GaussianAverages(radius=100, sigma_count=1, sigma_sum=1000)
    rng = np.random.default_rng(1)
    truth = rng.normal(scale=10.0, size=(50, 40))
    counts = np.full(50, 100)
    sums = np.rint(counts[:, None] * truth + rng.normal(scale=1000.0, size=truth.shape))
    released = np.column_stack([counts * COUNT_UNIT, sums]).astype(np.int64)
    centres, masses = averages.read(released, None)
    assert masses.tolist() == counts.tolist()
    raw = sums / 100.0
    # Noise and signal have equal variances: half is kept, and half the error is left.
    assert np.mean((centres - truth) ** 2) < 0.6 * np.mean((raw - truth) ** 2)
    # An empty cluster keeps its old centre.
    released[3] = 2, *([10**9] * 40)
    old = np.full((50, 40), 7.0)
    assert averages.read(released, old)[0][3].tolist() == old[3].tolist()
