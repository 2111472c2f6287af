"""The radius of noise on a body. The statistical test is seeded; false alarms: below 1e-6."""

import math

import pytest

from sfumato.shared.privacy.noise_radius import NoiseRadius
from sfumato.shared.privacy.samplers import UNIT
from sfumato.shared.privacy.testing import SeededSource

RADIUS = NoiseRadius(shift=7, n_geometrics=5, rate=UNIT // 40)


def test_mean_and_mean_square_are_those_of_a_shifted_sum_of_geometrics() -> None:
    ratio = math.exp(-RADIUS.rate / UNIT)
    mean = ratio / (1 - ratio)
    variance = ratio / (1 - ratio) ** 2
    assert RADIUS.mean == pytest.approx(7 + 5 * mean)
    assert RADIUS.mean_square == pytest.approx(5 * variance + RADIUS.mean**2)


def test_drawn_radii_have_this_mean_and_stay_within_the_bound() -> None:
    drawn = RADIUS.draw(SeededSource(3), 20_000)
    deviation = math.sqrt((RADIUS.mean_square - RADIUS.mean**2) / len(drawn))
    assert abs(sum(drawn) / len(drawn) - RADIUS.mean) < 5 * deviation
    assert RADIUS.shift <= min(drawn)
    assert max(drawn) <= RADIUS.bound


def test_a_smaller_rate_has_a_larger_bound() -> None:
    wider = NoiseRadius(shift=7, n_geometrics=5, rate=RADIUS.rate // 2)
    assert RADIUS.bound < wider.bound
