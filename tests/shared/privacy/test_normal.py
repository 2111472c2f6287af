from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from scipy.stats import norm

from sfumato.shared.privacy import normal
from sfumato.shared.privacy.normal import _normal_below, bound_gaussian_delta


@pytest.mark.parametrize("x", ["-39", "-12.5", "-6", "-1", "-0.001", "0", "0.5", "3", "12"])
def test_the_normal_tail_agrees_with_another_implementation(x: str) -> None:
    exact = float(norm.cdf(float(x)))
    # Absolute error 1e-70: relative agreement holds while the tail is above it.
    assert float(_normal_below_with_digits(x)) == pytest.approx(exact, rel=1e-10, abs=1e-60)


def _normal_below_with_digits(x: str) -> Decimal:

    with localcontext(prec=80):
        return _normal_below(Decimal(x))


def test_far_tails_are_bounded_and_never_negative() -> None:
    assert _normal_below(Decimal(-50)) == 0
    assert _normal_below(Decimal(50)) == 1


@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1), Fraction(30)])
@pytest.mark.parametrize("ratio", [Fraction(1, 30), Fraction(1, 4), Fraction(2)])
def test_delta_agrees_with_the_formula_in_floating_point(
    epsilon: Fraction, ratio: Fraction
) -> None:
    r, e = float(ratio), float(epsilon)
    import math

    log_second = e + norm.logcdf(-r / 2 - e / r)
    expected = float(norm.cdf(r / 2 - e / r)) - math.exp(min(log_second, 0.0))
    found = bound_gaussian_delta(
        sensitivity_squared=ratio**2, variance=Fraction(1), epsilon=epsilon
    )
    assert float(found) == pytest.approx(expected, rel=1e-6, abs=1e-16)


def test_delta_falls_with_noise_and_with_epsilon() -> None:
    def delta(variance: int, epsilon: int) -> Decimal:
        return bound_gaussian_delta(
            sensitivity_squared=Fraction(1),
            variance=Fraction(variance),
            epsilon=Fraction(epsilon),
        )

    assert delta(4, 1) > delta(5, 1) > delta(6, 1)
    assert delta(4, 1) > delta(4, 2)


@pytest.mark.parametrize("epsilon", [1, 60, 99, 100])
@pytest.mark.parametrize("ratio", [Fraction(1, 2), Fraction(10), Fraction(20)])
def test_the_bound_is_above_the_exact_delta_by_what_it_states(
    epsilon: int, ratio: Fraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bound() -> Decimal:
        return bound_gaussian_delta(
            sensitivity_squared=ratio**2, variance=Fraction(1), epsilon=Fraction(epsilon)
        )

    found = bound()
    monkeypatch.setattr(normal, "_DIGITS", 400)
    with localcontext(prec=600):
        exact = bound() - normal._ROUNDING
        assert 0 <= found - exact <= Decimal("2e-50")
