import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sfumato.shared.errors import PrivacyError
from sfumato.shared.privacy.mechanisms.knorm import DiscreteKNorm, draw_in_polygon
from sfumato.shared.privacy.polygon import GON24
from sfumato.shared.privacy.samplers import UNIT
from sfumato.shared.privacy.testing import SeededSource
from tests.shared.privacy.sources import find_largest_loss


def calibrate(epsilon: Fraction = Fraction(1), m: int = 100, delta: int = 2730) -> DiscreteKNorm:
    return DiscreteKNorm.calibrate(
        n_frequencies=m, norm_sensitivity=delta, epsilon=epsilon, neighbouring="replace-one"
    )


def log_tail_loss(
    m: int, delta: int, epsilon: float, shift: int, reach: int, n_counts: int = 0
) -> float:
    return find_largest_loss(
        lambda t: GON24.count_points(t) ** m * (2 * t + 1) ** n_counts,
        rate=epsilon / delta,
        n=2 * m + n_counts,
        shift=shift,
        reach=reach,
        move=delta,
    )


@pytest.mark.parametrize(("m", "delta"), [(1, 3), (2, 3), (5, 4), (12, 3)])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_the_exact_privacy_loss_of_the_sampled_law_is_at_most_epsilon(
    m: int, delta: int, epsilon: float
) -> None:
    shift = calibrate(m=m).shift
    reach = int(60 * (2 * m + 1) * max(1.0, delta / epsilon))
    assert log_tail_loss(m, delta, epsilon, shift, reach) <= epsilon + 1e-9


def test_a_radius_shifted_by_one_step_less_is_caught() -> None:
    assert calibrate(m=12).shift == 13
    assert log_tail_loss(12, 3, 1.0, 13, 2000) < 1.0
    assert log_tail_loss(12, 3, 1.0, 12, 2000) > 1.0004


@given(st.fractions(Fraction(1, 1000), 200), st.integers(1, 3000))
def test_the_guarantee_never_exceeds_what_was_asked(epsilon: Fraction, m: int) -> None:
    mechanism = calibrate(epsilon, m)
    assert epsilon - Fraction(2730, UNIT) < mechanism.guarantee.epsilon <= epsilon
    assert mechanism.guarantee.delta == 0


def test_noise_lies_in_one_polygon_for_all_features() -> None:
    noise = calibrate().draw_noise(SeededSource(1))
    norms = GON24.norm(noise[:100], noise[100:])
    # The largest of 100 uniform points nearly touches the body: their norms bound its radius.
    assert norms.max() < 1.2 * np.median(norms) * math.sqrt(2)


def test_noise_stays_far_below_its_bound() -> None:
    mechanism = calibrate()
    largest = max(int(np.abs(mechanism.draw_noise(SeededSource(i))).max()) for i in range(50))
    assert largest < mechanism.noise_bound
    assert mechanism.noise_bound < 3 * largest


def test_a_body_too_large_for_64_bits_is_filled_evenly() -> None:
    # Seeded; the half body holds 1/4 of the points, +- 0.014 at 3.5 standard deviations.
    radius = 1 << 70
    x, y = draw_in_polygon(SeededSource(5), GON24, radius, 12_000)
    assert GON24.contains(x, y, radius).all()
    inner = float(GON24.contains(x, y, radius // 2).mean())
    assert abs(inner - 0.25) < 0.014
    assert abs(float((x < 0).mean()) - 0.5) < 0.016
    assert abs(float((y % 2 == 0).mean()) - 0.5) < 0.016


def test_noise_beyond_64_bits_is_reduced_as_the_sums_are() -> None:
    wide = DiscreteKNorm(
        n_frequencies=100, norm_sensitivity=1, rate=1, neighbouring="add-remove-one", n_counts=1
    )
    noise = wide.draw_noise(SeededSource(2))
    assert noise.dtype == np.int64
    assert noise.shape == (201,)
    assert np.abs(noise.astype(float)).max() > 2.0**61


@pytest.mark.parametrize("epsilon", [Fraction(0), Fraction(-1), Fraction(1, 10**12), Fraction(300)])
def test_an_epsilon_beyond_what_the_noise_can_give_is_refused(epsilon: Fraction) -> None:
    with pytest.raises(PrivacyError, match="epsilon"):
        calibrate(epsilon)


@pytest.mark.parametrize(("m", "epsilon"), [(1, 1.0), (3, 0.5), (12, 3.0)])
def test_the_exact_loss_with_a_secret_count_is_at_most_epsilon(m: int, epsilon: float) -> None:
    with_count = DiscreteKNorm.calibrate(
        n_frequencies=m,
        norm_sensitivity=1365,
        epsilon=Fraction(epsilon),
        neighbouring="add-remove-one",
        n_counts=1,
    )
    assert with_count.n_coordinates == 2 * m + 1
    reach = int(60 * (2 * m + 2) * max(1.0, 3 / epsilon))
    assert log_tail_loss(m, 3, epsilon, with_count.shift, reach, n_counts=1) <= epsilon + 1e-9
    # The shift is needed here too: without it the loss is far above.
    assert log_tail_loss(m, 3, epsilon, 0, reach, n_counts=1) > epsilon + 0.1


def test_the_released_count_has_the_stated_spread() -> None:
    mechanism = DiscreteKNorm.calibrate(
        n_frequencies=20,
        norm_sensitivity=1365,
        epsilon=Fraction(1),
        neighbouring="add-remove-one",
        n_counts=1,
    )
    source = SeededSource(9)
    counts = [mechanism.draw_noise(source)[-1] / 1365 for _ in range(3000)]
    # A uniform variable's fourth moment is 1.8 sd^4: five standard errors are 8 % here, below 6e-7.
    assert abs(np.mean(np.square(counts)) / mechanism.compute_count_variance(1365) - 1) < 0.08
