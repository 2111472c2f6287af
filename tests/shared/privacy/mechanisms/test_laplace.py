import math
from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from sfumato.shared.errors import PrivacyError
from sfumato.shared.privacy import DiscreteLaplace
from sfumato.shared.privacy.samplers import UNIT


def calibrate(epsilon: Fraction, l1: int = 46324) -> DiscreteLaplace:
    return DiscreteLaplace.calibrate(sensitivity_l1=l1, epsilon=epsilon, neighbouring="replace-one")


@given(st.fractions(Fraction(1, 1000), 100), st.integers(1, 10**8))
def test_the_guarantee_never_exceeds_what_was_asked_and_loses_almost_nothing(
    epsilon: Fraction, l1: int
) -> None:
    mechanism = calibrate(epsilon, l1)
    assert mechanism.guarantee.epsilon <= epsilon
    assert mechanism.guarantee.epsilon > epsilon - Fraction(l1, UNIT)
    assert mechanism.scale >= l1 / epsilon


def test_the_guarantee_says_relation_and_assumptions() -> None:
    words = calibrate(Fraction(1)).guarantee.describe()
    for part in ("replace-one", "one record", "number of records", "twice"):
        assert part in words


@pytest.mark.parametrize("epsilon", [Fraction(0), Fraction(-1)])
def test_epsilon_must_be_positive(epsilon: Fraction) -> None:
    with pytest.raises(PrivacyError, match="greater than zero"):
        calibrate(epsilon)


def test_the_bound_holds_with_probability_beyond_chance() -> None:
    mechanism = calibrate(Fraction(1))
    assert math.exp(-mechanism.noise_bound / float(mechanism.scale)) < 2.0**-60


@pytest.mark.parametrize("epsilon", [10**3, 10**6, 10**9])
def test_an_absurd_epsilon_leaves_next_to_no_variance(epsilon: int) -> None:
    mechanism = calibrate(Fraction(epsilon), l1=1000)
    assert 0.0 <= mechanism.variance < 1.0 + 1e6 / epsilon**2


def test_epsilon_must_be_exact() -> None:
    with pytest.raises(PrivacyError, match="exact rational"):
        calibrate(0.1)  # type: ignore[arg-type]


def test_noise_too_large_for_the_sums_is_refused() -> None:
    with pytest.raises(PrivacyError, match="64-bit"):
        calibrate(Fraction(1, 10**12))
