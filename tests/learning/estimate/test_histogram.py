import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sfumato.learning.estimate.histogram import (
    BinNoise,
    Marginal,
    estimate_bands,
    estimate_distribution,
    estimate_quantiles,
    find_critical,
    read_marginals,
)
from sfumato.shared.core import (
    DimensionEncoding,
    HistogramStatistic,
    Quantiser,
    RecordEncoder,
    SketchAccumulator,
)
from sfumato.shared.errors import DecodingError

LAPLACE = BinNoise(variance=800.0)
SUM_OF_NINE = BinNoise(variance=900.0, n_sums=9)
GAUSSIAN = BinNoise(variance=50.0, is_gaussian=True)
NOISES = (LAPLACE, SUM_OF_NINE, GAUSSIAN)
IDS = ("laplace", "sum of nine", "gaussian")


def make_marginal(cells: np.ndarray, noise: BinNoise, n_records: float) -> Marginal:
    """Return a marginal of cells in the order below, bins, above, missing."""
    inner = cells[1:-2]
    return Marginal(
        name="x",
        bins=inner,
        below=float(cells[0]),
        above=float(cells[-2]),
        missing=float(cells[-1]),
        edges=np.arange(inner.size + 1.0),
        n_records=n_records,
        noise=noise,
    )


@pytest.mark.parametrize("noise", NOISES, ids=IDS)
def test_drawn_noise_is_whole_and_has_the_stated_variance(noise: BinNoise) -> None:
    drawn = noise.draw(np.random.default_rng(0), (200_000,))
    assert np.array_equal(drawn, np.rint(drawn))
    assert np.mean(drawn**2) == pytest.approx(noise.variance, rel=0.03)
    assert abs(np.mean(drawn)) < 4.0 * noise.deviation / np.sqrt(drawn.size)


def test_laplace_noise_has_the_law_of_the_mechanism() -> None:
    drawn = BinNoise(variance=8.0).draw(np.random.default_rng(0), (200_000,))
    # (1 - q) / (1 + q) q^|y| with 2 q / (1 - q)^2 = 8 has q = 0.609612.
    q = 0.6096117967977924
    for y in range(4):
        expected = (1 - q) / (1 + q) * q**y
        assert np.mean(drawn == y) == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize("noise", NOISES, ids=IDS)
@pytest.mark.parametrize("width", [1, 8, 30])
def test_the_bound_of_a_sum_holds_and_is_not_loose(noise: BinNoise, width: int) -> None:
    exponent = 4.0
    sums = noise.draw(np.random.default_rng(1), (40_000, width)).sum(axis=1)
    bound = float(noise.bound(np.array(float(width)), exponent))
    assert np.mean(sums > bound) <= np.exp(-exponent)
    assert np.mean(sums > bound / 2.0) > np.exp(-exponent)


@pytest.mark.parametrize("noise", NOISES, ids=IDS)
def test_bands_cover_the_whole_distribution_function_in_95_percent(noise: BinNoise) -> None:
    truth = np.array([10, 0, 0, 400, 900, 300, 0, 0, 20, 0, 0, 0, 250, 0, 0, 0, 0, 0, 5, 115.0])
    n, exact = truth.sum(), np.cumsum(truth)[:-2] / truth.sum()
    rng = np.random.default_rng(2)
    critical = find_critical(noise, truth.size, rng)
    covered = quantiles = 0
    for _ in range(1000):
        noised = truth + noise.draw(rng, truth.shape)
        bands = estimate_bands(make_marginal(noised, noise, n), critical=critical)
        covered += bool(
            np.all((bands.lower <= exact) & (exact <= bands.upper))
            and bands.present_lower <= 1 - truth[-1] / n <= bands.present_upper
        )
        low, high = bands.find_quantile(0.5)
        quantiles += low <= 3.5 <= high
    assert 930 <= covered <= 970
    assert quantiles >= 930


