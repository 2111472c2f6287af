import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from sfumato.shared.core import (
    AMPLITUDE,
    FourierStatistic,
    SketchAccumulator,
    count_most_records,
)
from sfumato.shared.core.masks import BLOCK_RECORDS
from sfumato.shared.errors import RecordError
from tests.shared.core.strategies import (
    BOUNDS,
    N_FREQUENCIES,
    SEED,
    STREAM,
    make_statistic,
    record_arrays,
)
from tests.system.stranger import sketch as stranger

WHOLE = make_statistic()
MASKED = make_statistic(measurements_per_record=4)


def sketch(
    statistic: FourierStatistic, *parts: NDArray[np.floating], first_record: int = 0
) -> SketchAccumulator:
    accumulator = SketchAccumulator(statistic, first_record=first_record)
    for part in parts:
        accumulator.add(part)
    return accumulator


def sum_by_definition(
    statistic: FourierStatistic, records: NDArray[np.floating], first_record: int
) -> list[int]:
    """Follow ``sketch.md`` record by record in Python numbers: slow, and independent."""
    return stranger.add_up(
        records.tolist(),
        *BOUNDS,
        statistic.frequencies.turns.tolist(),
        statistic.frequencies.bits,
        masks=None if statistic.masks is None else stranger.Masks(SEED, STREAM, N_FREQUENCIES, 4),
        first_record=first_record,
    )


@given(record_arrays(8))
def test_sums_are_those_of_the_definition(records: NDArray[np.float64]) -> None:
    assert sketch(WHOLE, records).sums.tolist() == sum_by_definition(WHOLE, records, 0)


@given(record_arrays(8), st.integers(BLOCK_RECORDS - 8, BLOCK_RECORDS))
def test_masked_sums_are_those_of_the_definition_across_blocks(
    records: NDArray[np.float64], first: int
) -> None:
    masked = sketch(MASKED, records, first_record=first)
    assert masked.sums.tolist() == sum_by_definition(MASKED, records, first)


@given(record_arrays(), st.data())
def test_without_masks_order_and_split_are_irrelevant(
    records: NDArray[np.float64], data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(len(records))))
    cut = data.draw(st.integers(0, len(records)))
    shuffled = records[np.array(order, dtype=np.intp)]
    assert np.array_equal(
        sketch(WHOLE, records).sums, sketch(WHOLE, shuffled[:cut], shuffled[cut:]).sums
    )


@given(record_arrays(), record_arrays(), record_arrays())
def test_merging_is_commutative_and_associative_and_equals_the_whole(
    a: NDArray[np.float64], b: NDArray[np.float64], c: NDArray[np.float64]
) -> None:
    left = sketch(WHOLE, a)
    left.merge(sketch(WHOLE, b))
    left.merge(sketch(WHOLE, c))
    inner = sketch(WHOLE, c)
    inner.merge(sketch(WHOLE, b))
    right = sketch(WHOLE)
    right.merge(inner)
    right.merge(sketch(WHOLE, a))
    whole = sketch(WHOLE, np.concatenate([a, b, c]))
    assert np.array_equal(left.sums, right.sums)
    assert np.array_equal(left.sums, whole.sums)
    assert left.n_records == right.n_records == whole.n_records
    assert left.n_unsketchable == right.n_unsketchable == whole.n_unsketchable


@given(record_arrays(), st.integers(0, 3 * BLOCK_RECORDS), st.data())
def test_with_masks_split_points_are_irrelevant(
    records: NDArray[np.float64], first: int, data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(records)))
    whole = sketch(MASKED, records, first_record=first)
    resumed = sketch(MASKED, records[:cut], first_record=first)
    rest = sketch(MASKED, records[cut:], first_record=resumed.next_record)
    resumed.merge(rest)
    assert np.array_equal(whole.sums, resumed.sums)


def test_with_masks_the_counter_decides_the_mask() -> None:
    record = np.array([[0.1, 2.0, 3.0]])
    patterns = {
        tuple(np.flatnonzero(sketch(MASKED, record, first_record=i).sums[:N_FREQUENCIES]))
        for i in range(50)
    }
    assert len(patterns) == 3
    assert all(len(pattern) == 4 for pattern in patterns)


