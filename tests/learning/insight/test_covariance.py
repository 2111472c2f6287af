"""The covariance of features has the closed form that samples show."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sfumato.learning.insight.covariance import (
    Density,
    compute_atoms,
    compute_covariance,
    stack,
)
from tests.learning.insight.drawing import MIXTURE

FREQUENCIES = np.random.default_rng(1).normal(0.0, 0.5, (2, 12))
CENTRE = np.array([1.0, -2.0])


SLANT = np.array([[1.0, 0.0], [0.8, 0.5]])


@pytest.mark.parametrize("slant", [np.eye(2), SLANT])
def test_many_samples_have_this_covariance(slant: np.ndarray) -> None:
    rng, n_parts = np.random.default_rng(2), 4
    along = Density.of(MIXTURE)
    density = Density(
        weights=along.weights,
        means=along.means @ slant.T,
        covariances=slant @ along.covariances @ slant.T,
    )
    products, sums = np.zeros((24, 24)), np.zeros(24)
    for _ in range(n_parts):
        records = MIXTURE.draw_samples(100_000, rng=rng) @ slant.T
        features = stack(np.exp(1j * (records - CENTRE) @ FREQUENCIES))
        products += features.T @ features / 100_000
        sums += features.mean(axis=0)
    sampled = products / n_parts - np.outer(sums, sums) / n_parts**2
    computed = compute_covariance(density, FREQUENCIES, CENTRE)
    # Products of features have variance at most 1, so an entry has a standard error below 1.6e-3.
    # Seeded; 300 entries exceed five of these by chance once in 5000.
    assert np.abs(sampled - computed).max() < 8e-3
    assert np.abs(computed - np.diag(np.diag(computed))).max() > 0.1


@st.composite
def mixtures(draw: st.DrawFn) -> Density:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_atoms = draw(st.integers(1, 6))
    roots = draw(st.floats(0.01, 10.0)) * rng.normal(size=(n_atoms, 2, 2))
    return Density(
        weights=rng.dirichlet(np.ones(n_atoms)),
        means=rng.normal(0.0, 5.0, (n_atoms, 2)),
        covariances=roots @ roots.swapaxes(1, 2),
    )


@given(mixtures())
@settings(max_examples=50)
def test_it_is_a_covariance_of_features_of_modulus_one(mixture: Density) -> None:
    covariance = compute_covariance(mixture, FREQUENCIES, CENTRE)
    assert np.array_equal(covariance, covariance.T)
    assert np.linalg.eigvalsh(covariance)[0] > -1e-5
    phi = mixture.weights @ compute_atoms(mixture, FREQUENCIES, CENTRE)
    variances = np.diag(covariance)[:12] + np.diag(covariance)[12:]
    assert variances == pytest.approx(1.0 - np.abs(phi) ** 2, abs=1e-4)
