"""The cost of a training: against closed forms, another accountant, and a simulated loss."""

from __future__ import annotations

import builtins
import math
from fractions import Fraction
from typing import Any

import dp_accounting
import numpy as np
import pytest
from dp_accounting.rdp import rdp_privacy_accountant
from scipy.integrate import quad
from scipy.stats import norm

from sfumato.lab.generative import accounting
from sfumato.lab.generative.accounting import Training, compute_mu
from sfumato.shared.errors import ConfigError, PrivacyError
from sfumato.shared.privacy.normal import bound_gaussian_delta

DELTA = Fraction(1, 10**5)


def make(**changes: Any) -> Training:
    usual: dict[str, Any] = {
        "first_mu": 0.2,
        "rate": Fraction(1, 16),
        "n_steps": 50,
        "relation": "add-remove-one",
    }
    return Training(**(usual | changes))


def compute_one_step(q: float, sigma: float, epsilon: float) -> float:
    """Delta of one Gaussian step on a Poisson batch: the larger of both orders, by integration."""

    def without(x: float) -> float:
        return float(norm.pdf(x, scale=sigma))

    def beside(x: float) -> float:
        return (1 - q) * without(x) + q * float(norm.pdf(x, loc=1, scale=sigma))

    found = []
    for p, r in ((beside, without), (without, beside)):
        area, _ = quad(
            lambda x, p=p, r=r: max(0.0, p(x) - math.exp(epsilon) * r(x)),
            -12 * sigma,
            12 * sigma + 1,
            limit=500,
            epsabs=1e-12,
        )
        found.append(area)
    return max(found)


@pytest.mark.parametrize(("q", "epsilon"), [(Fraction(1, 8), "0.3"), (Fraction(1, 2), "1")])
def test_one_step_costs_what_the_integral_says(q: Fraction, epsilon: str) -> None:
    found = float(make(first_mu=0.0, rate=q, n_steps=1).bound_delta(Fraction(epsilon), 0.9))
    exact = compute_one_step(float(q), 0.9, float(epsilon))
    assert exact <= found <= 1.01 * exact


def test_batches_of_all_records_cost_what_one_gaussian_does() -> None:
    sigma, steps, first = 4.0, 9, 0.5
    training = make(first_mu=first, rate=Fraction(1), n_steps=steps)
    exact = bound_gaussian_delta(
        sensitivity_squared=Fraction(1),
        variance=1 / Fraction(first**2 + steps / sigma**2),
        epsilon=Fraction(1),
    )
    found = float(training.bound_delta(Fraction(1), sigma))
    assert float(exact) <= found <= 1.01 * float(exact)


def test_the_composition_is_between_a_simulated_loss_and_the_bound_of_another_accountant() -> None:
    q, sigma, steps, epsilon = 1 / 16, 1.1, 50, 1.5
    found = float(make(first_mu=0.0).bound_delta(Fraction("1.5"), sigma))
    other = rdp_privacy_accountant.RdpAccountant()
    step = dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(sigma))
    other.compose(dp_accounting.SelfComposedDpEvent(step, steps))
    assert found <= other.get_delta(epsilon)
    # The removal of a record, simulated.
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200_000, steps)) * sigma + (rng.random((200_000, steps)) < q)
    loss = np.log1p(q * (np.exp((2 * x - 1) / (2 * sigma**2)) - 1)).sum(axis=1)
    simulated = np.maximum(0.0, 1.0 - np.exp(epsilon - loss))
    # Five standard errors: false alarm 3e-7.
    error = 5 * simulated.std() / math.sqrt(len(simulated))
    assert simulated.mean() - error <= found
    assert found <= 1.1 * (simulated.mean() + error)


def test_a_planted_mistake_in_the_account_would_be_found() -> None:
    # Without sampling, with a smaller step, and with fewer steps, each by what the tests allow.
    right = make(first_mu=0.0).bound_delta(Fraction(3, 2), 1.1)
    for wrong in (
        make(first_mu=0.0, rate=Fraction(13, 256)).bound_delta(Fraction(3, 2), 1.1),
        make(first_mu=0.0, n_steps=45).bound_delta(Fraction(3, 2), 1.1),
        make(first_mu=0.0).bound_delta(Fraction(3, 2), 1.1 * 1.05),
    ):
        assert wrong < 0.8 * right


@pytest.mark.parametrize("relation", ["add-remove-one", "replace-one"])
def test_the_calibrated_noise_is_enough_and_nearly_the_least(relation: str) -> None:
    training = make(relation=relation, first_mu=0.05)
    found = training.calibrate_multiplier(Fraction(1), DELTA)
    assert training.bound_delta(Fraction(1), found) <= DELTA
    assert training.bound_delta(Fraction(1), found * 0.99) > DELTA


def test_a_replaced_record_costs_one_that_goes_and_one_that_comes() -> None:
    one = make().bound_delta(Fraction(1, 2), 2.0)
    two = make(relation="replace-one").bound_delta(Fraction(1), 2.0)
    assert float(two) == pytest.approx((1 + math.exp(0.5)) * float(one), rel=1e-9)


def test_mu_is_that_of_a_gaussian_mechanism() -> None:
    mu = compute_mu(Fraction(1), DELTA)
    for factor, is_within in ((1.0, True), (1.02, False)):
        found = bound_gaussian_delta(
            sensitivity_squared=Fraction(mu * factor) ** 2,
            variance=Fraction(1),
            epsilon=Fraction(1),
        )
        assert (Fraction(found) <= DELTA) == is_within


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"rate": Fraction(0)}, "batch_rate"),
        ({"rate": Fraction(1, 3)}, "batch_rate"),
        ({"rate": Fraction(2)}, "batch_rate"),
        ({"n_steps": 0}, "n_steps"),
    ],
)
def test_a_number_out_of_range_is_refused_by_name(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as refused:
        make(**changes)
    assert refused.value.field == field


def test_a_level_that_cannot_be_reached_or_computed_is_refused() -> None:
    with pytest.raises(PrivacyError, match="delta: is too small"):
        make().calibrate_multiplier(Fraction(1), Fraction(1, 10**9))
    with pytest.raises(PrivacyError, match="epsilon: is too small"):
        make(n_steps=1, first_mu=0.5, rate=Fraction(1)).calibrate_multiplier(
            Fraction(1, 100), DELTA
        )


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = builtins.__import__

    def refuse(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("dp_accounting"):
            raise ImportError(name)
        return honest(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ConfigError, match=r"sfumato\[lab\]"):
        accounting._compose(0.0, 0.5, 1, 1.0, 1e-3)
