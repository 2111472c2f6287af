import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from benchmarks.datasets import Mixture
from benchmarks.reference import compute_sse, describe_clusters, find_reference

SOURCE = Mixture(n_dimensions=2, n_clusters=3, n_records=400)


@given(n=st.integers(1, 40), d=st.integers(1, 4), k=st.integers(1, 5), shift=st.floats(-1e3, 1e3))
def test_sse_is_the_sum_of_squared_distances_to_the_nearest(
    n: int, d: int, k: int, shift: float
) -> None:
    rng = np.random.default_rng((n, d, k))
    records, centroids = rng.normal(shift, 1, (n, d)), rng.normal(shift, 2, (k, d))
    plain = sum(min(np.sum((x - c) ** 2) for c in centroids) for x in records)
    assert compute_sse(records, centroids) == pytest.approx(plain, rel=1e-9, abs=1e-9)


def test_the_reference_is_no_worse_than_the_true_means(cache: Path) -> None:
    dataset = SOURCE.load(5)
    assert dataset.true_means is not None
    reference = find_reference(dataset)
    assert reference.sse <= compute_sse(dataset.records, dataset.true_means)
    assert reference.spread == pytest.approx((reference.sse / dataset.records.size) ** 0.5)
    found = compute_sse(dataset.records, np.array(reference.centroids))
    assert found == pytest.approx(reference.sse, rel=1e-9)
    assert reference.method == "kmeans++ n_init=10 or true means, then Lloyd"


def test_a_reference_is_computed_once_for_the_same_records(cache: Path) -> None:
    first = find_reference(SOURCE.load(5))
    (path,) = (cache / "references").iterdir()
    path.write_text(json.dumps(json.loads(path.read_text()) | {"sse": 1.0}))
    assert find_reference(SOURCE.load(5)).sse == 1.0
    assert find_reference(SOURCE.load(6)).sse not in {1.0, first.sse}


def test_clusters_are_described_by_shares_means_and_variances() -> None:
    rng = np.random.default_rng(3)
    near, far = rng.normal(0, 1, (30_000, 2)), rng.normal((50, 0), (2, 3), (10_000, 2))
    # The third centroid has no records.
    centroids = np.array([[1.0, 1.0], [49.0, 1.0], [0.0, 500.0]])
    found = describe_clusters(np.concatenate([near, far]), centroids)
    np.testing.assert_allclose(found.weights, [0.75, 0.25, 0.0])
    np.testing.assert_allclose(found.means[0], near.mean(axis=0), atol=1e-9)
    np.testing.assert_allclose(found.variances[1], far.var(axis=0), rtol=1e-9)
    np.testing.assert_array_equal(found.means[2], centroids[2])
