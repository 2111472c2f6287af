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
    Quantiser,
    RecordEncoder,
    SketchAccumulator,
)
from sfumato.shared.errors import PlanError
from tests.shared.core.statistics.test_histogram import check_worst_pair
from tests.system.stranger import columns, sketch


def make_statistic(*cells: int) -> GridStatistic:
    """One unit a quantisation step."""
    edge = [32767.0] * len(cells)
    quantiser = Quantiser.from_bounds([-value for value in edge], edge)
    return GridStatistic(quantiser=quantiser, cells=cells)


def count(statistic: GridStatistic, *parts: NDArray[np.floating]) -> NDArray[np.int64]:
    accumulator = SketchAccumulator(statistic)
    for part in parts:
        accumulator.add(part)
    assert accumulator.n_unsketchable == 0
    return accumulator.sums


any_grid = st.lists(st.integers(1, 20), min_size=1, max_size=4).map(tuple)


@given(any_grid, st.data())
def test_a_record_falls_in_the_cell_of_its_definition(
    cells: tuple[int, ...], data: st.DataObject
) -> None:
    values = st.one_of(st.floats(width=64), st.floats(-33000, 33000))
    record = data.draw(st.lists(values, min_size=len(cells), max_size=len(cells)))
    sums = count(make_statistic(*cells), np.array([record]))
    edges = [32767.0] * len(cells)
    steps = sketch.quantise(record, [-edge for edge in edges], edges)
    assert np.flatnonzero(sums).tolist() == [columns.find_cell(steps, cells)]


@pytest.mark.parametrize("m", [1, 2, 3, 255, 256, 512, 1 << 18])
def test_cells_of_one_dimension_are_entered_in_order_and_hold_as_many_steps(m: int) -> None:
    statistic = make_statistic(m)
    steps = np.arange(-32767, 32768, dtype=np.int16)[:, None]
    cells = statistic.find_cells(steps, np.ones(len(steps), dtype=bool))
    assert (cells[0], cells[-1]) == (0, (65534 * m) // 65535)
    assert (np.diff(cells) >= 0).all()
    if m <= 65535:
        sizes = np.bincount(cells, minlength=m)
        assert sizes.max() - sizes.min() <= 1


@given(
    hnp.arrays(np.float64, (20, 2), elements=st.floats(width=64)),
    st.integers(0, 20),
)
def test_order_and_split_change_no_bit_and_every_record_is_counted(
    records: NDArray[np.float64], cut: int
) -> None:
    statistic = make_statistic(5, 7)
    sums = count(statistic, records)
    assert np.array_equal(sums, count(statistic, records[cut:][::-1], records[:cut]))
    assert sums.sum() == len(records)


def test_the_corners_of_the_box_and_beyond_are_the_outermost_cells() -> None:
    statistic = make_statistic(3, 4)
    corners = np.array([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]])
    for size in (32767.0, 1e300):
        assert np.flatnonzero(count(statistic, corners * size)).tolist() == [0, 3, 8, 11]


def test_sensitivities_are_those_of_the_worst_pair_of_records() -> None:
    statistic = make_statistic(2, 3)
    values = [-40000.0, -20000.0, 0.0, 1000.0, 20000.0, math.nan]
    sums = np.array(
        [count(statistic, np.array([pair])) for pair in itertools.product(values, values)]
    )
    check_worst_pair(statistic, sums)


def test_missing_values_are_imputed_where_the_plan_says_so() -> None:
    encoder = RecordEncoder(dimensions=(DimensionEncoding(imputed=9.5), DimensionEncoding()))
    statistic = GridStatistic(
        quantiser=Quantiser.from_bounds([0.0, 0.0], [10.0, 10.0]), cells=(10, 2), encoder=encoder
    )
    records = np.array([[np.nan, 1.0], [1.5, np.nan]])
    assert np.flatnonzero(count(statistic, records)).tolist() == [18, 20]


@pytest.mark.parametrize(
    ("cells", "d", "field"),
    [
        ((2,) * 5, 5, "at most 4 coordinates"),
        ((2, 0), 2, "statistic.cells"),
        ((2, 2), 3, "statistic.cells"),
        ((1 << 9, 1 << 10), 2, "product of at most"),
    ],
)
def test_impossible_grids_are_refused(cells: tuple[int, ...], d: int, field: str) -> None:
    quantiser = Quantiser.from_bounds([-1.0] * d, [1.0] * d)
    with pytest.raises(PlanError, match=field):
        GridStatistic(quantiser=quantiser, cells=cells)