@given(
    st.lists(st.integers(-50, 500), min_size=2, max_size=30),
    st.sampled_from(NOISES),
)
@settings(max_examples=50)
def test_a_distribution_function_ascends_from_0_to_1(bins: list[int], noise: BinNoise) -> None:
    cells = np.array([0, *bins, 0, 0], dtype=np.float64)
    estimate = estimate_distribution(make_marginal(cells, noise, 1000.0), 0, len(bins))
    assert estimate.shape == (len(bins) + 1,)
    assert estimate[0] == 0.0
    assert estimate[-1] == 1.0
    assert np.all(np.diff(estimate) >= 0.0)


def test_numbers_are_read_and_levels_left_out() -> None:
    encoder = RecordEncoder(
        dimensions=(DimensionEncoding(n_levels=3), DimensionEncoding(resolution=1.0))
    )
    box = encoder.transform_bounds([None, -15.0], [None, 15.0])
    statistic = HistogramStatistic(
        quantiser=Quantiser.from_bounds(*box), bins_log2=(0, 3), encoder=encoder
    )
    accumulator = SketchAccumulator(statistic)
    accumulator.add(np.array([[0, 3.5], [1, -99.0], [2, 99.0], [0, np.nan], [1, 3.5]]))
    noises = [BinNoise(variance=1e-6)] * 2
    (marginal,) = read_marginals(
        statistic, ["level", "x"], sums=accumulator.sums, n_records=[5.0, 5.0], noises=noises
    )
    assert marginal.name == "x"
    assert (marginal.below, marginal.above, marginal.missing) == (1.0, 1.0, 1.0)
    assert marginal.bins.tolist() == [0, 0, 0, 0, 0, 0, 2, 0]
    # T runs from -4 to 4; two octaves are |x| = 3.
    assert marginal.data_edges[[0, -1]] == pytest.approx([-15.0, 15.0])
    assert marginal.data_edges[6] == pytest.approx(3.0, rel=1e-3)
    assert marginal.missing_share == pytest.approx(0.2)


def test_quantiles_are_estimated_closer_than_they_are_bounded() -> None:
    truth = np.concatenate([[0], 2000.0 * np.exp(-((np.arange(64) - 40.0) ** 2) / 50.0), [0, 300]])
    median = np.searchsorted(np.cumsum(truth), (truth.sum() - 300) / 2) - 0.5
    noise, rng = BinNoise(variance=1e4, n_sums=4), np.random.default_rng(3)
    found = [
        estimate_quantiles(
            make_marginal(truth + noise.draw(rng, truth.shape), noise, truth.sum()), [0.5]
        )
        for _ in range(200)
    ]
    errors = np.array(found) - median
    assert np.sqrt(np.mean(errors**2)) < 0.5
    assert abs(np.mean(errors)) < 0.5


def test_bands_of_a_sample_are_wider() -> None:
    noise = BinNoise(variance=1.0)
    marginal = make_marginal(np.array([0, 50, 50, 0, 0.0]), noise, 100.0)
    narrow = estimate_bands(marginal, critical=2.0)
    wide = estimate_bands(marginal, critical=2.0, are_sample=True)
    assert wide.lower[1] < narrow.lower[1] < 0.5 < narrow.upper[1] < wide.upper[1]


def test_quantiles_beyond_the_box_are_unbounded() -> None:
    noise = BinNoise(variance=1e-6)
    marginal = make_marginal(np.array([60, 20, 20, 0, 0.0]), noise, 100.0)
    bands = estimate_bands(marginal, critical=2.0)
    assert bands.find_quantile(0.5) == (-np.inf, 0.0)
    assert bands.find_quantile(0.7) == (0.0, 1.0)
    below, inside = estimate_quantiles(marginal, (0.5, 0.7))
    assert below == -np.inf
    assert inside == pytest.approx(0.5, abs=0.01)


def test_without_noise_it_is_that_of_the_records() -> None:
    cells = np.array([0, 10, 0, 30, 60, 0, 0.0])
    noise = BinNoise(variance=1e-6)
    estimate = estimate_distribution(make_marginal(cells, noise, 100.0), 0, 4)
    assert estimate == pytest.approx([0.0, 0.1, 0.1, 0.4, 1.0])


def test_noise_without_a_variance_is_refused() -> None:
    with pytest.raises(DecodingError, match="variance"):
        BinNoise(variance=0.0)
