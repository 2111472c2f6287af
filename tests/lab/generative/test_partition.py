"""A private partition: features of bounded length, exact sums, and parts that are found."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from sfumato.lab.generative.partition import FeatureMap, KernelPartition, assign
from sfumato.lab.generative.wide_gaussian import WideGaussian
from sfumato.shared.core.quantise import Quantiser
from sfumato.shared.errors import ConfigError
from sfumato.shared.privacy.testing import SeededSource

D, K = 5, 3
SEEDS = st.integers(0, 2**32 - 1)


def make_features(d: int = D, **changes: Any) -> FeatureMap:
    usual: dict[str, Any] = {
        "quantiser": Quantiser.from_bounds(np.zeros(d), np.ones(d)),
        "n_features": 40,
        "bandwidth": 1.0,
        "seed": bytes(32),
    }
    return FeatureMap.draw(**(usual | changes))


def make_partition(features: FeatureMap, **changes: Any) -> KernelPartition:
    usual: dict[str, Any] = {"n_parts": K, "n_rounds": 5, "start": None, "seed": 1}
    return KernelPartition(features=features, **(usual | changes))


def draw_steps(features: FeatureMap, rng: np.random.Generator, n: int) -> NDArray[np.int16]:
    records = rng.normal(0.5, 1.0, size=(n, D)) * rng.choice([1.0, 1e300], size=(n, 1))
    return features.quantiser.quantise(records)[0]


@given(SEEDS)
def test_no_record_is_longer_than_the_noise_counts_with_and_none_depends_on_another(
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    features = make_features()
    partition = make_partition(features)
    steps = draw_steps(features, rng, 20)
    found = features.compute(steps)
    centroids = partition.draw_start()
    parts = assign(found, centroids)
    together = partition.sum_parts(found, parts)
    alone = np.zeros_like(together)
    for i in range(20):
        one = features.compute(steps[i : i + 1])
        assert one.tolist() == found[i : i + 1].tolist()
        added = partition.sum_parts(one, assign(one, centroids))
        squared = sum(int(x) ** 2 for x in added.ravel())
        assert 0.99 * partition.squared_distance < squared <= partition.squared_distance
        alone += added
    assert together.tolist() == alone.tolist()


def test_products_of_features_are_those_of_the_kernel() -> None:
    rng = np.random.default_rng(0)
    features = make_features(n_features=4000, bandwidth=1.5)
    records = rng.random((8, D))
    found = features.compute(features.quantiser.quantise(records)[0]).astype(np.float64)
    products = found @ found.T / features.squared_length
    # In half widths of the bounds.
    squared = ((records[:, None] - records[None]) ** 2).sum(axis=2) * 4.0
    assert np.abs(products - np.exp(-squared / (2 * 1.5**2))).max() < 0.1


@pytest.mark.parametrize("noisy", [False, True])
def test_parts_are_found(noisy: bool) -> None:
    rng = np.random.default_rng(1)
    features = make_features(bandwidth=0.7)
    centres = rng.random((K, D))
    of = rng.integers(0, K, size=3000)
    records = centres[of] + rng.normal(size=(3000, D)) * 0.02
    found = features.compute(features.quantiser.quantise(records)[0])
    start = features.compute(features.quantiser.quantise(centres + 0.03)[0]).astype(np.int64)
    partition = make_partition(features, start=start)
    noise = WideGaussian.of_least(20.0 * math.sqrt(partition.squared_distance) if noisy else 1.0)
    source = SeededSource(2)
    centroids = partition.release(
        found, lambda sums: sums + noise.draw(source, sums.size), math.sqrt(noise.variance)
    )
    assert np.mean(assign(found, centroids) == of) > 0.98


def test_a_part_that_noise_hides_keeps_its_centroid() -> None:
    features = make_features()
    partition = make_partition(features)
    before = partition.draw_start()
    empty = np.zeros((K, 1 + features.n_features), dtype=np.int64)
    empty[0, 0] = 2 * partition.unit
    assert partition.find_centroids(empty, float(partition.unit), before).tolist() == (
        before.tolist()
    )


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"n_features": 0}, "n_kernel_features"),
        ({"bandwidth": 0.0}, "bandwidth"),
        ({"bandwidth": math.nan}, "bandwidth"),
    ],
)
def test_a_number_out_of_range_is_refused_by_name(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as refused:
        make_features(**changes)
    assert refused.value.field == field
