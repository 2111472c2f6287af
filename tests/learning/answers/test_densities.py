import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from sfumato.learning.answers.densities import (
    Interval,
    clip_interval,
    compute_all_quantiles,
    compute_blur,
    compute_correlations,
    compute_density,
    compute_distribution,
    compute_means,
    compute_own_shares,
    compute_quantiles,
    compute_shares,
    pool,
    spread_points,
)
from sfumato.learning.decoding.density import Posterior
from sfumato.shared.errors import DecodingError

from .posteriors import draw_posterior, make_posterior

seeds = st.integers(0, 10_000)
dimensions = st.integers(1, 4)


def sample(posterior: Posterior, n: int) -> NDArray[np.float64]:
    return posterior.draw_samples(n, rng=np.random.default_rng(1))


def is_inside(
    points: NDArray[np.float64], ranges: dict[int, tuple[float, float]]
) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = np.all(
        [
            (points[:, axis] >= low) & (points[:, axis] <= high)
            for axis, (low, high) in ranges.items()
        ],
        axis=0,
    )
    return found


def box_of(posterior: Posterior, ranges: dict[int, tuple[float, float]]) -> list[Interval]:
    return [clip_interval(posterior, axis, *ends) for axis, ends in ranges.items()]


@given(seed=seeds, d=dimensions, slanted=st.booleans())
@settings(max_examples=25)
def test_the_shares_of_a_partition_of_the_box_sum_to_one(seed: int, d: int, slanted: bool) -> None:
    rng = np.random.default_rng(seed)
    posterior = draw_posterior(rng, n_draws=3, n_atoms=4, d=d, slanted=slanted)
    cuts = [
        np.concatenate(
            [[posterior.lower[i]], np.sort(rng.uniform(-2.0, 2.0, size=1)), [posterior.upper[i]]]
        )
        for i in range(d)
    ]
    total = sum(
        compute_shares(
            posterior,
            box_of(
                posterior,
                {i: (c[j], c[j + 1]) for i, (c, j) in enumerate(zip(cuts, cell, strict=True))},
            ),
        )
        for cell in itertools.product(range(2), repeat=d)
    )
    # Exact along the axes and in one dimension; elsewhere by 128 points of each atom.
    assert total == pytest.approx(np.ones(3), abs=0.02 if slanted and d > 1 else 1e-9)


@given(seed=seeds, d=dimensions, slanted=st.booleans())
@settings(max_examples=20)
def test_shares_and_means_are_those_of_samples(seed: int, d: int, slanted: bool) -> None:
    rng = np.random.default_rng(seed)
    posterior = draw_posterior(rng, n_draws=2, n_atoms=3, d=d, slanted=slanted)
    ranges = {i: (-1.0, float(rng.uniform(0.5, 20.0))) for i in range(d)}
    points = sample(posterior, 200_000)
    inside = is_inside(points, ranges)
    box = box_of(posterior, ranges)
    share = float(pool(posterior, compute_shares(posterior, box))[0])
    # Four standard errors of the samples: once in 16,000 by chance; and the points' own error.
    chance = 4.0 * np.sqrt(max(share * (1.0 - share), 1e-5) / len(points))
    assert share == pytest.approx(float(np.mean(inside)), abs=chance + (0.01 if slanted else 1e-6))
    if np.sum(inside) < 5_000:
        return
    for axis in range(d):
        for conditions in (ranges, {i: ends for i, ends in ranges.items() if i != axis}):
            chosen = (
                is_inside(points, conditions)[:, None]
                if conditions
                else np.ones((len(points), 1), bool)
            )
            own = points[chosen[:, 0], axis]
            shares, means, variances = compute_means(
                posterior, box_of(posterior, conditions), axis, None
            )
            chances = posterior.shares * shares
            mean = float(chances @ means / np.sum(chances))
            error = 4.0 * own.std() / np.sqrt(len(own)) + (0.02 * own.std() if slanted else 1e-6)
            assert mean == pytest.approx(float(own.mean()), abs=error)
            assert np.all(variances >= 0.0)


def test_a_transformed_mean_is_that_of_the_transformed_records() -> None:
    rng = np.random.default_rng(3)
    posterior = draw_posterior(rng, n_draws=1, n_atoms=3, d=2, slanted=True)
    points = sample(posterior, 400_000)
    inside = is_inside(points, {1: (-3.0, 3.0)})
    _, means, variances = compute_means(
        posterior, box_of(posterior, {1: (-3.0, 3.0)}), 0, lambda values: np.exp(values / 2.0)
    )
    own = np.exp(points[inside, 0] / 2.0)
    assert means[0] == pytest.approx(own.mean(), rel=0.02)
    assert np.sqrt(variances[0]) == pytest.approx(own.std(), rel=0.05)


@given(seed=seeds, share=st.floats(0.01, 0.99))
@settings(max_examples=30)
def test_a_quantile_is_where_the_distribution_reaches_its_share(seed: int, share: float) -> None:
    posterior = draw_posterior(
        np.random.default_rng(seed), n_draws=3, n_atoms=3, d=2, slanted=False
    )
    found = compute_quantiles(posterior, 1, share)
    reached = compute_distribution(posterior, 1, found[:, None])[:, 0]
    is_inside_box = (found > posterior.lower[1] + 1e-6) & (found < posterior.upper[1] - 1e-6)
    assert reached[is_inside_box] == pytest.approx(share, abs=1e-6)
    assert np.all((found >= posterior.lower[1]) & (found <= posterior.upper[1]))


