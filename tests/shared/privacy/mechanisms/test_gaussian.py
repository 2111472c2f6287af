import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sfumato.shared.errors import PrivacyError
from sfumato.shared.privacy.accounting import convert_concentrated
from sfumato.shared.privacy.mechanisms.gaussian import (
    LARGEST_SIGMA,
    LEAST_JOINT_SIGMA,
    DiscreteGaussian,
    bound_joint_delta,
    find_joint_rho,
    sigma_for_rho,
)

L2 = 4 * 16380**2


def calibrate(
    epsilon: Fraction = Fraction(1), delta: Fraction = Fraction(1, 10**6), m: int = 100
) -> DiscreteGaussian:
    return DiscreteGaussian.calibrate(
        n_coordinates=2 * m,
        sensitivity_l2_squared=m * L2,
        epsilon=epsilon,
        delta=delta,
        neighbouring="replace-one",
    )


def test_the_scale_is_that_of_the_analytic_calibration_within_a_thousandth() -> None:
    # c(1, 1e-6) = 4.22 and c(0.1, 1e-6) = 36.3, sigma = c Delta_2.
    assert calibrate().sigma / math.sqrt(100 * L2) == pytest.approx(4.2247, rel=1e-3)
    assert calibrate(Fraction(1, 10)).sigma / math.sqrt(100 * L2) == pytest.approx(36.305, rel=1e-3)


@settings(max_examples=20)
@given(st.fractions(Fraction(1, 50), 20), st.integers(2, 12))
def test_one_step_less_of_sigma_would_not_be_proved(epsilon: Fraction, digits: int) -> None:
    from sfumato.shared.privacy.mechanisms.gaussian import _bound_delta

    delta = Fraction(1, 10**digits)
    mechanism = calibrate(epsilon, delta, m=3)
    assert _bound_delta(6, 3 * L2, mechanism.sigma, epsilon) <= delta
    assert _bound_delta(6, 3 * L2, mechanism.sigma - 1, epsilon) > delta


def test_rho_is_exact_and_inverts() -> None:
    mechanism = calibrate()
    assert mechanism.rho == Fraction(100 * L2, 2 * mechanism.sigma**2)
    assert sigma_for_rho(100 * L2, mechanism.rho) == mechanism.sigma
    assert sigma_for_rho(100 * L2, mechanism.rho * Fraction(999, 1000)) > mechanism.sigma
    assert sigma_for_rho(2, Fraction(1, 1 << 80)) == LARGEST_SIGMA
    for less in (Fraction(1, 1 << 81), Fraction(0)):
        with pytest.raises(PrivacyError, match="would not fit"):
            sigma_for_rho(2, less)


@pytest.mark.parametrize(
    ("epsilon", "delta", "field"),
    [
        (Fraction(0), Fraction(1, 100), "epsilon"),
        (Fraction(-1), Fraction(1, 100), "epsilon"),
        (Fraction(101), Fraction(1, 100), "epsilon"),
        (Fraction(1, 10**12), Fraction(1, 10**9), "epsilon"),
        (Fraction(1), Fraction(0), "delta"),
        (Fraction(1), Fraction(1), "delta"),
        (Fraction(1), Fraction(1, 10**31), "delta"),
    ],
)
def test_levels_that_cannot_be_guaranteed_are_refused_by_name(
    epsilon: Fraction, delta: Fraction, field: str
) -> None:
    with pytest.raises(PrivacyError) as caught:
        calibrate(epsilon, delta)
    assert caught.value.field == field


@pytest.mark.parametrize(("n_rounds", "distance"), [(1, 64), (3, 32), (5, 90)])
def test_rounds_together_are_within_their_joint_bound_and_not_far_below(
    n_rounds: int, distance: int
) -> None:
    # Rounds of the least sigma that move by the same distance: the sum of their noises tells all.
    sigma = LEAST_JOINT_SIGMA
    support = np.arange(-12 * sigma, 12 * sigma + 1)
    law = np.exp(-(support**2) / (2.0 * sigma**2))
    law /= law.sum()
    total = np.ones(1)
    for _ in range(n_rounds):
        total = np.convolve(total, law)
    reach = len(total) // 2
    sums = np.arange(-reach, reach + 1)
    losses = (2.0 * distance * sums + n_rounds * distance**2) / (2.0 * sigma**2)
    rho = n_rounds * Fraction(distance**2, 2 * sigma**2)
    for epsilon in (Fraction(1, 2), Fraction(2), Fraction(4)):
        gap = 1.0 - np.exp(np.minimum(float(epsilon) - losses, 0.0))
        exact, bound = float(total @ gap), float(bound_joint_delta(rho, epsilon))
        assert exact <= bound <= 1.02 * exact


def test_the_joint_rho_is_the_largest_and_above_that_of_zero_concentrated_losses() -> None:
    for epsilon, delta in ((Fraction(1, 4), Fraction(1, 10**5)), (Fraction(4), Fraction(1, 10**9))):
        rho = find_joint_rho(epsilon, delta)
        more = rho * Fraction(1001, 1000)
        assert bound_joint_delta(rho, epsilon) <= delta < bound_joint_delta(more, epsilon)
        assert convert_concentrated(rho, delta) > epsilon
    assert bound_joint_delta(Fraction(0), Fraction(1)) == 0
