"""Verdicts of looks: how much one more step may gain."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sfumato.learning.answers.clusters import describe_clusters, find_worse
from sfumato.learning.estimate.sizes import SizeMoments
from sfumato.learning.estimate.totals import Totals
from sfumato.learning.looks.design import FirstLook, design_look
from sfumato.shared.core import SketchAccumulator
from sfumato.shared.plan import (
    Dimension,
    PlanSpec,
    RecordSpace,
    WindowRule,
    create_plan,
)
from sfumato.shared.wire.objects.looks import MeasuredClustersBody

SPREAD, N = 0.05, 4000


def look_at(gain: float) -> MeasuredClustersBody:
    """Look, without noise, at centres that are so far off that one step has a given gain."""
    rng = np.random.default_rng(0)
    middles = np.array([-0.5, 0.5])
    noise = rng.normal(scale=SPREAD, size=(N // 2, 2))
    records = (middles + noise - noise.mean(axis=0)).T.reshape(-1, 1)
    away = float(np.sqrt(gain / (1.0 - gain) * np.mean((noise - noise.mean(axis=0)) ** 2)))
    space = RecordSpace(dimensions=(Dimension(name="x", unit="1", lower=-1.0, upper=1.0),))
    part = design_look(
        space,
        FirstLook(
            centres=middles[:, None] + away,
            # Radii and cap that clip no record.
            spreads=np.full((2, 1), 3.0 * SPREAD),
            scale=np.array([SPREAD]),
        ),
        assigned=("x",),
        aim="refine",
        norm="l1",
        neighbouring="replace-one",
    )
    plan = create_plan(
        PlanSpec(
            dimensions=space.dimensions,
            statistic="clusters",
            clusters=part,
            epsilon=Fraction(1),
            most_records=N,
            window=WindowRule(kind="count", length=N),
        )
    )
    summed = SketchAccumulator(plan.statistic_of(b""))
    summed.add(records)
    totals = Totals(
        sums=summed.sums,
        size_sums=np.zeros((2, summed.sums.size), dtype=np.int64),
        moments=SizeMoments.of_sizes([N]),
    )
    return describe_clusters(plan, totals, snapshot_id="0" * 64, is_exact=True)


@pytest.mark.parametrize(
    ("gain", "word"),
    [
        (0.001, "sound"),
        (0.019, "sound"),
        (0.022, "rough"),
        (0.048, "rough"),
        (0.055, "doubtful"),
        (0.14, "doubtful"),
        (0.16, "do not use"),
    ],
)
def test_the_more_a_step_would_gain_the_worse_is_the_verdict(gain: float, word: str) -> None:
    found = look_at(gain)
    assert found.gain is not None
    assert found.gain.value == pytest.approx(gain, rel=0.02, abs=1e-4)
    assert found.verdict.word == word
    assert bool(found.doubts) == (word != "sound")


def test_of_two_verdicts_the_worse_counts() -> None:
    assert find_worse("rough", "sound") == find_worse("sound", "rough") == "rough"
    assert find_worse("do not use", "doubtful") == "do not use"
