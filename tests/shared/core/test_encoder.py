import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sfumato.shared.core import (
    Columns,
    DimensionEncoding,
    FourierStatistic,
    Quantiser,
    RadiusLaw,
    RecordEncoder,
    SketchAccumulator,
    draw_frequencies,
)
from sfumato.shared.core.encoder import find_nearest_shares
from sfumato.shared.core.logarithm import compress
from sfumato.shared.core.masks import BLOCK_RECORDS
from sfumato.shared.errors import PlanError, RecordError

ENCODER = RecordEncoder(
    dimensions=(
        DimensionEncoding(),
        DimensionEncoding(resolution=0.5, imputed=2.0),
        DimensionEncoding(n_levels=3),
        DimensionEncoding(n_levels=2, imputed=1.0),
    )
)


def encode(*record: float) -> list[float]:
    encoded = ENCODER.encode(np.array([record]))
    assert isinstance(encoded, Columns)
    row: list[float] = encoded.to_array()[0].tolist()
    return row


def test_each_kind_of_dimension_becomes_its_coordinates() -> None:
    assert ENCODER.n_coordinates == 7
    assert ENCODER.dimension_of == (0, 1, 2, 2, 2, 3, 3)
    assert encode(3.25, 3.5, 2.0, 0.0) == pytest.approx([3.25, 3.0, 0.0, 0.0, 1.0, 1.0, 0.0])


@pytest.mark.parametrize("missing", [math.nan, math.inf, -math.inf])
def test_a_missing_number_is_imputed_or_stays_unsketchable(missing: float) -> None:
    imputed = float(compress(np.array([2.0]), 0.5)[0])
    assert encode(0.0, missing, 0.0, 0.0)[1] == imputed
    assert not math.isfinite(encode(missing, 0.0, 0.0, 0.0)[0])


@pytest.mark.parametrize("value", [math.nan, -1.0, 0.5, 3.0, math.inf, 1e300])
def test_what_is_no_level_is_missing_in_every_coordinate_or_imputed(value: float) -> None:
    row = encode(0.0, 0.0, value, value)
    assert all(math.isnan(coordinate) for coordinate in row[2:5])
    assert row[5:] == [0.0, 1.0]


def test_single_precision_and_columns_encode_as_the_doubles_they_convert_to() -> None:
    rows = np.random.default_rng(0).normal(1.0, 2.0, size=(50, 4)).astype(np.float32)
    expected = ENCODER.encode(rows.astype(np.float64))
    for records in (rows, Columns(tuple(rows.T))):
        encoded = ENCODER.encode(records)
        assert isinstance(encoded, Columns)
        assert isinstance(expected, Columns)
        assert np.array_equal(encoded.to_array(), expected.to_array(), equal_nan=True)


def test_decoding_returns_data_units_and_leaves_shares_of_levels() -> None:
    points = np.array([[1.0, 3.0, 0.2, 0.3, 0.5, 1.0, 0.0]])
    assert ENCODER.decode(points)[0].tolist() == pytest.approx([1.0, 3.5, 0.2, 0.3, 0.5, 1.0, 0.0])
    assert points[0, 1] == 3.0


@given(
    st.lists(st.lists(st.floats(-2.0, 3.0), min_size=4, max_size=4), min_size=1, max_size=5),
    st.lists(st.floats(0.0, 1.0), min_size=4, max_size=4),
)
def test_shares_of_levels_are_the_nearest_ones(
    points: list[list[float]], other: list[float]
) -> None:
    noisy = np.array(points)
    shares = find_nearest_shares(noisy)
    assert np.all(shares >= 0.0)
    assert shares.sum(axis=1) == pytest.approx(1.0)
    assert np.allclose(find_nearest_shares(shares), shares)
    if sum(other) > 0.0:
        farther = np.array(other) / sum(other)
        distances = np.sum((noisy - shares) ** 2, axis=1)
        assert np.all(distances <= np.sum((noisy - farther) ** 2, axis=1) + 1e-12)
    decoder = RecordEncoder(dimensions=(DimensionEncoding(n_levels=4),))
    assert decoder.decode(noisy).tobytes() == shares.tobytes()


def test_a_level_lies_at_the_ends_of_its_quantised_coordinate() -> None:
    quantiser = Quantiser.from_bounds(*ENCODER.encode_bounds([-4, -3.5, 0, 0], [4, 15.5, 0, 0]))
    encoded = ENCODER.encode(np.array([[4.0, 15.5, 1.0, 0.0]]))
    assert isinstance(encoded, Columns)
    steps, _ = quantiser.quantise(encoded.to_array())
    assert steps[0].tolist() == [32767, 32767, -32767, 32767, -32767, 32767, -32767]


