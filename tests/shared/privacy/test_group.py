"""Group privacy is what the sampled laws say, neither less nor much more.

The witness is another library's privacy loss distribution of the discrete laws, which brackets the
truth from both sides; where it has none (K-norm noise) the exact law is summed here.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given, settings, strategies as st

from sfumato.shared.errors import PrivacyError
from sfumato.shared.privacy.accounting import compose, scale_to_group
from sfumato.shared.privacy.group import bound_group_loss, compute_group_loss
from sfumato.shared.privacy.mechanisms.gaussian import DiscreteGaussian
from sfumato.shared.privacy.mechanisms.knorm import DiscreteKNorm
from sfumato.shared.privacy.mechanisms.laplace import DiscreteLaplace
from sfumato.shared.privacy.polygon import GON24
from sfumato.shared.privacy.samplers import UNIT
from tests.shared.privacy.sources import find_largest_loss, make_event

DISTANCE = 40
"""How far one record moves one coordinate."""
DELTA = Fraction(1, 10**6)
GRID = 1e-3
TRUNCATED = 1e-13
"""The library cuts tails off, and counts them as lost."""
GROUPS = [(1, 1), (2, 1), (5, 1), (20, 1), (1, 12), (3, 4)]


def gaussian(n_coordinates: int = 1, epsilon: Fraction = Fraction(1)) -> DiscreteGaussian:
    """One record moves each of the coordinates by ``DISTANCE``."""
    return DiscreteGaussian.calibrate(
        n_coordinates=n_coordinates,
        sensitivity_l2_squared=n_coordinates * DISTANCE**2,
        epsilon=epsilon,
        delta=DELTA,
        neighbouring="replace-one",
    )


def laplace(n_coordinates: int = 1) -> DiscreteLaplace:
    return DiscreteLaplace.calibrate(
        sensitivity_l1=n_coordinates * DISTANCE, epsilon=Fraction(1), neighbouring="replace-one"
    )


def enumerate_gaussian(mechanism: DiscreteGaussian, q: int, n_sums: int, *, above: bool) -> Any:
    """The loss of ``n_sums`` coordinates, each moved by q records, bounded on one side."""
    one = pld.from_discrete_gaussian_mechanism(
        mechanism.sigma,
        sensitivity=q * DISTANCE,
        value_discretization_interval=GRID,
        pessimistic_estimate=above,
    )
    return one.self_compose(n_sums)


def enumerate_laplace(mechanism: DiscreteLaplace, q: int, n_sums: int) -> Any:
    one = pld.from_discrete_laplace_mechanism(
        mechanism.rate / UNIT, sensitivity=q * DISTANCE, value_discretization_interval=GRID
    )
    return one.self_compose(n_sums)


@pytest.mark.parametrize("n_coordinates", [1, 3])
@pytest.mark.parametrize(("q", "w"), GROUPS)
def test_the_gaussian_curve_is_that_of_the_discrete_law(q: int, w: int, n_coordinates: int) -> None:
    mechanism = gaussian(n_coordinates)
    loss = compute_group_loss(mechanism, n_records=q, n_windows=w)
    above = enumerate_gaussian(mechanism, q, w * n_coordinates, above=True)
    below = enumerate_gaussian(mechanism, q, w * n_coordinates, above=False)

    def curve(epsilon: Fraction) -> tuple[float, float]:
        e = float(epsilon)
        return below.get_delta_for_epsilon(e), above.get_delta_for_epsilon(e)

    # What is claimed holds; 2 % less epsilon would not, nor would half the delta.
    assert curve(loss.epsilon)[0] <= float(loss.delta)
    assert curve(loss.epsilon * Fraction(98, 100))[1] > float(loss.delta)
    low, high = curve(loss.multiple_epsilon)
    assert low <= float(loss.multiple_delta) + TRUNCATED
    assert high >= float(loss.multiple_delta) / 2


@pytest.mark.parametrize("n_coordinates", [1, 3])
@pytest.mark.parametrize(("q", "w"), [(1, 1), (2, 1), (5, 1), (3, 4)])
def test_laplace_noise_protects_q_records_in_w_windows_at_q_w_epsilon(
    q: int, w: int, n_coordinates: int
) -> None:
    loss = compute_group_loss(laplace(n_coordinates), n_records=q, n_windows=w)
    assert loss.delta == loss.multiple_delta == 0
    assert loss.epsilon == loss.multiple_epsilon
    exact = enumerate_laplace(laplace(n_coordinates), q, w * n_coordinates)
    largest = exact.get_epsilon_for_delta(1e-15)
    # The library's grid rounds each of the composed losses up by one step at most.
    slack = GRID * w * n_coordinates
    assert largest <= float(loss.epsilon) + slack
    assert largest >= 0.97 * float(loss.epsilon) - slack


@pytest.mark.parametrize("q", [2, 5])
def test_knorm_noise_protects_q_records_at_q_epsilon(q: int) -> None:
    mechanism = DiscreteKNorm(
        n_frequencies=2, norm_sensitivity=3, rate=UNIT // 3, neighbouring="replace-one"
    )
    loss = compute_group_loss(mechanism, n_records=q, n_windows=4)
    # Windows are independent, so their largest losses add up exactly.
    largest = 4 * find_largest_loss(
        lambda t: GON24.count_points(t) ** 2,
        rate=float(mechanism.guarantee.epsilon) / 3,
        n=4,
        shift=mechanism.shift,
        reach=2000,
        move=3 * q,
    )
    assert largest <= float(loss.epsilon) + 1e-9
    assert largest >= 0.95 * float(loss.epsilon)
    assert loss.delta == 0


@settings(max_examples=6)
@given(st.integers(1, 30), st.integers(1, 30), st.fractions(Fraction(1, 20), 3))
def test_more_records_or_windows_never_cost_less(q: int, w: int, epsilon: Fraction) -> None:
    mechanism = gaussian(epsilon=epsilon)
    loss = compute_group_loss(mechanism, n_records=q, n_windows=w)
    for more in (
        compute_group_loss(mechanism, n_records=q + 1, n_windows=w),
        compute_group_loss(mechanism, n_records=q, n_windows=w + 1),
    ):
        assert loss.epsilon <= more.epsilon
    # Records of one window weigh at least as much as the same number spread over windows.
    spread = compute_group_loss(mechanism, n_records=1, n_windows=q * w)
    assert spread.epsilon <= loss.epsilon + epsilon / 500


@settings(max_examples=15)
@given(st.integers(1, 10**7), st.integers(1, 10**7))
def test_any_group_has_a_bound_that_is_proved(q: int, w: int) -> None:
    mechanism = gaussian()
    loss = compute_group_loss(mechanism, n_records=q, n_windows=w)
    assert mechanism.bound_delta(loss.epsilon, n_records=q, n_windows=w) <= DELTA
    assert 0 < loss.multiple_delta <= 1


@pytest.mark.parametrize(("q", "w", "field"), [(0, 1, "n_records"), (1, 0, "n_windows")])
def test_a_group_of_nobody_is_refused_by_name(q: int, w: int, field: str) -> None:
    with pytest.raises(PrivacyError) as caught:
        compute_group_loss(gaussian(), n_records=q, n_windows=w)
    assert caught.value.field == field


@pytest.mark.parametrize("q", [2, 5, 20])
def test_events_of_a_group_bound_the_exact_loss_and_are_close_to_it(q: int) -> None:
    mechanism = gaussian()
    event = make_event(delta=DELTA, rho=mechanism.rho, count=4)
    loss = compose([scale_to_group(event, q)], delta=DELTA)
    assert loss is not None
    exact = compute_group_loss(mechanism, n_records=q, n_windows=4).epsilon
    assert exact <= loss.epsilon <= exact * Fraction(115, 100)


@pytest.mark.parametrize("q", [2, 3])
def test_a_level_alone_scales_by_the_rule_for_any_mechanism(q: int) -> None:
    event = make_event(delta=DELTA)
    scaled = scale_to_group(event, q)
    least = float(DELTA) * math.expm1(q) / math.expm1(1)
    assert scaled.epsilon == q
    assert least <= scaled.delta <= least * (1 + 1e-8)


@pytest.mark.parametrize(("q", "w"), GROUPS)
def test_a_bound_by_events_is_never_below_the_curve_and_that_of_pure_noise_is_a_sum(
    q: int, w: int
) -> None:
    events = {}
    for name, mechanism in (("gaussian", gaussian()), ("laplace", laplace())):
        given = mechanism.guarantee
        events[name] = make_event(
            plan_digest=name.encode(), epsilon=given.epsilon, delta=given.delta, rho=given.rho
        )
        exact = compute_group_loss(mechanism, n_records=q, n_windows=w)
        bound = bound_group_loss([events[name]], n_records=q, n_windows=w)
        assert bound.epsilon >= exact.epsilon
        assert bound.delta == exact.delta
        assert bound.multiple_epsilon == exact.multiple_epsilon
        assert bound.multiple_delta >= exact.multiple_delta
    pure = bound_group_loss([events["laplace"]] * 2, n_records=q, n_windows=w)
    assert pure.epsilon == pure.multiple_epsilon == 2 * q * w * events["laplace"].epsilon
    assert pure.delta == pure.multiple_delta == 0
    both = bound_group_loss(list(events.values()), n_records=q, n_windows=w)
    assert both.delta == DELTA
    assert both.epsilon > max(
        bound_group_loss([event], n_records=q, n_windows=w).epsilon for event in events.values()
    )
