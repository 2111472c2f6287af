import numpy as np
import pytest
from scipy.stats import multivariate_normal

from sfumato.learning.decoding.density import GaussianMixture
from sfumato.shared.errors import DecodingError


def make_mixture() -> GaussianMixture:
    return GaussianMixture(
        weights=np.array([0.7, 0.3, 0.0]),
        means=np.array([[0.0, 1.0], [5.0, -5.0], [0.0, 0.0]]),
        variances=np.array([[1.0, 4.0], [0.25, 1.0], [1.0, 1.0]]),
    )


def test_the_log_density_is_that_of_the_mixture() -> None:
    mixture = make_mixture()
    points = np.random.default_rng(0).normal(size=(50, 2)) * 4.0
    expected = sum(
        weight * multivariate_normal(mean, np.diag(variance)).pdf(points)
        for weight, mean, variance in zip(
            mixture.weights, mixture.means, mixture.variances, strict=True
        )
    )
    np.testing.assert_allclose(mixture.compute_log_density(points), np.log(expected))


def test_samples_have_the_moments_of_the_mixture() -> None:
    # Seeded; six standard errors, which chance exceeds once in 1e8.
    mixture = make_mixture()
    drawn = mixture.draw_samples(100_000, rng=np.random.default_rng(0))
    mean = mixture.weights @ mixture.means
    second = mixture.weights @ (mixture.variances + mixture.means**2)
    error = 6.0 * np.sqrt((second - mean**2) / 100_000)
    assert np.all(np.abs(drawn.mean(axis=0) - mean) < error)
    np.testing.assert_allclose(drawn.var(axis=0), second - mean**2, rtol=0.03)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("weights", np.array([0.7, 0.7, 0.0])),
        ("weights", np.array([1.5, -0.5, 0.0])),
        ("means", np.zeros((2, 2))),
        ("variances", np.zeros((3, 2))),
        ("variances", np.ones((3, 1))),
    ],
)
def test_what_is_no_density_is_refused(field: str, value: np.ndarray) -> None:
    good = make_mixture()
    fields = {"weights": good.weights, "means": good.means, "variances": good.variances}
    with pytest.raises(DecodingError, match=field):
        GaussianMixture(**(fields | {field: value}))


def test_far_away_the_log_density_is_finite_and_low_and_no_points_have_none() -> None:
    assert -1e13 < make_mixture().compute_log_density(np.full((1, 2), 1e6))[0] < -1e11
    assert make_mixture().compute_log_density(np.empty((0, 2))).shape == (0,)
