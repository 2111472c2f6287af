import itertools
import math
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from sfumato.shared.core import ClustersStatistic, Quantiser, SketchAccumulator
from sfumato.shared.core.engines import NumpyEngine, choose_engine, list_engines
from sfumato.shared.core.statistics.clusters import Norm, Units
from sfumato.shared.errors import PlanError
from tests.system.stranger.columns import clusters_of

Integers = NDArray[np.int64]
STEPS = 32767
SMALL = st.one_of(st.just(0), st.integers(1, 9), st.integers(1, 1 << 15))


def make_statistic(**changes: Any) -> ClustersStatistic:
    """Two clusters on a line of two columns, one unit a step; the second column is summed too."""
    edge = np.full(2, float(STEPS))
    parts: dict[str, Any] = {
        "quantiser": Quantiser.from_bounds(-edge, edge),
        "assigned": (0,),
        "summed": (0, 1),
        "optional": (1,),
        "centres": np.array([[-5], [5]]),
        "weights": np.array([1]),
        "cap": 20,
        "origins": np.array([[-5, 0], [5, 0]]),
        "radii": np.array([[3, 4], [5, 2]]),
        "units": Units(residual=4, count=2, square=3, beyond=1, presence=1, total=2),
        "norm": "l2",
        "candidates": np.array([[[-1], [1]]]),
    }
    return ClustersStatistic(**(parts | changes))


@st.composite
def any_statistics(draw: st.DrawFn) -> ClustersStatistic:
    n, k = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    assigned = sorted(draw(st.sets(st.integers(0, n - 1), min_size=1)))
    summed = sorted(draw(st.sets(st.integers(0, n - 1))))
    optional = tuple(i for i in summed if i not in assigned and draw(st.booleans()))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    d, e, c = len(assigned), len(summed), draw(st.integers(0, 2))
    reach = draw(st.sampled_from([3, 300, STEPS]))
    edge = np.full(n, float(STEPS))
    return ClustersStatistic(
        quantiser=Quantiser.from_bounds(-edge, edge),
        assigned=tuple(assigned),
        summed=tuple(summed),
        optional=optional,
        centres=rng.integers(-reach, reach + 1, size=(k, d)),
        weights=rng.integers(1, draw(st.sampled_from([2, 1 << 28])), size=d),
        cap=draw(st.sampled_from([1, 7, reach**2, (1 << 48) - 1])),
        origins=rng.integers(-reach, reach + 1, size=(k, e)),
        radii=rng.integers(1, 2 * reach + 1, size=(k, e)),
        units=Units(
            residual=draw(st.integers(1, 1 << 15)) if e else 0,
            count=draw(st.integers(1, 1 << 15)),
            square=draw(SMALL),
            beyond=draw(SMALL),
            presence=draw(st.integers(1, 99)) if optional else 0,
            total=draw(SMALL),
        ),
        norm=draw(st.sampled_from(["l1", "l2"])),
        candidates=rng.integers(-reach, reach + 1, size=(c, k, d)),
    )


def list_records(n: int) -> st.SearchStrategy[list[list[float]]]:
    value = st.one_of(
        st.integers(-9, 9).map(float),
        st.integers(-STEPS - 9, STEPS + 9).map(float),
        st.sampled_from([math.nan, math.inf, -math.inf]),
    )
    return st.lists(st.lists(value, min_size=n, max_size=n), max_size=6)


def add(statistic: ClustersStatistic, records: Any, engine: str = "numpy") -> tuple[list[int], int]:
    accumulator = SketchAccumulator(statistic, engine=choose_engine(engine))
    accumulator.add(np.array(records, dtype=float).reshape(-1, statistic.quantiser.n_dimensions))
    return accumulator.sums.tolist(), accumulator.n_unsketchable


def describe(statistic: ClustersStatistic) -> dict[str, Any]:
    return vars(statistic) | {
        "units": asdict(statistic.units),
        "centres": statistic.centres.tolist(),
        "weights": statistic.weights.tolist(),
        "origins": statistic.origins.tolist(),
        "radii": statistic.radii.tolist(),
        "candidates": statistic.candidates.tolist(),
    }


@given(any_statistics(), st.data())
def test_records_add_what_the_definition_says(
    statistic: ClustersStatistic, data: st.DataObject
) -> None:
    records = data.draw(list_records(statistic.quantiser.n_dimensions))
    steps = [
        [max(-STEPS, min(STEPS, int(x))) if math.isfinite(x) else None for x in record]
        for record in records
    ]
    clusters = range(statistic.n_clusters)
    expected = [clusters_of(each, describe(statistic), clusters) for each in steps]
    total = [sum(column) for column in zip(*expected, strict=True)]
    lost = sum(any(each[i] is None for i in statistic.assigned) for each in steps)
    for engine in [*list_engines()[:1], "numpy"]:
        assert add(statistic, records, engine) == (total or [0] * statistic.n_coordinates, lost)
    for row in expected:
        assert statistic.lowest <= min(row)
        assert max(row) <= statistic.highest


@given(any_statistics(), st.data())
def test_a_sketch_of_some_clusters_carries_their_blocks_and_all_totals(
    statistic: ClustersStatistic, data: st.DataObject
) -> None:
    records = data.draw(list_records(statistic.quantiser.n_dimensions))
    clusters = range(statistic.n_clusters)
    carried = tuple(sorted(data.draw(st.sets(st.sampled_from(clusters), min_size=1))))
    sums = np.array(add(statistic, records)[0])
    blocks = sums[: statistic.n_clusters * statistic.block_size].reshape(statistic.n_clusters, -1)
    totals = sums[blocks.size :].tolist()
    for engine in [*list_engines()[:1], "numpy"]:
        part = add(replace(statistic, carried=carried), records, engine)[0]
        assert part == [*blocks[list(carried)].ravel().tolist(), *totals]


