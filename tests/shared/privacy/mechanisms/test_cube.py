from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from sfumato.shared.errors import PrivacyError
from sfumato.shared.privacy.mechanisms.cube import DiscreteCube
from sfumato.shared.privacy.samplers import UNIT, draw_below, draw_below_each
from sfumato.shared.privacy.testing import SeededSource
from tests.shared.privacy.sources import find_largest_loss


def make(n_coordinates: int, sensitivity: int, epsilon: Fraction) -> DiscreteCube:
    # Built without the grid rule of `calibrate`, so that a law small enough to enumerate is drawn.
    return DiscreteCube(
        n_coordinates=n_coordinates,
        norm_sensitivity=sensitivity,
        rate=math.floor(epsilon * UNIT / sensitivity),
        neighbouring="replace-one",
    )


def calibrate(
    epsilon: Fraction = Fraction(1), d: int = 3, sensitivity: int = 65534
) -> DiscreteCube:
    return DiscreteCube.calibrate(
        n_coordinates=d + 1,
        norm_sensitivity=sensitivity,
        epsilon=epsilon,
        neighbouring="replace-one",
    )


def log_tail_loss(n: int, sensitivity: int, epsilon: float, shift: int, reach: int) -> float:
    return find_largest_loss(
        lambda t: (2 * t + 1) ** n,
        rate=epsilon / sensitivity,
        n=n,
        shift=shift,
        reach=reach,
        move=sensitivity,
    )


@pytest.mark.parametrize("n", [1, 2, 11])
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_the_exact_loss_of_the_sampled_law_is_at_most_epsilon(n: int, epsilon: float) -> None:
    shift = make(n, 4, Fraction(epsilon)).shift
    reach = int(40 * (n + 2) * max(1.0, 4 / epsilon))
    loss = log_tail_loss(n, 4, epsilon, shift, reach)
    assert 0.99 * epsilon < loss <= epsilon + 1e-9


@pytest.mark.parametrize("n", [2, 4, 11])
def test_a_radius_shifted_by_one_step_less_is_caught(n: int) -> None:
    shift = make(n, 4, Fraction(1)).shift
    assert log_tail_loss(n, 4, 1.0, shift - 1, 200 * n) > 1.001


@given(st.fractions(Fraction(1, 1000), 200), st.integers(1, 300))
def test_the_guarantee_never_exceeds_what_was_asked(epsilon: Fraction, d: int) -> None:
    mechanism = calibrate(epsilon, d)
    assert epsilon - Fraction(65534, UNIT) < mechanism.guarantee.epsilon <= epsilon
    assert mechanism.guarantee.delta == 0


@pytest.mark.parametrize("epsilon", [Fraction(0), Fraction(-1), Fraction(1, 10**9)])
def test_an_epsilon_that_noise_cannot_give_is_refused(epsilon: Fraction) -> None:
    with pytest.raises(PrivacyError, match="epsilon"):
        calibrate(epsilon)


def test_a_grid_that_is_too_coarse_is_refused_from_a_tenth_of_the_sensitivity_on() -> None:
    assert calibrate(Fraction(10), sensitivity=100).guarantee.epsilon <= 10
    with pytest.raises(PrivacyError, match="too coarse"):
        calibrate(Fraction(101, 10), sensitivity=100)


