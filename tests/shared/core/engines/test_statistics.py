"""Every engine adds what the NumPy engine adds to each statistic, whatever the input."""

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from sfumato.shared.core import (
    ClustersStatistic,
    Columns,
    DimensionEncoding,
    GridStatistic,
    HistogramStatistic,
    MomentsStatistic,
    Quantiser,
    RecordEncoder,
    Records,
    SketchAccumulator,
    Statistic,
)
from sfumato.shared.core.engines import NumpyEngine, SketchEngine, choose_engine, list_engines
from sfumato.shared.core.statistics.clusters import Units
from sfumato.shared.core.statistics.histogram import MOST_BINS_LOG2
from sfumato.shared.errors import RecordError
from tests.shared.core.engines.test_engines import list_layouts

ENGINES = list_engines()
LIMITS = st.one_of(st.floats(-1e3, 1e3), st.floats(-1e-3, 1e-3))


def make_box(d: int, draw: st.DataObject) -> Quantiser:
    centre = draw.draw(hnp.arrays(np.float64, d, elements=LIMITS))
    half_width = draw.draw(hnp.arrays(np.float64, d, elements=st.floats(1e-6, 1e6)))
    return Quantiser(centre=centre, half_width=half_width)


def make_histogram(d: int, draw: st.DataObject) -> HistogramStatistic:
    encodings = [
        draw.draw(
            st.sampled_from(
                [
                    DimensionEncoding(),
                    DimensionEncoding(resolution=draw.draw(st.floats(1e-310, 1e10))),
                    DimensionEncoding(n_levels=draw.draw(st.integers(1, 6))),
                ]
            )
        )
        for _ in range(d)
    ]
    bits = [
        0 if e.n_levels is not None else draw.draw(st.integers(1, MOST_BINS_LOG2))
        for e in encodings
    ]
    carried = draw.draw(st.sets(st.integers(0, d - 1), min_size=1))
    return HistogramStatistic(
        quantiser=make_box(d, draw),
        bins_log2=tuple(bits),
        encoder=RecordEncoder(dimensions=tuple(encodings)),
        dimensions=tuple(sorted(carried)),
    )


def make_grid(d: int, draw: st.DataObject) -> GridStatistic:
    d = min(d, 4)
    cells = draw.draw(st.lists(st.integers(1, 22), min_size=d, max_size=d))
    return GridStatistic(quantiser=make_box(d, draw), cells=tuple(cells))


def make_moments(d: int, draw: st.DataObject) -> MomentsStatistic:
    return MomentsStatistic(
        quantiser=make_box(d, draw),
        norm_steps=draw.draw(st.integers(1, math.isqrt(2047**2 * d))),
        diagonal_weight=draw.draw(st.sampled_from([5, 7])),
    )


MAKERS = (make_histogram, make_grid, make_moments)


def make_records(n: int, d: int, seed: int) -> NDArray[np.float64]:
    """Records of every size, levels, zeros, edges, and some values that are missing."""
    generator = np.random.default_rng(seed)
    records = generator.normal(size=(n, d)) * 10.0 ** generator.uniform(-8, 8, size=(n, d))
    kind = generator.random((n, d))
    records[kind < 0.3] = generator.integers(-1, 8, size=(n, d))[kind < 0.3]
    odd = np.array([math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, -0.0])
    records[kind > 0.95] = generator.choice(odd, size=(n, d))[kind > 0.95]
    return records


def add(engine: SketchEngine, statistic: Statistic, records: Records) -> tuple[list[int], int]:
    accumulator = SketchAccumulator(statistic, engine=engine)
    accumulator.add(records)
    return accumulator.sums.tolist(), accumulator.n_unsketchable


def require_equal(engine: str, statistic: Statistic, records: Records) -> None:
    expected = add(NumpyEngine(), statistic, records)
    assert add(choose_engine(engine), statistic, records) == expected


@pytest.mark.parametrize("engine", ENGINES[:1])
@pytest.mark.parametrize("make", MAKERS)
@settings(deadline=None)
@given(d=st.integers(1, 9), n=st.integers(0, 600), draw=st.data())
def test_sums_are_those_of_the_numpy_engine_for_any_shape(
    engine: str, make: type, d: int, n: int, draw: st.DataObject
) -> None:
    statistic = make(d, draw)
    records = make_records(n, statistic.quantiser.n_dimensions, n)
    require_equal(engine, statistic, records)


@pytest.mark.parametrize("engine", ENGINES[:1])
@settings(deadline=None)
@given(
    values=st.lists(st.floats(width=64), max_size=50),
    resolution=st.floats(5e-324, 1.7e308, allow_subnormal=True),
)
def test_logarithmic_bins_of_any_double_are_those_of_the_numpy_engine(
    engine: str, values: list[float], resolution: float
) -> None:
    for half_width in (1.0, 64.0, 1100.0):
        statistic = HistogramStatistic(
            quantiser=Quantiser(centre=np.zeros(1), half_width=np.full(1, half_width)),
            bins_log2=(MOST_BINS_LOG2,),
            encoder=RecordEncoder(dimensions=(DimensionEncoding(resolution=resolution),)),
        )
        require_equal(engine, statistic, np.array(values).reshape(-1, 1))


