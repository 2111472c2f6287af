import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sfumato.learning.calibration.calibration import calibrate
from sfumato.learning.calibration.columns import Column, calibrate_column
from sfumato.learning.calibration.strength import bound_excess
from sfumato.learning.calibration.words import (
    describe_finding,
    describe_limits,
    describe_refusal,
)
from sfumato.shared.errors import DecodingError
from tests.learning.calibration.drawing import draw_marginal, draw_marginals

N = 20_000
RNG = np.random.default_rng(0)
NORMAL = RNG.normal(size=N)


def calibrate_values(values: np.ndarray, *, strength: float = 2000.0, seed: int = 0) -> Column:
    return calibrate_column(draw_marginal(values, strength=strength, seed=seed))


@pytest.mark.parametrize("strength", [300.0, 3000.0])
@pytest.mark.parametrize(
    "values",
    [
        1e4 * (NORMAL - 3.0),
        np.where(RNG.random(N) < 0.6, NORMAL, NORMAL + 8.0),
    ],
    ids=["negative", "two humps"],
)
def test_the_spread_of_a_column_is_found_without_any_bounds(
    values: np.ndarray, strength: float
) -> None:
    column = calibrate_values(values, strength=strength)
    assert column.is_kept
    assert column.resolution is None
    assert 0.7 < column.spread / values.std() < 1.4
    assert column.lower < values.min()
    assert column.upper > values.max()
    centre, spread = values.mean(), values.std()
    assert abs(column.centre - centre) < 0.5 * spread
    assert column.upper - column.lower < 60.0 * spread
    assert centre - 15.0 * spread < column.search_lower < centre - 0.7 * spread
    assert centre + 0.7 * spread < column.search_upper < centre + 15.0 * spread


def test_a_column_over_octaves_gets_a_logarithmic_scale_and_a_spread_in_octaves() -> None:
    column = calibrate_values(np.exp(2.0 * NORMAL + 3.0))
    assert column.resolution == 1e-6
    assert "log" in column.codes
    assert column.spread == pytest.approx(2.0 / math.log(2.0), rel=0.15)
    assert column.centre == pytest.approx(math.exp(3.0), rel=0.4)


@pytest.mark.parametrize(("share", "resolution"), [(0.4, 1.0)])
def test_zeros_forbid_no_logarithmic_scale_and_lie_near_the_smallest_values(
    share: float, resolution: float
) -> None:
    sizes = np.round(4000.0 * np.exp(2.0 * NORMAL))
    values = np.where(RNG.random(N) < share, 0.0, sizes)
    marginal = draw_marginal(values, strength=3000.0, seed=2, resolution=resolution)
    column = calibrate_column(marginal)
    assert column.resolution is not None
    low = np.quantile(sizes, [0.01, 0.15])
    assert low[0] < column.resolution < low[1]
    octaves = np.log2(1.0 + values / column.resolution)
    assert column.spread == pytest.approx(octaves.std(), rel=0.1)
    assert column.lower == 0.0
    assert column.search_upper > np.quantile(values, 0.95)
    (finding,) = (each for each in column.findings if each.code == "log")
    assert finding.lower == 0.0


@pytest.mark.parametrize(
    "values",
    [
        RNG.poisson(5.0, N).astype(float),
        np.minimum(10.0, 10.0 - RNG.gamma(0.1, 20.0, N)).clip(0.0),
        np.where(RNG.random(N) < 0.01, NORMAL + 40.0, NORMAL),
    ],
    ids=["small counts", "visibility", "far cluster"],
)
def test_values_without_long_tails_keep_the_linear_scale(values: np.ndarray) -> None:
    for strength in (300.0, 30_000.0):
        assert calibrate_values(values, strength=strength).resolution is None


LENGTHS = 1.0 + np.floor(10.0 * RNG.pareto(1.5, N))


LENGTHS_AND_ZEROS = np.where(RNG.random(N) < 0.5, 0.0, LENGTHS)