@given(record_arrays())
def test_a_record_that_cannot_be_sketched_keeps_its_place_and_adds_zero(
    records: NDArray[np.float64],
) -> None:
    bad = np.full((1, records.shape[1]), np.nan)
    with_bad = sketch(MASKED, bad, records)
    without = sketch(MASKED, records, first_record=1)
    assert np.array_equal(with_bad.sums, without.sums)
    assert with_bad.n_records == without.n_records + 1
    assert with_bad.n_unsketchable == without.n_unsketchable + 1


def test_large_chunks_do_not_overflow_packed_sums() -> None:
    # 200,000 equal records: every coordinate of the sum is 200,000 times the feature of one.
    record = np.array([[1.0, 10.0, 50.0]])
    one = sketch(WHOLE, record).sums
    many = sketch(WHOLE, np.repeat(record, 200_000, axis=0)).sums
    assert np.array_equal(many, 200_000 * one)


def test_strided_and_single_precision_records_give_the_sums_of_their_values() -> None:
    records = np.random.default_rng(3).normal(size=(50, 6))
    strided = records[::2, ::2]
    single = strided.astype(np.float32)
    assert np.array_equal(sketch(WHOLE, strided).sums, sketch(WHOLE, strided.copy()).sums)
    assert np.array_equal(sketch(WHOLE, single).sums, sketch(WHOLE, single.astype(np.float64)).sums)


def test_the_sketch_approximates_the_average_of_exact_fourier_features() -> None:
    records = np.random.default_rng(4).normal([0.1, 5.0, 0.0], [0.3, 1.0, 9.0], size=(2000, 3))
    records = np.clip(records, [-1, 0, -50], [1, 10, 50])
    sums = sketch(WHOLE, records).sums
    m = N_FREQUENCIES
    integer = (sums[:m] + 1j * sums[m:]) / (AMPLITUDE * len(records))
    omega = WHOLE.frequencies.to_angular(WHOLE.quantiser)
    exact = np.exp(1j * (records - WHOLE.quantiser.centre) @ omega).mean(axis=0)
    assert np.max(np.abs(integer - exact)) < 5e-4


def test_more_records_than_64_bits_can_sum_are_refused_before_anything_is_added() -> None:
    accumulator = sketch(WHOLE, np.zeros((1, 3)))
    accumulator.n_records = count_most_records(WHOLE)
    before = accumulator.sums.copy()
    with pytest.raises(RecordError, match="at most"):
        accumulator.add(np.zeros((1, 3)))
    assert np.array_equal(accumulator.sums, before)


@given(record_arrays(), record_arrays(), st.integers(0, 2 * BLOCK_RECORDS))
def test_a_restored_sum_goes_on_where_it_was_saved(
    before: NDArray[np.float64], after: NDArray[np.float64], first: int
) -> None:
    saved = sketch(MASKED, before, first_record=first)
    restored = SketchAccumulator.restore(
        MASKED,
        first_record=first,
        sums=saved.sums,
        n_records=saved.n_records,
        n_unsketchable=saved.n_unsketchable,
    )
    restored.add(after)
    whole = sketch(MASKED, before, after, first_record=first)
    assert np.array_equal(restored.sums, whole.sums)
    assert (restored.n_records, restored.n_unsketchable, restored.next_record) == (
        whole.n_records,
        whole.n_unsketchable,
        whole.next_record,
    )


def test_a_saved_sum_that_cannot_be_of_this_plan_is_refused() -> None:
    with pytest.raises(RecordError, match="not a sum of this plan"):
        SketchAccumulator.restore(
            WHOLE, first_record=0, sums=np.zeros(3, dtype=np.int64), n_records=0, n_unsketchable=0
        )


def test_sums_of_another_plan_do_not_merge() -> None:
    other = make_statistic()
    narrower = FourierStatistic(
        quantiser=other.quantiser,
        frequencies=type(other.frequencies)(
            turns=other.frequencies.turns[:, :6].copy(), bits=other.frequencies.bits
        ),
    )
    with pytest.raises(RecordError, match="different statistics"):
        sketch(WHOLE).merge(SketchAccumulator(narrower))
