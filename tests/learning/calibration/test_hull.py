import numpy as np
import pytest

from sfumato.learning.calibration.hull import find_hull
from sfumato.learning.estimate.histogram import BinNoise, Marginal
from tests.learning.calibration.drawing import draw_marginal

N_BINS = 512


def make_marginal(counts: np.ndarray, noise: BinNoise, seed: int) -> Marginal:
    rng = np.random.default_rng(seed)
    return Marginal(
        name="x",
        bins=counts + noise.draw(rng, counts.shape),
        below=0.0,
        above=0.0,
        missing=0.0,
        edges=np.arange(counts.size + 1.0),
        n_records=float(counts.sum()),
        noise=noise,
    )


@pytest.mark.parametrize(
    "noise",
    [
        BinNoise(variance=200.0**2),
        BinNoise(variance=200.0**2, n_sums=20),
        BinNoise(variance=200.0**2, is_gaussian=True),
    ],
    ids=["laplace", "sum of twenty", "gaussian"],
)
def test_noise_extends_the_hull_less_than_once_in_a_thousand(noise: BinNoise) -> None:
    counts = np.zeros(N_BINS)
    counts[100] = 10_000.0
    wrong = 0
    for seed in range(1000):
        hull = find_hull(make_marginal(counts, noise, seed))
        wrong += (hull.first, hull.stop, hull.is_weak) != (100, 101, False)
    assert wrong <= 2


def test_a_hull_holds_nearly_all_records_of_a_column() -> None:
    values = 20.0 + np.random.default_rng(0).normal(size=20_000)
    for strength in (200.0, 1000.0, 10_000.0):
        marginal = draw_marginal(values, strength=strength, seed=1)
        hull = find_hull(marginal)
        low, high = marginal.data_edges[[hull.first, hull.stop]]
        inside = np.mean((values > low) & (values < high))
        assert inside > 0.85
        assert 10.0 < low < high < 30.0


def test_a_tail_too_thin_for_any_block_is_found_by_what_is_missing() -> None:
    """0.8 of the records are one value, the others spread evenly over many bins."""
    rng = np.random.default_rng(0)
    values = np.where(rng.random(20_000) < 0.8, 10.0, rng.uniform(0.5, 10.0, 20_000))
    hull = find_hull(marginal := draw_marginal(values, strength=500.0, seed=0, bins_log2=9))
    assert marginal.data_edges[hull.first] < 2.0


def test_a_far_cluster_shows_once_it_stands_above_the_noise() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=20_000)
    values[:200] = rng.normal(50.0, 1.0, 200)
    ends = []
    for strength in (1000.0, 30_000.0):
        marginal = draw_marginal(values, strength=strength, seed=2)
        hull = find_hull(marginal)
        ends.append(marginal.data_edges[hull.stop])
        assert (hull.least_share > 0.01) == (strength == 1000.0)
    assert ends[0] < 10.0
    assert ends[1] > 45.0


def test_without_records_in_any_block_the_hull_is_weak() -> None:
    counts = np.full(N_BINS, 10.0)
    weak = [
        find_hull(make_marginal(counts, BinNoise(variance=1e6), seed)).is_weak
        for seed in range(300)
    ]
    assert np.mean(weak) > 0.99