@given(st.lists(st.integers(0, 40), max_size=4))
def test_a_fourier_sketch_of_encoded_records_is_split_anywhere(cuts: list[int]) -> None:
    lower, upper = ENCODER.encode_bounds([-4.0, -3.5, 0, 0], [4.0, 15.5, 0, 0])
    quantiser = Quantiser.from_bounds(lower, upper)
    frequencies = draw_frequencies(
        bytes(32), n_frequencies=5, law=RadiusLaw(), quantiser=quantiser, scale=np.ones(7)
    )
    statistic = FourierStatistic(quantiser=quantiser, frequencies=frequencies, encoder=ENCODER)
    records = np.random.default_rng(3).integers(-1, 4, size=(40, 4)).astype(np.float64)
    records[records == -1] = np.nan
    encoded = ENCODER.encode(records)
    plain = SketchAccumulator(FourierStatistic(quantiser=quantiser, frequencies=frequencies))
    plain.add(encoded)
    parts = SketchAccumulator(statistic, first_record=BLOCK_RECORDS - 20)
    for part in np.split(records, sorted(cuts)):
        parts.add(part)
    assert np.array_equal(plain.sums, parts.sums)
    assert plain.n_unsketchable == parts.n_unsketchable > 0


@pytest.mark.parametrize(
    ("dimension", "field"),
    [
        (DimensionEncoding(resolution=0.0), r"dimensions\[1\].transform.resolution"),
        (DimensionEncoding(resolution=math.inf), r"dimensions\[1\].transform.resolution"),
        (DimensionEncoding(imputed=math.nan), r"dimensions\[1\].missing"),
        (DimensionEncoding(n_levels=0), r"dimensions\[1\].levels"),
        (DimensionEncoding(n_levels=2, imputed=2.0), r"dimensions\[1\].missing"),
        (DimensionEncoding(n_levels=2, imputed=0.5), r"dimensions\[1\].missing"),
        (DimensionEncoding(n_levels=2, resolution=1.0), r"dimensions\[1\].transform"),
    ],
)
def test_impossible_rules_are_refused_by_number(dimension: DimensionEncoding, field: str) -> None:
    with pytest.raises(PlanError, match=field):
        RecordEncoder(dimensions=(DimensionEncoding(), dimension))


def test_widths_in_data_units_are_those_of_each_coordinate() -> None:
    """Not half of the distance between both ends: shares that move together are put back."""
    point = np.array([0.5, 1.0, 0.5, 0.3, 0.2, 0.5, 0.5])
    widths = np.full(7, 0.1)
    found = ENCODER.decode_widths(point, widths)
    assert found[[0, 2, 3, 4, 5, 6]].tolist() == [0.1] * 6
    ends = ENCODER.decode(np.stack([point - widths, point + widths]))[:, 1]
    assert found[1] == pytest.approx((ends[1] - ends[0]) / 2.0)


def test_linear_dimensions_without_imputation_are_the_same_object() -> None:
    records = np.zeros((4, 3), dtype=np.float32)
    assert RecordEncoder.linear(3).encode(records) is records


def test_bounds_and_scale_follow_the_coordinates() -> None:
    lower, upper = ENCODER.encode_bounds([-4.0, -3.5, None, None], [4.0, 15.5, None, None])
    assert lower.tolist() == pytest.approx([-4.0, -3.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    assert upper.tolist() == pytest.approx([4.0, 5.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    lower, upper = ENCODER.transform_bounds([-4.0, -3.5, None, None], [4.0, 15.5, None, None])
    assert lower.tolist() == pytest.approx([-4.0, -3.0, -0.5, -0.5])
    assert upper.tolist() == pytest.approx([4.0, 5.0, 2.5, 1.5])
    assert ENCODER.encode_scale([0.5, 2.0, None, None]).tolist() == [0.5, 2.0, 1, 1, 1, 1, 1]


def test_whole_shares_stay_and_missing_ones_stay_missing() -> None:
    whole = np.array([[1.0, 0.0, 0.0], [0.25, 0.5, 0.25]])
    assert np.array_equal(find_nearest_shares(whole), whole)
    assert np.isnan(find_nearest_shares(np.full((1, 3), np.nan))).all()
    assert find_nearest_shares(np.array([0.9, 0.4, -0.1])).tolist() == pytest.approx(
        [0.75, 0.25, 0]
    )


def test_records_of_another_width_are_refused() -> None:
    with pytest.raises(RecordError, match=r"shape \(n, 4\)"):
        ENCODER.encode(np.zeros((3, 5)))
