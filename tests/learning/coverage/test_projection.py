"""A record's place is a function of that record alone, in exact integers."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from sfumato.learning.coverage.averages import find_nearest, sum_clusters
from sfumato.learning.coverage.projection import SignProjection, clip_to_ball
from sfumato.shared.core.quantise import STEPS
from sfumato.shared.errors import ConfigError

SEED = bytes(range(32))


def draw_steps(seed: int, n: int, d: int) -> NDArray[np.int16]:
    return np.random.default_rng(seed).integers(-STEPS, STEPS + 1, size=(n, d)).astype(np.int16)


@given(st.integers(0, 2**32), st.integers(1, 12), st.integers(1, 100_000))
def test_no_clipped_record_is_longer_than_the_radius(seed: int, d: int, radius: int) -> None:
    steps = draw_steps(seed, 40, d)
    steps[0] = STEPS
    clipped = clip_to_ball(steps, radius)
    lengths = [sum(int(x) ** 2 for x in row) for row in clipped]
    assert max(lengths) <= radius**2
    near = np.array([sum(int(x) ** 2 for x in row) <= radius**2 for row in steps])
    assert np.array_equal(clipped[near], steps[near])
    # No more is lost than the rounding of each coordinate.
    far = np.flatnonzero(~near)
    assert all(lengths[i] >= (radius - 2 * d**0.5) ** 2 or radius < 2 * d**0.5 for i in far)


def test_a_place_does_not_depend_on_the_other_records() -> None:
    projection = SignProjection(n_dimensions=60, n_projected=5, radius=200_000, seed=SEED)
    clipped = clip_to_ball(draw_steps(1, 20_000, 60), projection.radius)
    places = projection.project(clipped)
    order = np.random.default_rng(2).permutation(len(clipped))
    assert np.array_equal(projection.project(clipped[order]), places[order])
    assert np.array_equal(projection.project(clipped[17:18]), places[17:18])
    exact = clipped[:50] @ projection.signs.astype(np.int64)
    assert np.array_equal(places[:50], np.clip(exact, -projection.half, projection.half))


def test_places_keep_lengths_in_the_mean() -> None:
    projection = SignProjection(n_dimensions=400, n_projected=5, radius=600_000, seed=SEED)
    clipped = clip_to_ball(draw_steps(3, 2000, 400), projection.radius)
    lengths = np.sum(clipped.astype(float) ** 2, axis=1)
    places = projection.project(clipped).astype(float)
    # Each of five sums has the variance of the length: chi-square of 10,000 degrees of freedom.
    assert np.sum(places**2) / (5 * lengths.sum()) == pytest.approx(1.0, abs=0.08)
    assert set(np.unique(projection.signs)) == {-1.0, 1.0}


def test_as_many_dimensions_need_no_projection() -> None:
    projection = SignProjection(n_dimensions=3, n_projected=3, radius=STEPS, seed=SEED)
    clipped = clip_to_ball(draw_steps(4, 100, 3), STEPS)
    assert np.array_equal(projection.project(clipped), clipped)


@given(st.integers(0, 2**32), st.integers(1, 9))
def test_the_nearest_centre_is_exact_and_the_first_of_equals(seed: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    points, centres = rng.integers(-3, 4, size=(30, d)), rng.integers(-3, 4, size=(5, d))
    labels = find_nearest(points, centres)
    squares = ((points[:, None] - centres[None]) ** 2).sum(axis=2)
    assert np.array_equal(labels, np.argmin(squares, axis=1))
    counts, sums = sum_clusters(points, labels, 5)
    assert counts.tolist() == [int((labels == i).sum()) for i in range(5)]
    assert np.array_equal(sums, np.array([points[labels == i].sum(axis=0) for i in range(5)]))


def test_distances_that_would_not_be_exact_are_refused() -> None:
    with pytest.raises(ConfigError, match="exact"):
        find_nearest(np.full((1, 4), 1 << 25), np.zeros((1, 4), dtype=np.int64))
