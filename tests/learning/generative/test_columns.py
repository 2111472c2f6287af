"""Records that are made to agree with the distributions of single columns."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sfumato.learning.estimate.histogram import BinNoise, Marginal
from sfumato.learning.generative.columns import (
    LevelColumn,
    NumberColumn,
    match_columns,
)
from sfumato.shared.core.logarithm import compress

SHARES = st.lists(st.floats(0.0, 1.0), min_size=4, max_size=12).filter(lambda x: sum(x) > 0.1)


def make_number(shares: list[float], *, resolution: float | None = None) -> NumberColumn:
    values = np.array(shares)
    return NumberColumn(
        name="flow",
        edges=np.linspace(-1.0, 2.0, len(shares) - 1),
        shares=values / values.sum(),
        resolution=resolution,
        error=0.01,
    )


@given(SHARES, st.integers(1, 400), st.integers(0, 1 << 32))
def test_places_follow_the_histogram_and_the_order_of_the_records_stays(
    shares: list[float], n: int, seed: int
) -> None:
    column, rng = make_number(shares), np.random.default_rng(seed)
    values = rng.normal(size=n)
    found = column.place(values, rng)
    assert np.all(np.diff(found[np.argsort(values)]) >= 0.0)
    # One value stands in each n-th part of the distribution.
    below = np.searchsorted(np.sort(found), column.edges[1:-1], side="right") / n
    expected = np.cumsum(column.shares)[1:-2]
    assert np.all(np.abs(below - expected) <= 1.0 / n + 1e-9)
    assert found.min() >= -1.0
    assert found.max() <= 2.0


@given(
    st.lists(st.floats(0.0, 1.0), min_size=2, max_size=5).filter(lambda x: sum(x) > 0.1),
    st.integers(1, 300),
    st.integers(0, 1 << 32),
)
def test_levels_get_their_shares_by_moving_as_few_records_as_that_takes(
    shares: list[float], n: int, seed: int
) -> None:
    rng, wanted = np.random.default_rng(seed), np.array(shares) / sum(shares)
    values = rng.integers(len(shares), size=n).astype(np.float64)
    column = LevelColumn(name="site", shares=wanted, error=0.01)
    found = column.place(values, rng)
    counts = np.bincount(found.astype(int), minlength=len(shares))
    assert np.all(np.abs(counts - wanted * n) < 1.0 + 1e-9)
    before = np.bincount(values.astype(int), minlength=len(shares))
    assert np.sum(found != values) == np.sum(np.maximum(before - counts, 0))


def test_a_column_of_reports_stays_and_one_of_bins_follows_a_density_where_noise_hides_it() -> None:
    """Seeded."""
    rng, plain = np.random.default_rng(3), make_number([0.0, 1.0, 1.0, 0.0])
    values = rng.normal(0.5, 0.3, size=50_000)
    assert plain.blend_with(values, 0.1) is plain
    bins = np.histogram(values, np.linspace(-1.0, 2.0, 257))[0]
    histogram = Marginal(
        name="flow",
        bins=bins + rng.laplace(scale=60.0, size=256),
        below=0.0,
        above=0.0,
        missing=0.0,
        edges=np.linspace(-1.0, 2.0, 257),
        n_records=50_000.0,
        noise=BinNoise(variance=2 * 60.0**2),
    )
    noised = replace(plain, edges=histogram.edges, histogram=histogram)
    found = noised.blend_with(values, 0.01)
    assert found.error == pytest.approx(0.01, abs=0.009)
    assert found.shares.sum() == pytest.approx(1.0)
    expected = np.cumsum(bins / 50_000)
    assert np.max(np.abs(np.cumsum(found.shares[1:-1]) - expected)) < 0.01
    assert np.max(np.abs(np.cumsum(histogram.bins / 50_000) - expected)) > 0.01
    drawn = found.place(values, rng)
    # Inside of a bin, records lie as the density has them.
    narrow = replace(noised, edges=np.array([-1.0, 0.5, 2.0]), shares=np.array([0, 0.5, 0.5, 0]))
    coarse = replace(narrow, inside=np.sort(values)).place(values, rng)
    assert np.std(drawn) == pytest.approx(0.3, rel=0.05)
    assert np.std(coarse) == pytest.approx(0.3, rel=0.05)
    assert np.std(narrow.place(values, rng)) > 0.7


def test_what_lies_beyond_the_bounds_stands_on_them() -> None:
    column = make_number([1.0, 0.0, 0.0, 3.0])
    found = column.place(np.arange(400.0), np.random.default_rng(0))
    assert np.mean(found == -1.0) == 0.25
    assert np.mean(found == 2.0) == 0.75


def test_equal_values_are_spread_in_a_random_order() -> None:
    column = make_number([0.0, 1.0, 1.0, 0.0])
    found = column.place(np.zeros(1000), np.random.default_rng(0))
    assert abs(np.corrcoef(found, np.arange(1000))[0, 1]) < 0.15


def test_a_logarithmic_column_is_even_on_its_scale() -> None:
    column = make_number([0.0, 1.0, 0.0], resolution=0.5)
    found = column.place(np.arange(999.0), np.random.default_rng(1))
    assert np.quantile(compress(found, 0.5), [0.25, 0.75]).tolist() == [
        np.float64(each) for each in np.quantile(compress(found, 0.5), [0.25, 0.75])
    ]
    assert np.allclose(np.quantile(compress(found, 0.5), [0.25, 0.75]), [-0.25, 1.25], atol=0.01)


def test_columns_without_a_histogram_stay_as_they_are() -> None:
    records = np.random.default_rng(0).normal(size=(50, 2))
    column = make_number([0.0, 1.0, 1.0, 0.0])
    found = match_columns(records, ["pressure", "flow"], [column], np.random.default_rng(1))
    assert np.array_equal(found[:, 0], records[:, 0])
    assert not np.array_equal(found[:, 1], records[:, 1])
