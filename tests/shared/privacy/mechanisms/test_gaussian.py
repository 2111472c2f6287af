import math
from fractions import Fraction

import pytest
from hypothesis import given, settings, strategies as st

from sfumato.shared.errors import PrivacyError
from sfumato.shared.privacy.mechanisms.gaussian import (
    LARGEST_SIGMA,
    DiscreteGaussian,
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