@pytest.mark.parametrize(
    ("values", "resolution", "strength"),
    [
        (LENGTHS, 1e-6, 3000.0),
        (LENGTHS_AND_ZEROS, 1.0, 3000.0),
    ],
)
def test_long_tails_go_on_the_logarithmic_scale_whether_counts_were_declared_or_not(
    values: np.ndarray, resolution: float, strength: float
) -> None:
    marginal = draw_marginal(values, strength=strength, seed=0, resolution=resolution)
    column = calibrate_column(marginal)
    assert column.resolution is not None
    assert "tail" not in column.codes
    assert column.lower >= 0.0


def test_long_tails_on_both_sides_of_zero_go_on_a_scale_that_is_linear_amid_them() -> None:
    values = 40.0 * RNG.pareto(1.3, N) * np.where(RNG.random(N) < 0.5, -1.0, 1.0)
    column = calibrate_values(values, strength=30_000.0, seed=0)
    assert column.resolution is not None
    assert column.resolution in (20.0, 30.0, 40.0)
    assert column.lower < values.min()
    assert values.max() < column.upper
    assert column.search_lower < -200.0
    assert column.search_upper > 200.0
    (finding,) = column.findings
    assert finding.code == "log"
    assert finding.lower is not None
    assert finding.lower < -200.0


def test_long_tails_that_stay_on_the_linear_scale_are_named() -> None:
    def calibrate_within(values: np.ndarray, **options: object) -> Column:
        return calibrate_column(draw_marginal(values, strength=30_000.0, seed=0, **options))

    bounded = calibrate_within(LENGTHS, resolution=None, bounds=(0.0, 1000.0))
    (finding,) = bounded.findings
    assert bounded.resolution is None
    assert finding.code == "tail"
    assert finding.share is not None
    assert finding.share > 0.35
    rare = calibrate_within(np.where(RNG.random(N) < 0.01, NORMAL + 40.0, NORMAL))
    assert rare.codes == {"tail"}
    assert not calibrate_within(NORMAL, resolution=None, bounds=(-50.0, 50.0)).codes
    assert bound_excess(3000.0, has_tail=True) > 3.0 * bound_excess(3000.0)
    assert bound_excess(1000.0) > bound_excess(3000.0) > bound_excess(6000.0)


def test_tails_that_a_weak_pilot_cannot_exclude_are_named() -> None:
    column = calibrate_values(LENGTHS, strength=500.0, seed=1)
    assert column.resolution is not None or column.codes & {"tail", "hidden"}
    hidden = calibrate_values(LENGTHS, strength=500.0, seed=0)
    (finding,) = hidden.findings
    assert finding.code == "hidden"
    assert "may hide in the pilot's noise" in describe_finding(finding)
    assert not calibrate_values(NORMAL + 15.0, strength=500.0).codes
    assert "hidden" not in calibrate_values(LENGTHS, strength=3000.0).codes


@pytest.mark.parametrize("seed", range(3))
def test_values_that_noise_hides_beside_a_frequent_one_are_counted_and_spread(seed: int) -> None:
    """Three seeded pilots; noise explains a sixth of the records with probability below 1e-9."""
    spike = np.where(RNG.random(N) < 0.84, 10.0, 10.0 * RNG.random(N))
    marginal = draw_marginal(
        spike, strength=650.0, seed=seed, resolution=None, bounds=(0.0, 10.0 + 1e-9)
    )

    column = calibrate_column(marginal)

    assert column.is_kept
    assert "constant" not in column.codes
    assert spike.std() / 2.0 < column.spread < 2.0 * spike.std() or "unplaced" in column.codes
    shares = [each.share for each in column.findings if each.code == "unplaced"]
    assert all(share is not None and 0.08 < share < 0.3 for share in shares)


@pytest.mark.parametrize("value", [7.5, 0.0, -2e4])
def test_a_constant_is_left_out_with_its_value(value: float) -> None:
    column = calibrate_values(np.full(N, value))
    assert not column.is_kept
    assert "constant" in column.codes
    assert column.centre == pytest.approx(value, rel=0.03)


