import numpy as np
import pytest
from hypothesis import given, strategies as st

from sfumato.learning.estimate.sizes import SizeMoments
from sfumato.learning.estimate.weights import SIZE_WEIGHTS, Weights, choose_weights
from sfumato.shared.errors import PrivacyError

SIZES = st.lists(st.integers(1, 100_000), min_size=1, max_size=30)


def error_of(sizes: list[int], weights: np.ndarray, v: float, c: float) -> float:
    """Noise and sampling error of a weighted average, from its definition."""
    n = np.array(sizes, dtype=np.float64)
    share = weights / weights.sum()
    return float(np.sum(share**2 * (v / n**2 + c / n)))


def choose(sizes: list[int], v: float, c: float, weighting: str = "noise-optimal") -> Weights:
    return choose_weights(
        weighting,
        SizeMoments.of_sizes(sizes),
        noise_variance=v / 2,
        amplitude=1,
        alpha=1.0,
        signal_energy=1.0 - c,
    )


def apply(weights: Weights, sizes: list[int]) -> np.ndarray:
    n = np.array(sizes, dtype=np.float64)
    return weights.a * n + weights.b * n**2


@given(SIZES, st.floats(1e-3, 1e9), st.floats(0.05, 0.95))
def test_chosen_weights_are_never_worse_than_size_weights_and_near_the_best(
    sizes: list[int], v: float, c: float
) -> None:
    n = np.array(sizes, dtype=np.float64)
    best = error_of(sizes, n**2 / (v + c * n), v, c)
    chosen = error_of(sizes, apply(choose(sizes, v, c), sizes), v, c)
    by_size = error_of(sizes, n, v, c)
    assert chosen <= by_size * (1 + 1e-6)
    assert chosen <= best * 1.35


@given(SIZES, st.floats(0.0, 5.0), st.floats(0.0, 1e-2))
def test_energies_by_moments_are_those_of_the_definition(
    sizes: list[int], a: float, b: float
) -> None:
    weights = Weights(a=a + 0.1, b=b)
    moments = SizeMoments.of_sizes(sizes)
    n = np.array(sizes, dtype=np.float64)
    share = apply(weights, sizes) / apply(weights, sizes).sum()
    energy = weights.compute_noise_energy(moments, noise_variance=7.0, amplitude=3, alpha=0.5)
    assert energy == pytest.approx(float(np.sum(2 * 7.0 * (share / (3 * 0.5 * n)) ** 2)))
    effective = weights.compute_effective_records(moments)
    assert effective == pytest.approx(1 / float(np.sum(share**2 / n)))


def test_the_weighted_average_is_that_of_the_sketches() -> None:
    rng = np.random.default_rng(2)
    sizes = [10, 200, 3000]
    sums = rng.integers(-1000, 1000, size=(3, 8)) * np.array(sizes)[:, None]
    weights = Weights(a=1.0, b=0.01)
    average = weights.average(
        SizeMoments.of_sizes(sizes),
        sums=sums.sum(axis=0).astype(np.float64),
        size_sums=(sums * np.array(sizes)[:, None]).sum(axis=0).astype(np.float64),
        amplitude=16380,
        alpha=0.5,
        block_of=np.zeros(4, dtype=np.int64),
    )
    each = (sums[:, :4] + 1j * sums[:, 4:]) / (16380 * 0.5 * np.array(sizes)[:, None])
    share = apply(weights, sizes) / apply(weights, sizes).sum()
    assert np.allclose(average, (share[:, None] * each).sum(axis=0))


def test_where_noise_dominates_weights_grow_as_the_square_of_the_size() -> None:
    weights = apply(choose([100, 1000, 10_000], 1e12, 0.5), [100, 1000, 10_000])
    assert weights / weights[0] == pytest.approx([1, 100, 10_000], rel=1e-2)


def test_where_sampling_dominates_weights_are_sizes() -> None:
    weights = apply(choose([100, 1000, 10_000], 1e-6, 0.5), [100, 1000, 10_000])
    assert weights / weights[0] == pytest.approx([1, 10, 100], rel=1e-3)


def test_lognormal_sizes_gain_about_what_the_mathematics_says() -> None:
    # Noise dominates: size weights cost 3.0 times the error at lognormal sizes (sigma = 1.05).
    sizes = np.exp(np.random.default_rng(1).normal(9, 1.05, 4000)).astype(int).tolist()
    by_size = error_of(sizes, np.array(sizes, dtype=np.float64), 1e14, 0.5)
    chosen = error_of(sizes, apply(choose(sizes, 1e14, 0.5), sizes), 1e14, 0.5)
    assert 2.5 < by_size / chosen < 3.6


def test_size_weights_are_the_papers() -> None:
    moments = SizeMoments.of_sizes([10, 20])
    assert choose([10, 20], 1e9, 0.5, "size") == SIZE_WEIGHTS
    assert SIZE_WEIGHTS.compute_effective_records(moments) == pytest.approx(30)


def test_an_unknown_weighting_is_refused() -> None:
    with pytest.raises(PrivacyError, match="size, noise-optimal"):
        choose([1, 2], 1.0, 0.5, "equal")
