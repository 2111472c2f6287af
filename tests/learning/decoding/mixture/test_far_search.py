"""A cluster that is far from all others in one column is found from what a mixture leaves."""

from dataclasses import replace

import numpy as np
import pytest

from sfumato.learning.decoding.mixture.ellipsoid_descent import evaluate_shaped
from sfumato.learning.decoding.mixture.ellipsoids import Ellipsoids, compute_rows
from sfumato.learning.decoding.mixture.far_search import find_far_place
from sfumato.learning.decoding.mixture.gaussians import Target
from sfumato.learning.decoding.mixture.ladder import compute_chance_cost
from tests.learning.decoding.targets import draw_target

N_DIMENSIONS, N_FREQUENCIES = 6, 240
COMMON = np.array([0.0, 0.0, -1.0, -1.5, 0.5, -0.5])
# Each cluster has its own value of one column, as those of a category have.
OWN = ((2, 2.0), (3, 3.0), (5, 2.5))


def draw_mixture(rare: float) -> Ellipsoids:
    """Three clusters and a rare one, which has an uncommon value in a column."""
    centres = np.tile(COMMON, (4, 1))
    centres[:3, :2] = [[-1.5, 1.0], [1.0, -2.0], [1.5, 1.5]]
    for i, (column, value) in enumerate(OWN):
        centres[i, column] = value
    centres[3, 4] = 7.0
    logs = np.full((4, N_DIMENSIONS), np.log(0.15))
    logs[:, :2] = np.log(0.6)
    logs[3, :2] = np.log(1.2)
    return Ellipsoids(
        centres=centres,
        logs=logs,
        slants=np.zeros((4, N_DIMENSIONS, N_DIMENSIONS)),
        weights=np.array([*np.full(3, (1.0 - rare) / 3.0), rare]),
    )


def pose(
    rng: np.random.Generator, mixture: Ellipsoids, noise_variance: float, wide: float = 1.0
) -> Target:
    """Sketch a mixture with noise, in a box that is wider than its records need."""
    target = draw_target(rng, n_dimensions=N_DIMENSIONS, n_frequencies=N_FREQUENCIES)
    target = replace(target, lower=wide * target.lower, upper=wide * target.upper)
    sketch = mixture.weights @ compute_rows(target, mixture)
    noise = np.sqrt(noise_variance / 2.0) * rng.normal(size=2 * N_FREQUENCIES)
    return Target(
        **(vars(target) | {"sketch": (sketch + noise).astype(np.float32)})
        | {"noise_variance": noise_variance}
    )


@pytest.mark.parametrize("seed", range(3))
def test_a_rare_value_of_a_column_is_found(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mixture = draw_mixture(rare=0.04)
    target = pose(rng, mixture, noise_variance=1e-3)
    common = evaluate_shaped(target, mixture.take(np.arange(3)))
    place = find_far_place(target, common)
    assert place.gain > compute_chance_cost(target, common)
    assert abs(place.atom.centres[0, 4] - 7.0) < 0.5
    assert np.all(np.abs(place.atom.centres[0] - mixture.centres[3])[2:] < 1.0)
    assert place.atom.weights[0] == pytest.approx(0.04, rel=0.5)


def test_noise_alone_shows_no_place() -> None:
    # A gain of 16 noise variances is exceeded by chance at one of 10^5 places with probability
    # below 10^5 exp(-16) = 0.012, so about once in 90 searches; the 40 seeded ones see none.
    for seed in range(40):
        rng = np.random.default_rng(1000 + seed)
        mixture = draw_mixture(rare=0.0)
        target = pose(rng, mixture, noise_variance=1e-3)
        common = evaluate_shaped(target, mixture.take(np.arange(3)))
        place = find_far_place(target, common)
        assert place.gain <= compute_chance_cost(target, common)
        assert np.all((place.atom.centres >= target.lower) & (place.atom.centres <= target.upper))


@pytest.mark.parametrize(
    ("wide", "place"), [(1_000.0, "edge"), (1_000.0, "corner"), (1_000.0, "value"), (1e7, "value")]
)
def test_a_far_cluster_is_found_over_the_whole_box_of_the_plan(wide: float, place: str) -> None:
    rng = np.random.default_rng(3)
    mixture = draw_mixture(rare=0.04)
    mixture.centres[3] = COMMON if place != "corner" else 10.0 * wide
    mixture.centres[3, 4] = 10.0 * wide if place != "value" else 4.7 * wide
    target = pose(rng, mixture, noise_variance=1e-3, wide=wide)
    common = evaluate_shaped(target, mixture.take(np.arange(3)))
    place_found = find_far_place(target, common)
    chance = compute_chance_cost(target, common, n_places=place_found.n_places)
    # A box of 10^8 units has more places than are looked at: the ends of columns are, and it says
    # that not all was.
    is_whole = wide < 1e6
    assert place_found.is_of_all == is_whole
    assert (place_found.gain > chance) == (is_whole or place != "value")
    if place_found.gain > chance:
        np.testing.assert_allclose(place_found.atom.centres[0], mixture.centres[3], atol=1.5)
