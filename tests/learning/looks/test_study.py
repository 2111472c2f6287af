"""Measurements from the sums of many sketches, of which each may carry only some clusters."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.learning.estimate.sizes import SizeMoments
from sfumato.learning.estimate.totals import Totals
from sfumato.learning.looks.study import measure_study
from sfumato.shared.core import SketchAccumulator
from sfumato.shared.errors import DecodingError, WrongStatisticError
from sfumato.shared.plan import Dimension, PlanSpec, SketchPlan, WindowRule, create_plan
from sfumato.shared.privacy.testing import SeededSource
from tests.shared.plan.looks import LOOK

Floats = NDArray[np.float64]
N_DEVICES, N_EACH = 40, 500


def make_plan(**changes: object) -> SketchPlan:
    dimensions = tuple(Dimension(name=name, unit="1", lower=-1.0, upper=1.0) for name in "xy")
    spec = PlanSpec(
        dimensions=dimensions,
        statistic="clusters",
        clusters=replace(LOOK, **changes),  # type: ignore[arg-type]
        epsilon=Fraction(1),
        most_records=N_EACH,
        window=WindowRule(kind="count", length=N_EACH),
    )
    return create_plan(spec)


def make_records(seed: int) -> Floats:
    rng = np.random.default_rng(seed)
    x = rng.choice([-0.3, 0.3], N_EACH, p=[0.7, 0.3]) + 0.05 * rng.normal(size=N_EACH)
    y = np.where(rng.random(N_EACH) < 0.2, np.nan, 0.2 * np.sign(x))
    return np.column_stack([x, y])


def add_up(plan: SketchPlan, *, with_noise: bool) -> Totals:
    """Add the sketches of all devices up, as a server does."""
    source, n_blocks = SeededSource(5), plan.blocks.n_blocks
    sums = np.zeros(plan.places.size, dtype=np.int64)
    rows = np.zeros((5, n_blocks), dtype=np.int64)
    for device in range(N_DEVICES):
        block = plan.blocks.choose(ordinal=device, stream="main", turn=0)
        accumulator = SketchAccumulator(plan.statistic_of(b"", block=block))
        accumulator.add(make_records(device))
        noised = accumulator.sums
        if with_noise:
            noised = plan.mechanism.add_noise(noised, source)
        sums[plan.places[block]] += noised
        rows[:, block] += [1, N_EACH, N_EACH**2, N_EACH**3, 0]
    return Totals(
        sums=sums,
        size_sums=np.zeros((2, sums.size), dtype=np.int64),
        moments=SizeMoments.of_rows(rows.tolist()),
    )


@pytest.mark.parametrize("per_sketch", [1, 2])
def test_sketches_of_some_clusters_measure_what_sketches_of_all_do(per_sketch: int) -> None:
    plan = make_plan(clusters_per_sketch=per_sketch)
    assert plan.blocks.n_blocks == 2 // per_sketch
    exact = measure_study(plan, add_up(plan, with_noise=False), is_exact=True)
    records = np.concatenate([make_records(i) for i in range(N_DEVICES)])
    is_left = records[:, 0] < 0
    # Half of the devices carry each cluster: the sampling of devices is an error of its own.
    margin = 0.001 if per_sketch == 2 else 0.02
    assert exact.shares[0] == pytest.approx(is_left.mean(), abs=margin)
    assert exact.n_records == pytest.approx(len(records), rel=margin)
    # Means of y are over the records that have it.
    assert exact.means[:, 1] == pytest.approx([-0.2 * 32767, 0.2 * 32767], abs=200)
    noised = measure_study(plan, add_up(plan, with_noise=True))
    for name in ("shares", "means"):
        away = np.abs(getattr(noised, name) - getattr(exact, name))
        assert (away < 5 * getattr(noised, f"{name}_error")).all()
    assert noised.beyond is not None
    assert exact.beyond is not None
    assert abs(noised.beyond.value - exact.beyond.value) < 5 * noised.beyond.error


def test_clusters_that_no_sketch_carries_and_other_statistics_are_refused() -> None:
    plan = make_plan(clusters_per_sketch=1)
    totals = add_up(plan, with_noise=False)
    few = replace(totals, moments=SizeMoments.of_rows([[3, 0], [9, 0], [9, 0], [9, 0], [0, 0]]))
    with pytest.raises(DecodingError, match="1 of 2 parts"):
        measure_study(plan, few)
    other = create_plan(
        PlanSpec(
            dimensions=plan.dimensions,
            statistic="moments",
            epsilon=Fraction(1),
            most_records=10,
            window=WindowRule(kind="count", length=10),
        )
    )
    with pytest.raises(WrongStatisticError, match="plan look"):
        measure_study(other, totals)
