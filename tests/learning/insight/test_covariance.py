"""The covariance of features has the closed form that samples show."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sfumato.learning.decoding.density import GaussianMixture
from sfumato.learning.insight.covariance import (
    Density,
    compute_atoms,
    compute_covariance,
    pool_densities,
    stack,
)
from sfumato.shared.errors import DecodingError
from tests.learning.insight.drawing import MIXTURE

FREQUENCIES = np.random.default_rng(1).normal(0.0, 0.5, (2, 12))
CENTRE = np.array([1.0, -2.0])


SLANT = np.array([[1.0, 0.0], [0.8, 0.5]])


@pytest.mark.parametrize("slant", [np.eye(2), SLANT])
def test_many_samples_have_this_covariance(slant: np.ndarray) -> None:
    rng, n_parts = np.random.default_rng(2), 2
    along = Density.of(MIXTURE)
    density = Density(
        weights=along.weights,
        means=along.means @ slant.T,
        covariances=slant @ along.covariances @ slant.T,
    )
    products, sums = np.zeros((24, 24)), np.zeros(24)
    for _ in range(n_parts):
        records = MIXTURE.draw_samples(50_000, rng=rng) @ slant.T
        features = stack(np.exp(1j * (records - CENTRE) @ FREQUENCIES))
        products += features.T @ features / 50_000
        sums += features.mean(axis=0)
    sampled = products / n_parts - np.outer(sums, sums) / n_parts**2
    computed = compute_covariance(density, FREQUENCIES, CENTRE)
    # Products of features have variance at most 1, so an entry has a standard error below 3.2e-3.
    # Seeded; 300 entries exceed five of these by chance once in 5000.
    assert np.abs(sampled - computed).max() < 16e-3
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


def test_features_of_different_blocks_do_not_vary_together() -> None:
    block_of = np.arange(12) % 3
    whole = compute_covariance(Density.of(MIXTURE), FREQUENCIES, CENTRE)
    split = compute_covariance(Density.of(MIXTURE), FREQUENCIES, CENTRE, block_of=block_of)
    same = np.tile(block_of, 2)[:, None] == np.tile(block_of, 2)
    assert np.array_equal(split[same], whole[same])
    assert not split[~same].any()


def test_a_pool_is_the_mean_of_its_densities_by_share() -> None:
    other = GaussianMixture(
        weights=np.array([1.0]), means=np.array([[9.0, 9.0]]), variances=np.array([[1.0, 2.0]])
    )
    densities = [Density.of(mixture) for mixture in (MIXTURE, other)]
    densities.append(pool_densities([(3.0, densities[0]), (1.0, densities[1])]))
    means = [density.weights @ compute_atoms(density, FREQUENCIES, CENTRE) for density in densities]
    assert means[2] == pytest.approx(0.75 * means[0] + 0.25 * means[1])


def test_too_many_frequencies_are_refused_by_name() -> None:
    with pytest.raises(DecodingError, match="n_frequencies: must be at most 2000"):
        compute_covariance(Density.of(MIXTURE), np.zeros((2, 2001)), CENTRE)
