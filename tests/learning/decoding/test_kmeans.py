import numpy as np
from hypothesis import given, strategies as st
from sklearn.cluster import KMeans

from sfumato.learning.decoding.kmeans import cluster

from .targets import QUIET

seeds = st.integers(0, 2**32 - 1)


def test_it_is_as_good_as_the_reference() -> None:
    rng = np.random.default_rng(0)
    samples = rng.normal(size=(6000, 3)) + 100.0
    samples[::3] += rng.normal(size=3) * 2.0
    start = samples[rng.choice(len(samples), size=8, replace=False)]
    found = cluster(samples, [start], n_restarts=6, rng=rng, monitor=QUIET)
    reference = KMeans(8, n_init=10, random_state=0).fit(samples)
    assert found.inertia * len(samples) < 1.01 * reference.inertia_


@given(seed=seeds, n_clusters=st.integers(1, 6))
def test_labels_inertia_and_centroids_belong_together(seed: int, n_clusters: int) -> None:
    rng = np.random.default_rng(seed)
    samples = rng.normal(size=(200, 2))
    found = cluster(samples, [samples[:n_clusters]], n_restarts=1, rng=rng, monitor=QUIET)
    squares = np.sum((samples[:, None] - found.centroids[None]) ** 2, axis=2)
    np.testing.assert_allclose(np.mean(squares.min(axis=1)), found.inertia, rtol=1e-4)
    own = squares[np.arange(200), found.labels]
    np.testing.assert_allclose(own, squares.min(axis=1), atol=1e-4)


def test_fewer_distinct_samples_than_clusters_leave_clusters_empty_and_finite() -> None:
    samples = np.repeat([[1.0, 2.0], [3.0, 4.0]], 500, axis=0)
    found = cluster(
        samples, [np.zeros((5, 2))], n_restarts=3, rng=np.random.default_rng(0), monitor=QUIET
    )
    assert found.inertia < 1e-9
    assert np.all(np.isfinite(found.centroids))
    assert len(np.unique(found.labels)) == 2


def test_a_bad_start_is_beaten_by_a_restart() -> None:
    rng = np.random.default_rng(0)
    means = np.array([[-40.0, 0.0], [0.0, 0.0], [9.0, 0.0]])
    samples = np.repeat(means, 400, axis=0) + rng.normal(size=(1200, 2))
    start = np.array([[-40.5, 0.0], [-39.5, 0.0], [4.0, 0.0]])
    stuck = cluster(samples, [start], n_restarts=0, rng=rng, monitor=QUIET)
    freed = cluster(samples, [start], n_restarts=4, rng=rng, monitor=QUIET)
    assert freed.inertia < 0.5 * stuck.inertia
