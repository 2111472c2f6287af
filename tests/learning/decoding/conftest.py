"""Simulated sketches: mixtures of points or round clusters, frequencies of the adapted law."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.learning.decoding.judgement import Evidence
from sfumato.learning.decoding.problem import DecodingProblem

MakeProblem = Callable[..., DecodingProblem]

GOOD = Evidence(
    residual_deviations=0.0,
    held_out=1.0,
    disagreement=0.002,
    worst_disagreement=0.004,
    agreement=1.0,
    snr_per_parameter=1e4,
    features_per_parameter=5.0,
    spread_over_scale=1.0,
    far_share=0.001,
    hidden_share=0.001,
    slow_deviations=0.0,
    reach=100.0,
    edge_share=0.0,
    kurtosis=3.0,
    tail_axis=0,
    model="5 round Gaussians",
    stabilities=np.ones(5),
    resolutions=np.full(5, 1e-3),
    resolved=np.ones(5, dtype=np.bool_),
)


def draw_frequencies(
    rng: np.random.Generator, n_dimensions: int, n_frequencies: int, scale: float
) -> NDArray[np.float64]:
    """Draw adapted-radius frequencies with sigma log-uniform in [scale, 4 scale]."""
    # p(R) ~ R sqrt(1 + R^2/4) exp(-R^2/2) is the law of sqrt(|g|^2 - 4), g normal in R^3.
    squares = np.empty(0)
    while squares.size < n_frequencies:
        drawn = np.sum(rng.normal(size=(4 * n_frequencies, 3)) ** 2, axis=1)
        squares = np.append(squares, drawn[drawn >= 4.0])
    radii = np.sqrt(squares[:n_frequencies] - 4.0)
    directions = rng.normal(size=(n_dimensions, n_frequencies))
    directions /= np.linalg.norm(directions, axis=0)
    frequencies: NDArray[np.float64] = (
        radii * directions / (scale * np.exp(rng.uniform(0.0, np.log(4.0), n_frequencies)))
    )
    return frequencies


@pytest.fixture(scope="session")
def make_problem() -> MakeProblem:
    """Return a builder of problems from records (n, d), each counted with its weight."""

    def build(
        records: NDArray[np.float64],
        *,
        n_clusters: int,
        n_frequencies: int,
        half_width: float,
        weights: NDArray[np.float64] | None = None,
        noise_variance: float = 0.0,
        feature_noise: NDArray[np.float64] | None = None,
        scale: float = 1.0,
        seed: int = 0,
    ) -> DecodingProblem:
        rng = np.random.default_rng(seed)
        n_dimensions = records.shape[1]
        # An origin and units that are not 0 and 1, so that forgetting one of them shows.
        centre = np.full(n_dimensions, 3.0)
        frequencies = draw_frequencies(rng, n_dimensions, n_frequencies, scale)
        features = np.exp(1j * (records - centre) @ frequencies)
        if feature_noise is not None:
            noise_variance = float(np.mean(feature_noise))
        variances = noise_variance if feature_noise is None else feature_noise
        noise = rng.normal(size=(2, n_frequencies)) * np.sqrt(variances / 2)
        return DecodingProblem(
            sketch=np.average(features, axis=0, weights=weights) + noise[0] + 1j * noise[1],
            frequencies=frequencies,
            lower=centre - half_width,
            upper=centre + half_width,
            centre=centre,
            unit=np.full(n_dimensions, 2.0 * scale),
            noise_variance=noise_variance,
            n_clusters=n_clusters,
            feature_noise=feature_noise,
        )

    return build