def make_clusters(quantiser: Quantiser, encoder: RecordEncoder) -> ClustersStatistic:
    rng, d = np.random.default_rng(5), quantiser.n_dimensions
    return ClustersStatistic(
        quantiser=quantiser,
        assigned=(0, d - 1),
        summed=tuple(range(1, d)),
        optional=tuple(range(1, d - 1)),
        centres=rng.integers(-30_000, 30_000, size=(5, 2)),
        weights=np.array([3, 7]),
        cap=10**9,
        origins=rng.integers(-30_000, 30_000, size=(5, d - 1)),
        radii=rng.integers(1, 20_000, size=(5, d - 1)),
        units=Units(residual=4096, count=512, square=512, beyond=64, presence=64, total=64),
        norm="l2",
        candidates=rng.integers(-30_000, 30_000, size=(2, 5, 2)),
        encoder=encoder,
    )


def make_all(d: int) -> list[Statistic]:
    quantiser = Quantiser(centre=np.linspace(-1, 1, d), half_width=np.full(d, 3.0))
    encoder = RecordEncoder(dimensions=(DimensionEncoding(resolution=0.25),) * d)
    return [
        HistogramStatistic(quantiser=quantiser, bins_log2=(5,) * d),
        HistogramStatistic(quantiser=quantiser, bins_log2=(9,) * d, encoder=encoder),
        GridStatistic(quantiser=quantiser, cells=tuple(range(3, 3 + d)), encoder=encoder),
        MomentsStatistic(quantiser=quantiser, norm_steps=1500),
        MomentsStatistic(quantiser=quantiser, norm_steps=1501, encoder=encoder),
        make_clusters(quantiser, encoder),
    ]


@pytest.mark.parametrize("engine", ENGINES[:1])
def test_the_layout_of_records_in_memory_is_irrelevant(engine: str) -> None:
    records = make_records(700, 4, 9)
    for statistic in make_all(4):
        expected = add(NumpyEngine(), statistic, records)
        for layout in list_layouts(records):
            assert add(choose_engine(engine), statistic, layout) == expected


@pytest.mark.parametrize("engine", ENGINES[:1])
def test_single_precision_counts_as_the_doubles_it_converts_to(engine: str) -> None:
    with np.errstate(over="ignore"):
        single = make_records(300, 3, 2).astype(np.float32)
    mixed = Columns((single[:, 0], single[:, 1].astype(np.float64), single[:, 2]))
    for statistic in make_all(3):
        expected = add(NumpyEngine(), statistic, single.astype(np.float64))
        for records in (single, single[::-1][::-1], mixed):
            assert add(choose_engine(engine), statistic, records) == expected


@pytest.mark.parametrize("engine", ENGINES[:1])
def test_threads_do_not_disturb_each_other(engine: str) -> None:
    records = make_records(40_000, 3, 4)
    parts = [records[start : start + 5000] for start in range(0, 40_000, 5000)]
    chosen = choose_engine(engine)
    for statistic in make_all(3):
        with ThreadPoolExecutor(4) as pool:
            sums = pool.map(lambda part, s=statistic: add(chosen, s, part)[0], parts)
            assert np.sum(list(sums), axis=0).tolist() == add(NumpyEngine(), statistic, records)[0]


@pytest.mark.parametrize("engine", list(dict.fromkeys((ENGINES[0], "numpy"))))
@pytest.mark.parametrize(
    "records",
    [np.zeros((3, 4)), np.zeros(3), np.zeros((3, 3), dtype=np.int64), Columns((np.zeros(3),))],
)
def test_records_of_another_shape_or_type_are_refused_and_add_nothing(
    engine: str, records: Records
) -> None:
    for statistic in make_all(3):
        accumulator = SketchAccumulator(statistic, engine=choose_engine(engine))
        with pytest.raises(RecordError, match=r"shape|float32"):
            accumulator.add(records)
        assert accumulator.n_records == 0
        assert not accumulator.sums.any()


@pytest.mark.parametrize("engine", ENGINES[:1])
def test_many_dimensions_add_the_same(engine: str) -> None:
    quantiser = Quantiser.from_bounds(np.full(120, -2.0), np.full(120, 2.0))
    records = np.random.default_rng(0).normal(size=(500, 120))
    require_equal(engine, MomentsStatistic(quantiser=quantiser, norm_steps=9000), records)
    require_equal(engine, HistogramStatistic(quantiser=quantiser, bins_log2=(4,) * 120), records)
