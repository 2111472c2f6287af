"""Every engine computes the integers of the NumPy engine, whatever the shape of the input."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from sfumato.shared.core import (
    Columns,
    FourierStatistic,
    FrequencyMatrix,
    MaskSchedule,
    Quantiser,
    Records,
    SketchAccumulator,
)
from sfumato.shared.core.engines import (
    NumpyEngine,
    SketchEngine,
    choose_engine,
    default_engine,
    list_engines,
)
from sfumato.shared.core.masks import BLOCK_RECORDS
from sfumato.shared.errors import ConfigError, RecordError

# "numpy" stays in the list, so that something runs where the kernel was not compiled.
ENGINES = list_engines()


def make_statistic(
    d: int, m: int, *, r: int | None = None, bits: int = 20, seed: int = 0
) -> FourierStatistic:
    """A statistic of any frequencies, the extremes of a 16-bit number among them."""
    generator = np.random.default_rng(seed)
    turns = generator.integers(-32767, 32768, size=(d, m)).astype(np.int16)
    turns[generator.random((d, m)) < 0.1] = 32767
    turns[generator.random((d, m)) < 0.1] = -32767
    masks = None
    if r is not None:
        masks = MaskSchedule.from_seed(
            bytes(32), b"stream", n_frequencies=m, measurements_per_record=r
        )
    centre = generator.normal(size=d)
    return FourierStatistic(
        quantiser=Quantiser(centre=centre, half_width=generator.uniform(0.5, 3.0, d)),
        frequencies=FrequencyMatrix(turns=turns, bits=bits),
        masks=masks,
    )


def make_records(n: int, d: int, seed: int) -> NDArray[np.float64]:
    """Records inside and far outside the box, at its edges, and some that cannot be sketched."""
    generator = np.random.default_rng(seed)
    records = generator.normal(0.0, 3.0, size=(n, d))
    odd = generator.random((n, d))
    records[odd < 0.02] = 1e300
    records[(odd > 0.02) & (odd < 0.04)] = -1e300
    if n:
        records[generator.integers(n), generator.integers(d)] = generator.choice(
            [np.nan, np.inf, -np.inf, 0.0]
        )
    return records


def sketch(
    engine: SketchEngine, statistic: FourierStatistic, records: Records, first_record: int = 0
) -> tuple[list[int], int]:
    accumulator = SketchAccumulator(statistic, first_record=first_record, engine=engine)
    accumulator.add(records)
    return accumulator.sums.tolist(), accumulator.n_unsketchable


def require_equal(
    engine: str, statistic: FourierStatistic, records: Records, first_record: int = 0
) -> None:
    expected = sketch(NumpyEngine(), statistic, records, first_record)
    assert sketch(choose_engine(engine), statistic, records, first_record) == expected


@pytest.mark.parametrize("engine", ENGINES)
@settings(deadline=None)
@given(
    n=st.integers(0, 200),
    d=st.one_of(st.integers(1, 20), st.integers(21, 300)),
    m=st.integers(1, 70),
    bits=st.integers(16, 32),
    seed=st.integers(0, 1000),
)
def test_sums_are_those_of_the_numpy_engine_for_any_shape(
    engine: str, n: int, d: int, m: int, bits: int, seed: int
) -> None:
    require_equal(engine, make_statistic(d, m, bits=bits, seed=seed), make_records(n, d, seed))


@pytest.mark.parametrize("engine", ENGINES)
@settings(deadline=None)
@given(
    n=st.integers(0, 300),
    d=st.integers(1, 30),
    r=st.integers(1, 20),
    groups=st.integers(2, 9),
    first=st.integers(BLOCK_RECORDS - 200, 2 * BLOCK_RECORDS),
)
def test_masked_sums_are_those_of_the_numpy_engine(
    engine: str, n: int, d: int, r: int, groups: int, first: int
) -> None:
    statistic = make_statistic(d, r * groups, r=r, seed=n)
    require_equal(engine, statistic, make_records(n, d, first), first)


@pytest.mark.parametrize("engine", ENGINES)
def test_many_records_add_the_same_across_chunks_and_blocks_of_masks(engine: str) -> None:
    records = make_records(70_001, 3, 5)
    require_equal(engine, make_statistic(3, 24), records)
    require_equal(engine, make_statistic(3, 24, r=4), records, 60_000)


@pytest.mark.parametrize("engine", ENGINES)
def test_each_of_the_65536_phases_gives_its_feature(engine: str) -> None:
    # All phases as features of one record, so that none can hide in a sum; half a turn by step 2.
    turns = np.arange(-32767, 32768, dtype=np.int16)[None, :]
    statistic = FourierStatistic(
        quantiser=Quantiser.from_bounds([-32767.0], [32767.0]),
        frequencies=FrequencyMatrix(turns=turns, bits=16),
    )
    for value in (1.0, -1.0, 2.0, 32767.0):
        require_equal(engine, statistic, np.array([[value]]))


def list_layouts(records: NDArray[np.float64]) -> list[Records]:
    """Return the same records in every way that they may lie in memory."""
    n, d = records.shape
    wide = np.zeros((2 * n, 2 * d))
    wide[::2, ::2] = records
    raw = np.zeros(records.nbytes + 1, dtype=np.uint8)
    unaligned = raw[1:].view(np.float64).reshape(records.shape)
    unaligned[:] = records
    backwards = records[::-1].copy()[::-1]
    columns = Columns(tuple(np.asfortranarray(records).T))
    return [np.asfortranarray(records), wide[::2, ::2], unaligned, backwards, columns]


@pytest.mark.parametrize("engine", ENGINES)
def test_the_layout_of_records_in_memory_is_irrelevant(engine: str) -> None:
    statistic = make_statistic(5, 33)
    records = make_records(131, 5, 9)
    for layout in list_layouts(records):
        require_equal(engine, statistic, layout)
        assert sketch(choose_engine(engine), statistic, layout) == sketch(
            NumpyEngine(), statistic, records
        )


@pytest.mark.parametrize("engine", ENGINES)
def test_single_precision_counts_as_the_doubles_it_converts_to(engine: str) -> None:
    with np.errstate(over="ignore"):
        single = make_records(77, 4, 2).astype(np.float32)
    statistic = make_statistic(4, 20)
    require_equal(engine, statistic, single)
    require_equal(engine, statistic, single[::3])
    mixed = Columns((single[:, 0], single[:, 1].astype(np.float64), single[:, 2], single[:, 3]))
    assert sketch(choose_engine(engine), statistic, mixed) == sketch(
        NumpyEngine(), statistic, single
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_the_largest_phases_wrap_as_they_should(engine: str) -> None:
    turns = np.full((300, 5), 32767, dtype=np.int16)
    turns[:, 1] = -32767
    statistic = FourierStatistic(
        quantiser=Quantiser.from_bounds(np.full(300, -1.0), np.full(300, 1.0)),
        frequencies=FrequencyMatrix(turns=turns, bits=32),
    )
    require_equal(engine, statistic, np.array([[1.0] * 300, [-1.0] * 300, [1e9] * 300]))


@pytest.mark.parametrize("engine", ENGINES)
def test_halves_round_to_even(engine: str) -> None:
    statistic = FourierStatistic(
        quantiser=Quantiser.from_bounds([-32767.0], [32767.0]),
        frequencies=FrequencyMatrix(turns=np.array([[7919]], dtype=np.int16), bits=24),
    )
    for value in (0.5, 1.5, 2.5, -0.5, -1.5, 32766.5, -32766.5, 0.49999999999999994):
        require_equal(engine, statistic, np.array([[value]]))


@pytest.mark.parametrize("engine", ENGINES)
def test_threads_that_share_an_operator_do_not_disturb_each_other(engine: str) -> None:
    statistic = make_statistic(6, 100, r=20)
    records = make_records(40_000, 6, 4)
    parts = [(start, records[start : start + 5000]) for start in range(0, 40_000, 5000)]
    chosen = choose_engine(engine)
    whole, _ = sketch(chosen, statistic, records)
    with ThreadPoolExecutor(4) as pool:
        sums = pool.map(lambda part: sketch(chosen, statistic, part[1], part[0])[0], parts)
        assert np.sum(list(sums), axis=0).tolist() == whole


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("records", "rule"),
    [
        (np.zeros((3, 4)), "shape"),
        (np.zeros(3), "shape"),
        (np.zeros((3, 3), dtype=np.int64), "float32 or float64"),
        (np.zeros((3, 3), dtype=">f8"), "float32 or float64"),
        (Columns((np.zeros(3), np.zeros(3))), "shape"),
        (Columns((np.zeros(3), np.zeros(3), np.zeros(4))), "length"),
    ],
)
def test_records_of_another_shape_or_type_are_refused_and_add_nothing(
    engine: str, records: Records, rule: str
) -> None:
    accumulator = SketchAccumulator(make_statistic(3, 8), engine=choose_engine(engine))
    with pytest.raises(RecordError, match=rule):
        accumulator.add(records)
    assert accumulator.n_records == 0
    assert not accumulator.sums.any()


def test_the_default_is_the_fastest_engine_of_the_machine() -> None:
    assert default_engine().name == list_engines()[0]
    assert choose_engine(None).name == choose_engine("").name == list_engines()[0]


@pytest.mark.parametrize("choice", ["fast", "native:", "native:mmx", "numpy:avx2", "Native"])
def test_an_engine_that_is_not_there_is_refused_with_those_that_are(choice: str) -> None:
    with pytest.raises(ConfigError, match="numpy"):
        choose_engine(choice)


@pytest.mark.parametrize("engine", ENGINES)
def test_more_groups_than_records_add_the_same(engine: str) -> None:
    require_equal(engine, make_statistic(3, 1000, r=1), make_records(20, 3, 0))


@pytest.mark.parametrize("name", ENGINES)
def test_each_engine_can_be_chosen_by_its_name(name: str) -> None:
    assert choose_engine(name).name == name
