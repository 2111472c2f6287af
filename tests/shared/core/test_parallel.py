"""Any number of threads and any split give the sum of one accumulator."""

import threading
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from sfumato.shared.core import Columns, FourierStatistic, Records, SketchAccumulator
from sfumato.shared.core.engines import NumpyEngine
from sfumato.shared.core.masks import BLOCK_RECORDS
from sfumato.shared.core.parallel import map_in_order, sketch_batches
from sfumato.shared.errors import ConfigError, RecordError
from tests.shared.core.strategies import make_statistic, record_arrays

WHOLE = make_statistic()
MASKED = make_statistic(measurements_per_record=4)


def make_records(n: int) -> NDArray[np.float64]:
    return np.random.default_rng(1).normal(size=(n, 3))


def require_equal(total: SketchAccumulator, whole: SketchAccumulator) -> None:
    assert total.sums.tolist() == whole.sums.tolist()
    assert (total.n_records, total.n_unsketchable) == (whole.n_records, whole.n_unsketchable)
    assert total.next_record == whole.next_record


@pytest.mark.parametrize("statistic", [WHOLE, MASKED], ids=["whole", "masked"])
@given(
    records=record_arrays(),
    cuts=st.lists(st.integers(0, 40), max_size=8),
    n_threads=st.integers(1, 5),
    first=st.integers(0, 3) | st.integers(BLOCK_RECORDS - 40, BLOCK_RECORDS),
    as_columns=st.booleans(),
)
def test_the_sum_is_that_of_one_accumulator(
    statistic: FourierStatistic,
    records: NDArray[np.float64],
    cuts: list[int],
    n_threads: int,
    first: int,
    as_columns: bool,
) -> None:
    batches: list[Records] = list(np.split(records, sorted(min(c, len(records)) for c in cuts)))
    if as_columns:
        batches = [Columns(tuple(np.asarray(batch).T)) for batch in batches]
    whole = SketchAccumulator(statistic, first_record=first)
    whole.add(records)
    total = sketch_batches(statistic, batches, n_threads=n_threads, first_record=first)
    require_equal(total, whole)


def test_engine_and_threads_change_no_bit_of_many_masked_blocks() -> None:
    records = make_records(2 * BLOCK_RECORDS + 17)
    whole = SketchAccumulator(MASKED)
    whole.add(records)
    batches = np.array_split(records, 7)
    for engine in (None, NumpyEngine()):
        require_equal(sketch_batches(MASKED, batches, n_threads=3, engine=engine), whole)


def test_an_error_of_the_batches_is_raised_and_ends_all_threads() -> None:
    def batches() -> Iterator[Records]:
        yield from (make_records(10) for _ in range(5))
        raise RecordError("is cut short", field="file")

    with pytest.raises(RecordError, match="cut short"):
        sketch_batches(WHOLE, batches(), n_threads=2)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("sketch")]


def test_an_error_of_one_batch_is_raised_and_stops_the_reading() -> None:
    n_taken = 0

    def batches() -> Iterator[Records]:
        nonlocal n_taken
        for i in range(1000):
            n_taken += 1
            yield make_records(4)[:, : 2 if i == 3 else 3]

    with pytest.raises(RecordError, match="must have shape"):
        sketch_batches(WHOLE, batches(), n_threads=2)
    assert n_taken <= 3 + 1 + 2 + 2
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("sketch")]


def test_no_more_batches_are_taken_than_threads_and_two() -> None:
    n_taken, n_given = 0, 0

    def items() -> Iterator[int]:
        nonlocal n_taken
        for i in range(50):
            n_taken += 1
            assert n_taken - n_given <= 3 + 2
            yield i

    for n_given, result in enumerate(map_in_order(lambda i: i * i, items(), n_threads=3), start=1):
        assert result == (n_given - 1) ** 2
    assert n_given == 50


def test_threads_sketch_at_the_same_time() -> None:
    # Each waits for the other: one after the other they would never meet.
    meeting = threading.Barrier(2, timeout=60)
    assert sorted(map_in_order(lambda _: meeting.wait(), range(2), n_threads=2)) == [0, 1]


def test_progress_counts_the_records_summed_so_far() -> None:
    seen: list[int] = []
    sketch_batches(
        WHOLE, [make_records(n) for n in (3, 0, 5)], n_threads=2, on_progress=seen.append
    )
    assert seen == [3, 3, 8]


def test_no_threads_are_refused() -> None:
    with pytest.raises(ConfigError, match="threads: must be at least 1"):
        sketch_batches(WHOLE, [], n_threads=0)
