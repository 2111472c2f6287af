import itertools
import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from sfumato.shared.core import (
    DimensionEncoding,
    GridStatistic,
    HistogramStatistic,
    Quantiser,
    RecordEncoder,
    SketchAccumulator,
    count_most_records,
)
from sfumato.shared.errors import PlanError, PrivacyError
from tests.system.stranger import columns

ENCODER = RecordEncoder(
    dimensions=(
        DimensionEncoding(),
        DimensionEncoding(resolution=1e-6),
        DimensionEncoding(n_levels=4, imputed=0.0),
    )
)


def make_statistic(dimensions: tuple[int, ...] | None = None) -> HistogramStatistic:
    box = ENCODER.transform_bounds([-1.0, -1e6, None], [1.0, 1e6, None])
    return HistogramStatistic(
        quantiser=Quantiser.from_bounds(*box),
        bins_log2=(3, 10, 0),
        encoder=ENCODER,
        dimensions=dimensions,
    )


def make_plain(d: int, bits: int) -> HistogramStatistic:
    box = Quantiser.from_bounds([-32767.0] * d, [32767.0] * d)
    return HistogramStatistic(quantiser=box, bins_log2=(bits,) * d)


def count(statistic: HistogramStatistic, *parts: NDArray[np.float64]) -> NDArray[np.int64]:
    accumulator = SketchAccumulator(statistic)
    for part in parts:
        accumulator.add(part)
    assert accumulator.n_unsketchable == 0
    return accumulator.sums


def any_records(d: int) -> st.SearchStrategy[NDArray[np.float64]]:
    values = st.one_of(st.floats(width=64), st.integers(-40000, 40000).map(float))
    shape = st.tuples(st.integers(0, 30), st.just(d))
    return hnp.arrays(np.float64, shape, elements=values)


@given(st.one_of(st.floats(width=64), st.floats(-33000, 33000)), st.integers(1, 12))
def test_a_value_falls_in_the_bin_of_its_definition(x: float, bits: int) -> None:
    sums = count(make_plain(1, bits), np.array([[x]]))
    box = {"lower": -32767.0, "upper": 32767.0}
    assert np.flatnonzero(sums).tolist() == [columns.find_bin(x, box, bits)]


@given(any_records(3))
def test_every_dimension_counts_every_record_once(records: NDArray[np.float64]) -> None:
    statistic = make_statistic()
    sums = count(statistic, records)
    assert [int(sums[place].sum()) for place in statistic.bins.values()] == [len(records)] * 3


@given(any_records(3), any_records(3))
def test_order_split_and_merge_change_no_bit(
    first: NDArray[np.float64], second: NDArray[np.float64]
) -> None:
    statistic = make_statistic()
    whole = count(statistic, np.concatenate([first, second]))
    assert np.array_equal(whole, count(statistic, second[::-1], first))
    merged, other = SketchAccumulator(statistic), SketchAccumulator(statistic)
    merged.add(first)
    other.add(second)
    merged.merge(other)
    assert np.array_equal(whole, merged.sums)


@given(any_records(3))
def test_a_sketch_of_some_dimensions_is_their_part_of_the_whole(
    records: NDArray[np.float64],
) -> None:
    whole, part = make_statistic(), make_statistic(dimensions=(0, 2))
    sums = count(whole, records)
    expected = [*sums[whole.bins[0]], *sums[whole.bins[2]]]
    assert count(part, records).tolist() == expected
    assert part.identity != whole.identity


def test_levels_are_counted_each_and_what_is_missing_is_not_imputed() -> None:
    statistic = make_statistic(dimensions=(2,))
    records = np.zeros((6, 3))
    records[:, 2] = [0.0, 3.0, 3.0, 4.0, np.nan, 0.5]
    assert count(statistic, records).tolist() == [1, 0, 0, 2, 3]


def check_worst_pair(
    statistic: HistogramStatistic | GridStatistic, sums: NDArray[np.int64]
) -> None:
    """Compare sensitivities with those of all pairs of some records, by what each adds."""
    change = sums[:, None, :] - sums[None, :, :]
    assert statistic.measure_l1("replace-one") == np.abs(change).sum(axis=2).max()
    assert statistic.measure_l2_squared("replace-one") == (change**2).sum(axis=2).max()
    assert statistic.measure_l1("add-remove-one") == np.abs(sums).sum(axis=1).max()
    assert statistic.measure_l2_squared("add-remove-one") == (sums**2).sum(axis=1).max()
    assert (sums.min(), sums.max()) == (statistic.lowest, statistic.highest)


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("bits", [1, 2])
def test_sensitivities_are_those_of_the_worst_pair_of_records(d: int, bits: int) -> None:
    statistic = make_plain(d, bits)
    values = [-32768.0, *range(-32767, 32768, 1 << 12), 32767.0, 32768.0, math.nan]
    records = list(itertools.product(values, repeat=d))
    sums = np.unique([count(statistic, np.array([record], float)) for record in records], axis=0)
    assert len(sums) == (2**bits + 3) ** d
    check_worst_pair(statistic, sums)


def test_only_carried_dimensions_count_in_the_sensitivity() -> None:
    assert make_statistic(dimensions=(0, 2)).measure_l1("replace-one") == 4
    with pytest.raises(PrivacyError, match="replace-one, add-remove-one"):
        make_statistic().measure_l1("both")


@pytest.mark.parametrize(
    ("bits", "dimensions", "field"),
    [
        ((3, 13, 0), None, r"bins_log2\[1\]"),
        ((0, 8, 0), None, r"bins_log2\[0\]"),
        ((3, 8, 2), None, r"bins_log2\[2\]"),
        ((3, 8), None, "bins_log2"),
        ((3, 8, 0), (), "dimensions"),
        ((3, 8, 0), (1, 0), "dimensions"),
        ((3, 8, 0), (1, 1), "dimensions"),
        ((3, 8, 0), (0, 3), "dimensions"),
    ],
)
def test_parts_that_do_not_fit_are_refused(
    bits: tuple[int, ...], dimensions: tuple[int, ...] | None, field: str
) -> None:
    quantiser = Quantiser.from_bounds(*ENCODER.transform_bounds([-1, -1, 0], [1, 1, 0]))
    with pytest.raises(PlanError, match=field):
        HistogramStatistic(
            quantiser=quantiser, bins_log2=bits, encoder=ENCODER, dimensions=dimensions
        )


def test_edges_part_the_bins() -> None:
    statistic = make_statistic()
    for dimension in (0, 1):
        edges = statistic.compute_edges(dimension)
        middles = (edges[1:] + edges[:-1]) / 2
        points = np.zeros((len(middles), 3))
        points[:, dimension] = middles
        data = ENCODER.decode(np.insert(points, 2, 0.0, axis=1)[:, [0, 1, 3, 3, 3, 3]])
        bins = statistic.find_bins(data[:, dimension], dimension)
        assert bins.tolist() == list(range(len(middles)))
    assert (edges[0], edges[-1]) == pytest.approx((-39.863, 39.863), abs=1e-3)


def test_a_sum_holds_as_many_records_as_64_bits_count() -> None:
    assert count_most_records(make_statistic()) == 2**63 - 1
