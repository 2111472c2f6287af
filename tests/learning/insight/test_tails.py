"""P-values of draws are uniform where nothing has changed, and extrapolated with care."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.optimize import brentq
from scipy.stats import gamma, norm
from scipy.stats.distributions import rv_frozen

from sfumato.learning.insight.tails import NullDraws, SmallestDraws, adjust_holm, find_discoveries

P_VALUES = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=30).map(np.array)


def test_the_tail_of_a_gamma_variate_is_found_beyond_the_draws() -> None:
    law = gamma(a=20.0, scale=0.1)
    draws = NullDraws(draws=law.rvs(size=1999, random_state=1))
    for p in (0.5, 0.05, 0.012):
        assert draws.estimate_p(float(law.isf(p))) == pytest.approx(p, rel=0.25)
    for p in (1e-3, 1e-4, 1e-5):
        # The skewness of the draws is known to a tenth.
        assert abs(np.log10(draws.estimate_p(float(law.isf(p))) / p)) < 0.5


@pytest.mark.parametrize("law", [gamma(a=20.0, scale=0.1), norm(2.0, 0.5)])
def test_logarithms_of_p_values_go_on_where_floats_end(law: rv_frozen) -> None:
    draws = NullDraws(draws=law.rvs(size=200_000, random_state=1))
    near, far, farther = (float(law.mean() + n * law.std()) for n in (4.0, 150.0, 300.0))
    assert draws.estimate_log_p(near) == pytest.approx(np.log(draws.estimate_p(near)))
    assert draws.estimate_p(farther) == 0.0
    assert -np.inf < draws.estimate_log_p(farther) < draws.estimate_log_p(far) < -500.0
    smallest = SmallestDraws(laws=(draws, draws))
    assert smallest.estimate_log_p(-1000.0) == pytest.approx(-1000.0, abs=1.0)


@pytest.mark.parametrize("p", [0.3, 0.01, 1e-4, 1e-7])
def test_the_value_of_a_p_value_has_that_p_value(p: float) -> None:
    draws = NullDraws(draws=gamma(a=20.0).rvs(size=50_000, random_state=1))
    assert draws.estimate_p(draws.find_value(p)) == pytest.approx(p, rel=0.1)


def test_p_values_never_rise_with_the_statistic() -> None:
    draws = NullDraws(draws=np.random.default_rng(1).chisquare(5.0, 999))
    p_values = [draws.estimate_p(value) for value in np.linspace(0.0, 60.0, 500)]
    assert np.all(np.diff(p_values) <= 0.0)
    assert p_values[0] == 1.0


def solve(function: Callable[[float], float], wanted: float, low: float, high: float) -> float:
    """Return where a function has a value."""
    return float(brentq(lambda x: function(x) - wanted, low, high, xtol=1e-7))


def test_the_smallest_of_correlated_p_values_is_calibrated_at_one_in_a_hundred() -> None:
    rng = np.random.default_rng(4)
    mixed = np.sqrt(0.7) * np.ones((3, 3)) / np.sqrt(3.0)

    def draw(size: int) -> np.ndarray:
        common, own = rng.normal(size=(2, size, 3))
        drawn: np.ndarray = common @ mixed + np.sqrt(0.3) * own
        return drawn

    fresh, rates = draw(200_000), []
    for _ in range(30):
        laws = tuple(NullDraws(draws=column) for column in draw(1999).T)
        both = SmallestDraws(laws=laws)
        level = solve(both.estimate_p, 0.01, 1e-4, 0.0105)
        ends = [solve(law.estimate_p, level, 0.0, 9.0) for law in laws]
        rates.append(np.mean(np.any(fresh >= ends, axis=1)))
    # Each law is as uncertain as its 1999 draws: the mean of thirty has an error of about 0.0003.
    # By the ratio at 5 % it would be 0.0118.
    assert np.mean(rates) == pytest.approx(0.01, abs=0.001)


@given(P_VALUES)
def test_holm_only_raises_and_keeps_the_order(p_values: np.ndarray) -> None:
    adjusted = adjust_holm(p_values)
    assert np.all((adjusted >= p_values) & (adjusted <= 1.0))
    assert np.all(np.diff(adjusted[np.argsort(p_values, kind="stable")]) >= 0.0)
    assert adjusted.min() == min(1.0, p_values.min() * p_values.size)


@given(P_VALUES)
def test_discoveries_are_those_of_benjamini_and_hochberg(p_values: np.ndarray) -> None:
    found = find_discoveries(p_values, rate=0.1)
    n = p_values.size
    passing = [np.sum(p_values <= q) for q in p_values if q <= 0.1 * np.sum(p_values <= q) / n]
    assert found.sum() == max(passing, default=0)
    assert not found.any() or p_values[found].max() <= 0.1


def test_the_lower_tail_of_a_gamma_variate_is_found_beyond_the_draws() -> None:
    law = gamma(a=20.0, scale=0.1)
    draws = NullDraws(draws=law.rvs(size=1999, random_state=1))
    for p in (0.5, 0.05, 0.012):
        assert draws.estimate_lower_p(float(law.ppf(p))) == pytest.approx(p, rel=0.25)
    for p in (1e-3, 1e-4):
        assert abs(np.log10(draws.estimate_lower_p(float(law.ppf(p))) / p)) < 0.7
    assert draws.estimate_lower_p(0.0) < 1e-5


def test_no_test_has_no_discovery() -> None:
    assert find_discoveries(np.empty(0), rate=0.05).size == 0
