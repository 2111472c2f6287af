import numpy as np
import pytest
from hypothesis import given, strategies as st

from sfumato.learning.clustering.weighted_points import (
    _descend,
    cluster_weighted,
    project_on_simplex,
)
from sfumato.learning.decoding.kmeans import cluster, measure_inertia
from sfumato.learning.decoding.solver import Monitor
from sfumato.shared.errors import PlanError

seeds = st.integers(0, 2**32 - 1)


@given(seed=seeds, size=st.integers(1, 30), total=st.floats(0.1, 100.0))
def test_the_projection_is_the_nearest_point_of_the_simplex(
    seed: int, size: int, total: float
) -> None:
    rng = np.random.default_rng(seed)
    counts = rng.normal(scale=50.0, size=size)
    found = project_on_simplex(counts, total)
    assert found.min() >= 0.0
    assert found.sum() == pytest.approx(total)
    # The angle at the nearest point of a convex set is not acute, from any other of its points.
    corners = total * np.eye(size)
    assert np.max((corners - found) @ (counts - found)) < 1e-6


def test_weighted_points_are_clustered_as_well_as_repeated_ones_by_the_decoders_k_means() -> None:
    rng = np.random.default_rng(0)
    points, weights = rng.normal(size=(300, 3)) + 100.0, rng.integers(1, 9, size=300)
    repeated = np.repeat(points, weights, axis=0)
    reference = cluster(repeated, [points[:8]], n_restarts=15, rng=rng, monitor=Monitor())
    found = cluster_weighted(points, weights.astype(np.float64), 8, rng)
    assert measure_inertia(repeated, found) < 1.03 * reference.inertia


@given(seed=seeds)
def test_a_weight_is_as_many_points(seed: int) -> None:
    rng = np.random.default_rng(seed)
    points, weights = rng.normal(size=(12, 2)), rng.integers(1, 4, size=12)
    found = _descend(points, weights.astype(np.float64), points[:3])
    again = _descend(np.repeat(points, weights, axis=0), np.ones(weights.sum()), points[:3])
    np.testing.assert_allclose(found.centroids, again.centroids, atol=1e-9)
    assert found.cost == pytest.approx(again.cost)


def test_a_point_of_the_simplex_stays_and_a_threshold_is_no_projection() -> None:
    inside = np.array([1.0, 0.0, 3.0])
    np.testing.assert_allclose(project_on_simplex(inside, 4.0), inside)
    np.testing.assert_allclose(project_on_simplex(np.array([5.0, 1.0, -9.0]), 4.0), [4.0, 0.0, 0.0])


def test_points_without_weight_do_not_attract_a_centroid() -> None:
    points = np.array([[0.0], [1.0], [1000.0]])
    found = cluster_weighted(points, np.array([2.0, 1.0, 0.0]), 3, np.random.default_rng(0))
    assert set(found[:, 0].tolist()) == {0.0, 1.0}


def test_no_cluster_is_refused_by_name() -> None:
    with pytest.raises(PlanError) as refusal:
        cluster_weighted(np.ones((2, 1)), np.ones(2), 0, np.random.default_rng(0))
    assert refusal.value.field == "n_clusters"