def test_a_constant_that_noise_does_not_prove_is_narrow_with_bounds_for_a_second_pilot() -> None:
    column = calibrate_values(np.full(N, 7.5), strength=400.0)
    (finding,) = column.findings
    assert column.is_kept
    assert finding.code == "narrow"
    assert finding.lower is not None
    assert finding.upper is not None
    assert 5.0 < finding.lower < 7.5 < finding.upper < 10.0


def test_a_flag_is_kept_and_named() -> None:
    flag = (RNG.random(N) < 0.3).astype(np.float64)
    for strength in (500.0, 5000.0):
        column = calibrate_values(flag, strength=strength)
        (finding,) = [finding for finding in column.findings if finding.code == "flag"]
        assert finding.share == pytest.approx(0.3, abs=0.03)
        assert finding.lower == 0.0
        assert finding.upper == pytest.approx(1.0, rel=0.1)
        assert column.spread == pytest.approx(math.sqrt(0.3 * 0.7), rel=0.1)


def test_records_outside_linear_bounds_are_named_and_the_column_left_out() -> None:
    outside = draw_marginal(
        NORMAL + 50.0, strength=1000.0, seed=0, resolution=None, bounds=(0.0, 1.0)
    )
    column = calibrate_column(outside)
    assert column.codes == {"outside"}
    assert not column.is_kept
    half = draw_marginal(NORMAL, strength=1000.0, seed=0, resolution=None, bounds=(-8.0, 1.0))
    assert "beyond" in calibrate_column(half).codes


@pytest.mark.parametrize(("far", "strength"), [(1e6, 3000.0)])
def test_codes_for_missing_values_and_lies_of_a_device_are_named(
    far: float, strength: float
) -> None:
    """One device of twenty lies, or a twentieth of the values are codes."""
    values = np.where(np.arange(N) % 20 == 0, far, 20.0 + 5.0 * NORMAL)
    (finding,) = (
        each
        for each in calibrate_values(values, strength=strength).findings
        if each.code == "apart"
    )
    assert finding.share == pytest.approx(0.05, abs=0.02)
    assert finding.lower is not None
    assert finding.upper is not None
    assert finding.lower <= far <= finding.upper
    assert "look like one value" in describe_finding(finding)
    for plain in (NORMAL, np.where(np.arange(N) % 20 == 0, NORMAL + 15.0, NORMAL)):
        assert "apart" not in calibrate_values(plain, strength=strength).codes


def test_missing_values_are_named_and_do_not_count() -> None:
    values = np.where(RNG.random(N) < 0.2, np.nan, NORMAL)
    column = calibrate_values(values)
    assert column.missing_share == pytest.approx(0.2, abs=0.02)
    assert "missing" in column.codes
    assert column.spread == pytest.approx(1.0, rel=0.15)
    assert calibrate_values(NORMAL).missing_share == 0.0


def test_a_pilot_that_is_too_weak_is_refused_with_what_would_do() -> None:
    calibration = calibrate(draw_marginals(NORMAL[:, None], strength=25.0, seed=0), n_clusters=5)
    assert calibration.refusal is not None
    assert calibration.refusal.factor == pytest.approx(4.0)
    assert calibration.strength == pytest.approx(25.0)
    words = describe_refusal(calibration.refusal, n_records=1000, epsilon=0.5)
    assert "4,000 records or epsilon 2 would do" in words
    strong = draw_marginals(NORMAL[:, None], strength=101.0, seed=0)
    assert calibrate(strong, n_clusters=5).refusal is None


