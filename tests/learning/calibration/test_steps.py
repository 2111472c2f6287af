"""The step of values, as empty bins of a noised histogram show it."""

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.learning.calibration.steps import count_multiples, find_step, find_texture
from sfumato.learning.estimate.histogram import BinNoise, Marginal


def count(values: NDArray[np.float64], noise: float, *, seed: int = 0) -> Marginal:
    edges = np.linspace(0.0, 100.0, 513)
    counts = np.histogram(values, edges)[0].astype(np.float64)
    law = BinNoise(variance=2.0 * noise**2)
    return Marginal(
        name="x",
        bins=counts + law.draw(np.random.default_rng(seed), counts.shape),
        below=0.0,
        above=0.0,
        missing=0.0,
        edges=edges,
        n_records=len(values),
        noise=law,
    )


@pytest.mark.parametrize(
    ("step", "found"), [(1.0, 1.0), (0.5, 0.5), (5.0, 5.0), (10.0, 10.0), (2.0, 2.0), (0.1, None)]
)
def test_the_widest_step_is_found_and_a_finer_one_than_bins_is_not(
    step: float, found: float | None
) -> None:
    rng = np.random.default_rng(1)
    values = np.clip(np.round(rng.normal(45.0, 15.0, 20_000) / step) * step, 0.0, 100.0)
    assert find_step(count(values, noise=20.0)) == found


def test_heaps_on_fives_do_not_hide_that_other_whole_numbers_occur() -> None:
    rng = np.random.default_rng(2)
    values = np.round(rng.normal(45.0, 15.0, 20_000))
    values = np.where(rng.random(20_000) < 0.6, np.round(values / 5.0) * 5.0, values)
    assert find_step(count(np.clip(values, 0.0, 100.0), noise=20.0)) == 1.0


def test_where_noise_could_hide_a_fifth_a_rounded_column_seldom_passes_for_a_step() -> None:
    """One in five seeds does; with a probability below 0.001 more than 16 of 40 would."""
    rng = np.random.default_rng(4)
    values = rng.normal(45.0, 15.0, 10_000)
    values = np.where(rng.random(10_000) < 0.78, np.round(values / 2.5) * 2.5, values)
    found = [
        find_step(count(np.clip(values, 0.0, 100.0), noise=38.0, seed=seed)) for seed in range(40)
    ]
    assert sum(each is not None for each in found) <= 16


@pytest.mark.parametrize("noise", [2000.0, 20.0])
def test_values_without_a_step_and_much_noise_show_none(noise: float) -> None:
    """Seeds are fixed; by chance a wrong step is found with a probability below 0.05."""
    rng = np.random.default_rng(3)
    smooth = np.clip(rng.normal(45.0, 15.0, 20_000), 0.0, 100.0)
    assert find_step(count(smooth, noise=noise)) is None
    if noise > 1000.0:
        assert find_step(count(np.round(smooth), noise=noise)) is None


def test_multiples_at_both_ends_count() -> None:
    starts, counts = count_multiples(np.array([0.0, 1.0, 2.5, 3.0]), 0.5)
    assert starts.tolist() == [0.0, 1.0, 2.5]
    assert counts.tolist() == [2.0, 3.0, 2.0]


def test_a_plan_may_state_a_step_where_no_value_is_a_heap_and_noise_would_hide_none() -> None:
    rng = np.random.default_rng(4)
    smooth = np.clip(rng.normal(45.0, 15.0, 20_000), 0.0, 100.0)
    whole = np.round(smooth)
    heaped = np.where(rng.random(20_000) < 0.6, np.round(smooth / 5.0) * 5.0, whole)
    spiked = np.where(rng.random(20_000) < 0.1, 30.07, smooth)
    assert find_texture(count(smooth, noise=20.0)) == 0.0
    assert find_texture(count(whole, noise=20.0)) == 1.0
    for values, noise in ((heaped, 20.0), (spiked, 20.0), (whole, 200.0)):
        assert find_texture(count(values, noise=noise)) is None