@given(any_statistics(), st.integers(0, 1000))
def test_clipped_residuals_have_at_most_the_length_of_the_unit(
    statistic: ClustersStatistic, seed: int
) -> None:
    rng, e = np.random.default_rng(seed), len(statistic.summed)
    away = rng.integers(-2 * STEPS, 2 * STEPS + 1, size=(50, e)) >> rng.integers(
        0, 16, size=(50, e)
    )
    clipped, _ = statistic.clip(away, rng.integers(1, 2 * STEPS, size=(50, e)))
    power = 1 if statistic.norm == "l1" else 2
    assert ((np.abs(clipped) ** power).sum(axis=1) <= statistic.units.residual**power).all()
    assert (clipped * away >= 0).all()


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize(
    "units",
    [
        Units(residual=4, count=2, square=3, beyond=1, presence=1, total=2),
        Units(residual=5, count=1, square=1, presence=1),
        Units(residual=5, count=4, square=4, beyond=2, presence=2),
        Units(residual=5, count=5, total=3),
    ],
)
def test_no_pair_of_records_is_further_apart_than_the_sensitivity(norm: Norm, units: Units) -> None:
    statistic = make_statistic(norm=norm, units=units, optional=(1,) if units.presence else ())
    values = [*range(-12, 13), math.nan]
    sums = np.array([add(statistic, [pair])[0] for pair in itertools.product(values, repeat=2)])
    sums = np.unique(sums, axis=0)  # with that of an unusable record, which is zero
    power = 1 if norm == "l1" else 2
    alone = int((np.abs(sums) ** power).sum(axis=1).max())
    apart = max(int((np.abs(sums - row) ** power).sum(axis=1).max()) for row in sums)
    measure = statistic.measure_l1 if norm == "l1" else statistic.measure_l2_squared
    assert alone <= measure("add-remove-one")
    assert apart <= measure("replace-one")
    # Not larger than need be: what keeps a pair from it is that no square is largest where a
    # residual is.
    assert alone > 0.7 * measure("add-remove-one")
    assert apart > 0.7 * measure("replace-one")


def test_under_replace_one_a_small_count_and_square_cost_nothing_in_l2() -> None:
    units = Units(residual=100, count=60, square=60)
    statistic = make_statistic(units=units, optional=())
    assert statistic.measure_l2_squared("replace-one") == 4 * 100**2 + 60**2
    alone = make_statistic(units=Units(residual=100, count=1), optional=())
    assert alone.measure_l2_squared("replace-one") == 4 * 100**2


def test_candidates_cost_one_unit_each_in_l1_under_either_relation() -> None:
    units = Units(residual=0, count=1, total=5)
    statistic = make_statistic(
        units=units,
        summed=(),
        optional=(),
        origins=np.zeros((2, 0), int),
        radii=np.zeros((2, 0), int),
        norm="l1",
    )
    assert statistic.measure_l1("add-remove-one") == 1 + 2 * 5
    assert statistic.measure_l1("replace-one") == 2 + 2 * 5


def test_of_equally_near_centres_the_first_takes_a_record() -> None:
    sums, _ = add(make_statistic(units=Units(residual=4, count=1), optional=()), [[0.0, 0.0]])
    assert [sums[0], sums[3]] == [1, 0]


@pytest.mark.parametrize("engine", list_engines())
def test_many_records_add_the_same_with_every_engine(engine: str) -> None:
    rng = np.random.default_rng(0)
    edge = np.full(7, 9.0)
    statistic = ClustersStatistic(
        quantiser=Quantiser.from_bounds(-edge, edge),
        assigned=(0, 1, 2, 3),
        summed=(1, 3, 4, 5, 6),
        optional=(5,),
        centres=rng.integers(-STEPS, STEPS, size=(9, 4)),
        weights=rng.integers(1, 1000, size=4),
        cap=10**12,
        origins=rng.integers(-STEPS, STEPS, size=(9, 5)),
        radii=rng.integers(1, STEPS, size=(9, 5)),
        units=Units(residual=1 << 12, count=500, square=500, beyond=3, presence=4, total=5),
        norm="l1",
        candidates=rng.integers(-STEPS, STEPS, size=(3, 9, 4)),
    )
    records = rng.normal(scale=4.0, size=(70_000, 7))
    records[rng.random(records.shape) < 0.01] = np.nan
    accumulators = [
        SketchAccumulator(statistic, engine=each) for each in (NumpyEngine(), choose_engine(engine))
    ]
    for each in accumulators:
        each.add(records)
    assert np.array_equal(accumulators[0].sums, accumulators[1].sums)
    assert accumulators[0].n_unsketchable == accumulators[1].n_unsketchable > 0


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"centres": np.array([[-5], [40_000]])}, "centres"),
        ({"origins": np.array([[0, 0], [-40_000, 0]])}, "origins"),
        ({"radii": np.array([[0, 1], [1, 1]])}, "radii"),
        ({"radii": np.ones((2, 1), int)}, "radii"),
        ({"weights": np.array([0])}, "weights"),
        ({"weights": np.array([1 << 31])}, "weights"),
        ({"cap": 0}, "cap"),
        ({"cap": 1 << 62}, "cap"),
        ({"units": Units(residual=0, count=1)}, "units.residual"),
        ({"units": Units(residual=1, count=0)}, "units.count"),
        ({"units": Units(residual=1, count=1, square=(1 << 15) + 1)}, "units.square"),
        ({"candidates": np.zeros((65, 2, 1), int)}, "candidates"),
    ],
)
def test_a_parameter_outside_its_range_is_refused(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(PlanError) as caught:
        make_statistic(**changes)
    assert caught.value.field == f"statistic.{field}"