@given(seed=seeds, d=st.integers(1, 12), slanted=st.booleans())
@settings(max_examples=20)
def test_points_of_a_draw_have_the_moments_of_its_density(seed: int, d: int, slanted: bool) -> None:
    posterior = draw_posterior(
        np.random.default_rng(seed), n_draws=2, n_atoms=3, d=d, slanted=slanted
    )
    # Bounds far away, so that nothing is clipped.
    posterior = replace(posterior, lower=posterior.lower - 1e6, upper=posterior.upper + 1e6)
    points, shares = spread_points(posterior, 1)
    own = posterior.draw_of == 1
    mean = posterior.weights[own] @ posterior.means[own]
    second = np.einsum(
        "k,kij->ij",
        posterior.weights[own],
        posterior.roots[own] @ posterior.roots[own].swapaxes(1, 2)
        + posterior.means[own][:, :, None] * posterior.means[own][:, None, :],
    )
    covariance = second - np.outer(mean, mean)
    deviations = np.sqrt(np.diagonal(covariance))
    assert shares @ points == pytest.approx(mean)
    correlations, found = compute_correlations(points, shares)
    assert found == pytest.approx(deviations)
    assert correlations == pytest.approx(covariance / np.outer(deviations, deviations))


def test_a_blurred_line_is_correlated_less_by_what_is_computed() -> None:
    rng = np.random.default_rng(0)
    line = rng.normal(size=200_000)
    plain = np.array([10.0 * line, 10.0 * line])
    found, deviations = compute_correlations(plain.T, np.full(line.size, 1 / line.size))
    # Noise of half of a scale of 4 in each column.
    ours, theirs = plain + rng.normal(scale=2.0, size=plain.shape)
    blurred = float(np.corrcoef(ours, theirs)[0, 1])
    shrunk = compute_blur(found, deviations, np.full(2, 4.0))[0, 1]
    assert 1.0 - blurred == pytest.approx(shrunk, rel=0.1)
    # No more than all of it.
    assert compute_blur(found, deviations, np.full(2, 1e9))[0, 1] == pytest.approx(1.0)


def test_records_beyond_a_bound_stand_on_it() -> None:
    # Half of the records lie beyond the upper bound.
    posterior = make_posterior(np.array([[[10.0]]]), np.array([[[[1.0]]]]))
    on_bound = compute_shares(posterior, [clip_interval(posterior, 0, 10.0, np.inf)])
    up_to = compute_shares(posterior, [clip_interval(posterior, 0, 0.0, 10.0)])
    beyond = compute_shares(posterior, [clip_interval(posterior, 0, 11.0, np.inf)])
    assert on_bound == pytest.approx([0.5])
    assert up_to == pytest.approx([1.0])
    assert beyond == pytest.approx([0.0])
    assert compute_quantiles(posterior, 0, 0.9) == pytest.approx([10.0])
    # The mean of min(g, 0) is -1 / sqrt(2 pi).
    _, means, _ = compute_means(posterior, [], 0, None)
    assert means == pytest.approx([10.0 - 1.0 / np.sqrt(2.0 * np.pi)])


def test_a_density_is_the_slope_of_the_distribution() -> None:
    posterior = draw_posterior(np.random.default_rng(0), n_draws=2, n_atoms=3, d=3, slanted=True)
    points = np.linspace(-2.0, 2.0, 9)
    rise = compute_distribution(posterior, 2, points + 1e-4) - compute_distribution(
        posterior, 2, points - 1e-4
    )
    assert compute_density(posterior, 2, points) == pytest.approx(rise / 2e-4, rel=1e-4, abs=1e-9)


def test_the_spread_of_draws_is_that_of_their_values() -> None:
    posterior = make_posterior(np.zeros((4, 1, 1)), np.ones((4, 1, 1, 1)))
    values = np.array([1.0, 2.0, 3.0, 6.0])
    mean, spread = pool(posterior, values)
    assert mean == pytest.approx(3.0)
    assert spread == pytest.approx(values.std(ddof=1))


def test_a_posterior_of_wrong_numbers_is_refused() -> None:
    with pytest.raises(DecodingError, match="positive diagonal"):
        make_posterior(np.zeros((1, 1, 1)), np.zeros((1, 1, 1, 1)))
    with pytest.raises(DecodingError, match="sum to 1"):
        make_posterior(np.zeros((1, 1, 1)), np.ones((1, 1, 1, 1)), weights=np.array([0.5]))


def test_a_constant_column_is_correlated_with_nothing() -> None:
    points = np.array([[1.0, 3.0], [1.0, 4.0], [1.0, 7.0]])
    assert compute_correlations(points, np.full(3, 1 / 3))[0][0, 1] == 0.0


@given(seed=seeds, slanted=st.booleans())
@settings(max_examples=20)
def test_ranges_between_quantiles_of_each_draw_hold_the_same_share_of_all(
    seed: int, slanted: bool
) -> None:
    rng = np.random.default_rng(seed)
    posterior = draw_posterior(rng, n_draws=4, n_atoms=3, d=2, slanted=slanted)
    ends = compute_all_quantiles(posterior, 1, np.array([0.25, 0.75]), reach=10.0)
    found = compute_own_shares(posterior, [1], ends.T[None])
    assert found == pytest.approx(np.full(4, 0.5), abs=1e-6)
