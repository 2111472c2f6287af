"""What a study's sketches say: derivatives of the fit, and densities that explain a sketch."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from sfumato.learning.decoding.density import GaussianMixture
from sfumato.learning.estimate.counts import count_records
from sfumato.learning.estimate.problem import pose_problem
from sfumato.learning.estimate.utility import estimate_utility
from sfumato.learning.estimate.weights import SIZE_WEIGHTS
from sfumato.learning.insight.covariance import Density, compute_atoms, stack
from sfumato.learning.insight.model import StudyModel, explain
from sfumato.shared.errors import DecodingError
from tests.learning.insight.drawing import MIXTURE, Fleet, make_model, make_plan

STEP = 1e-5


def compute_features(model: StudyModel, fit: GaussianMixture, weights: np.ndarray) -> np.ndarray:
    centre = model.plan.quantiser.centre
    return stack(weights @ compute_atoms(Density.of(fit), model.frequencies, centre))


def test_the_jacobian_has_the_derivatives_of_the_features() -> None:
    model = make_model(make_plan())
    weights, deviations = MIXTURE.weights, np.sqrt(MIXTURE.variances)
    start = compute_features(model, MIXTURE, weights)
    for k in range(3):
        moved = []
        for i in range(2):
            means = MIXTURE.means.copy()
            means[k, i] += STEP * deviations[k, i]
            moved.append(compute_features(model, replace(MIXTURE, means=means), weights))
        variances, grown = MIXTURE.variances.copy(), weights.copy()
        variances[k] *= np.exp(STEP)
        grown[k] *= np.exp(STEP)
        moved.append(compute_features(model, replace(MIXTURE, variances=variances), weights))
        moved.append(compute_features(model, MIXTURE, grown))
        slopes = (np.array(moved) - start) / STEP
        assert model.jacobian[4 * k : 4 * k + 4] == pytest.approx(slopes, abs=1e-4)


def test_a_common_shift_causes_the_stated_difference() -> None:
    model, shift = make_model(make_plan(200)), 0.05
    energies = []
    for angle in np.linspace(0.0, np.pi, 20, endpoint=False):
        step = shift * np.array([np.cos(angle), np.sin(angle)])
        moved = replace(MIXTURE, means=MIXTURE.means + step)
        difference = compute_features(model, moved, MIXTURE.weights) - model.features
        energies.append(difference @ difference)
    assert np.mean(energies) == pytest.approx(model.energy_per_shift * shift**2, rel=0.02)


def test_a_sketch_is_explained_by_its_clusters_and_a_pooled_density() -> None:
    plan = make_plan(60, epsilon=Fraction(20))
    totals = Fleet(plan, 1).draw(20_000).totals
    signal = estimate_utility(plan, totals, count_records(plan, totals), SIZE_WEIGHTS)
    problem = pose_problem(
        plan, totals, SIZE_WEIGHTS, signal_energy=signal.signal_energy, n_clusters=3
    )
    found = explain(problem, rng=np.random.default_rng(1))
    assert found.fit.means == pytest.approx(MIXTURE.means, abs=0.1)
    assert found.fit.weights == pytest.approx(MIXTURE.weights, abs=0.02)
    assert found.is_fitted
    # With a cluster too few, something is left.
    fewer = replace(problem, n_clusters=2)
    assert not explain(fewer, rng=np.random.default_rng(1)).is_fitted
    pooled = StudyModel(plan=plan, fit=found.fit, density=found.density)
    truth = make_model(plan)
    assert pooled.features == pytest.approx(truth.features, abs=0.02)
    assert np.abs(pooled.covariance - truth.covariance).max() < 0.03
    # A factor of what single precision leaves.
    product = pooled.factor @ pooled.factor.T
    assert product == pytest.approx(pooled.covariance, abs=1e-4)


def test_densities_of_other_dimensions_are_refused() -> None:
    other = GaussianMixture(weights=np.ones(1), means=np.zeros((1, 3)), variances=np.ones((1, 3)))
    with pytest.raises(DecodingError, match="density: must have 2 dimensions and has 3"):
        StudyModel(plan=make_plan(), fit=MIXTURE, density=Density.of(other))