def test_the_scale_follows_the_number_of_clusters_and_of_kept_dimensions() -> None:
    records = np.column_stack([NORMAL, 5.0 * NORMAL[::-1], np.full(N, 3.0)])
    marginals = draw_marginals(records, strength=5000.0, seed=0)
    calibration = calibrate(marginals, n_clusters=9)
    assert [column.name for column in calibration.kept] == ["x0", "x1"]
    assert calibration.scale_share == pytest.approx(0.7 / 3.0)
    first, second = calibration.kept
    assert calibration.find_scale(second) == pytest.approx(5.0 * 0.7 / 3.0, rel=0.1)
    assert first.spread == pytest.approx(1.0, rel=0.1)
    assert calibrate(marginals, n_clusters=(3, 27)).scale_share == pytest.approx(0.7 / 3.0)


@given(st.integers(0, 10_000), st.sampled_from([20.0, 150.0, 1000.0]), st.floats(-50.0, 50.0))
@settings(max_examples=8, deadline=None)
def test_the_search_lies_within_the_bounds_whatever_the_noise(
    seed: int, strength: float, offset: float
) -> None:
    column = calibrate_values(NORMAL[:2000] + offset, strength=strength, seed=seed)
    assert column.lower <= column.search_lower < column.search_upper <= column.upper
    assert column.spread > 0.0
    for finding in column.findings:
        assert "{" not in describe_finding(finding)


def test_a_tail_that_noise_hides_in_part_is_judged_by_what_it_leads_to_expect() -> None:
    sizes = np.ceil(8.0 * np.exp(0.9 * NORMAL))
    marginal = draw_marginal(sizes, strength=2700.0, seed=0, resolution=1.0)
    assert calibrate_column(marginal).resolution == 1.0


def test_a_weak_or_narrow_column_asks_for_a_wider_law() -> None:
    flat = np.exp(RNG.uniform(-10.0, 10.0, N))
    weak = draw_marginals(flat[:, None], strength=30.0, seed=0)
    assert calibrate(weak, n_clusters=5).needs_wider_law
    narrow = draw_marginals(np.full((N, 1), 7.5), strength=400.0, seed=0)
    assert calibrate(narrow, n_clusters=5).needs_wider_law
    assert not calibrate(
        draw_marginals(NORMAL[:, None], strength=5000.0, seed=0), n_clusters=5
    ).needs_wider_law


def test_the_reader_is_told_that_rare_far_clusters_cannot_show() -> None:
    values = NORMAL.copy()
    values[:60] += 40.0
    for strength, is_seen in ((1700.0, False), (100_000.0, True)):
        calibration = calibrate(
            draw_marginals(values[:, None], strength=strength, seed=1), n_clusters=5
        )
        (column,) = calibration.columns
        assert (calibration.unseen_share > 0.003) == (not is_seen)
        assert (column.search_upper > 35.0) == is_seen
        assert "cannot show" in " ".join(describe_limits(calibration))


def test_many_dimensions_are_calibrated() -> None:
    records = np.random.default_rng(1).normal(size=(2000, 12)) * np.geomspace(1e-3, 1e3, 12)
    marginals = draw_marginals(records, strength=300.0, seed=0)
    calibration = calibrate(marginals, n_clusters=10)
    ratios = np.array([column.spread for column in calibration.columns]) / records.std(axis=0)
    assert len(calibration.kept) == 12
    assert np.mean((ratios > 0.7) & (ratios < 1.4)) > 0.9
    assert ratios.min() > 0.3
    assert ratios.max() < 3.0


def test_noise_of_many_devices_is_taken_for_what_it_is() -> None:
    ratios = [
        calibrate_column(draw_marginal(NORMAL, strength=400.0, seed=seed, n_sums=1000)).spread
        for seed in range(3)
    ]
    assert all(0.7 < ratio < 1.4 for ratio in ratios)


def test_impossible_questions_are_refused() -> None:
    with pytest.raises(DecodingError, match="marginals"):
        calibrate((), n_clusters=5)
    marginals = draw_marginals(NORMAL[:, None], strength=500.0, seed=0)
    for wrong in (0, (5, 3)):
        with pytest.raises(DecodingError, match="n_clusters"):
            calibrate(marginals, n_clusters=wrong)