def exact_law(n: int, sensitivity: int, epsilon: float, reach: int) -> NDArray[np.float64]:
    """P(|Y| = y) of one of n integers, y from 0 to reach: uniform on -T .. T, T as in the proof."""
    q, shift = math.exp(-epsilon / sensitivity), -(-n // 2)
    t = np.arange(shift, 60 * reach)
    logs = [
        math.lgamma(x - shift + n + 1) - math.lgamma(x - shift + 1) - math.lgamma(n + 1)
        for x in t.tolist()
    ]
    masses = np.exp(np.array(logs) + (n + 1) * math.log1p(-q) + (t - shift) * math.log(q))
    law = np.array([masses[t >= y] @ (1.0 / (2 * t[t >= y] + 1)) for y in range(reach + 1)])
    law[1:] *= 2.0
    return law


@pytest.mark.parametrize("n", [2, 5])
@pytest.mark.parametrize("wrong", [Fraction(1), Fraction(2, 3), Fraction(3, 2)])
def test_one_integer_follows_the_exact_law_and_no_other(n: int, wrong: Fraction) -> None:
    # Chi-square over 25 classes, by Wilson and Hilferty; 4.9 standard deviations: 5e-7.
    bodies, reach = 12_000, 24
    drawn = make(n, 3, Fraction(1) * wrong).draw_noise(SeededSource(n), bodies)[:, 0]
    law = exact_law(n, 3, 1.0, reach)
    seen = np.bincount(np.minimum(np.abs(drawn), reach + 1), minlength=reach + 2)
    expected = bodies * np.append(law, 1.0 - law.sum())
    k = reach + 1
    statistic = float(np.sum((seen - expected) ** 2 / expected))
    score = ((statistic / k) ** (1 / 3) - 1 + 2 / (9 * k)) / math.sqrt(2 / (9 * k))
    assert (score < 4.9) == (wrong == 1)


def test_signs_are_even_and_integers_of_a_body_share_a_radius_but_bodies_do_not() -> None:
    noise = calibrate(d=2).draw_noise(SeededSource(3), 20_000).astype(float)
    assert abs(float((noise > 0).mean()) - 0.5) < 4.9 * 0.5 / math.sqrt(noise.size)
    sizes = np.abs(noise)
    inside = float(np.corrcoef(sizes[:, 0], sizes[:, 1])[0, 1])
    between = float(np.corrcoef(sizes[:-1, 0], sizes[1:, 0])[0, 1])
    # Independent sizes exceed 4.9 / sqrt(n) = 0.035 once in a million.
    assert inside > 0.1
    assert abs(between) < 0.035


def test_the_variance_is_the_stated_one_and_stays_below_the_bound() -> None:
    mechanism = calibrate(d=10)
    noise = mechanism.draw_noise(SeededSource(4), 3000).astype(float)
    # Bodies share a radius: 3000 of them have a relative deviation below 0.02; five are 0.1.
    assert abs(float(np.mean(noise**2)) / mechanism.variance - 1) < 0.1
    assert mechanism.variance == pytest.approx(12 * 13 / 3 * 65534**2, rel=0.01)
    assert np.abs(noise).max() < mechanism.noise_bound < 6 * np.abs(noise).max()


def test_noise_beyond_64_bits_is_reduced_as_the_sums_are() -> None:
    wide = DiscreteCube(n_coordinates=3, norm_sensitivity=1, rate=1, neighbouring="replace-one")
    wider = DiscreteCube(n_coordinates=999, norm_sensitivity=1, rate=1, neighbouring="replace-one")
    for mechanism in (wide, wider):
        noise = mechanism.draw_noise(SeededSource(2), 2)
        assert noise.dtype == np.int64
        assert noise.shape == (2, mechanism.n_coordinates)


@pytest.mark.parametrize("n", [3, 1000, (1 << 62) - 1])
def test_numbers_below_each_limit_are_those_below_one_limit(n: int) -> None:
    each = draw_below_each(SeededSource(1), np.full(500, n, dtype=np.int64))
    assert np.array_equal(each, draw_below(SeededSource(1), n, 500))


def test_numbers_below_different_limits_are_uniform() -> None:
    limits = np.tile(np.array([1, 2, 3, 5], dtype=np.int64), 20_000)
    drawn = draw_below_each(SeededSource(6), limits)
    for limit in (1, 2, 3, 5):
        counts = np.bincount(drawn[limits == limit], minlength=limit)
        # 4.9 standard deviations of a count.
        assert counts.size == limit
        spread = math.sqrt(20_000 / limit * (1 - 1 / limit))
        assert np.abs(counts - 20_000 / limit).max() <= 4.9 * spread


def test_limits_that_refuse_a_quarter_of_the_words_are_still_exact() -> None:
    # 2^64 mod n is nearly n: the first 2^62 - 1 words are drawn again.
    limit = 3 * (1 << 60) + 1
    drawn = draw_below_each(SeededSource(7), np.full(4000, limit, dtype=np.int64))
    assert drawn.max() < limit
    assert abs(float((drawn < limit // 2).mean()) - 0.5) < 0.04
