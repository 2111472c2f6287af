"""Selections whose errors are unknown are refused by name."""

from dataclasses import replace
from typing import Any

import pytest

from sfumato.learning.estimate.weights import Weights
from sfumato.learning.insight.selection import average, require_supported
from sfumato.shared.errors import DecodingError, WrongStatisticError
from sfumato.shared.plan import Dimension, WindowRule
from tests.learning.insight.drawing import Fleet, make_plan

PHASES: dict[str, Any] = {
    "release": "phase.v1",
    "mechanism": None,
    "window": WindowRule(kind="time", length_s=60),
    "frequencies_per_sketch": 4,
    "most_records": 1,
}
DEVICES = {"unit": "device", "window": WindowRule(kind="time", length_s=60)}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"mechanism": "discrete-laplace", "measurements_per_record": 10}, "measurements_per"),
        (PHASES, "release"),
        (DEVICES, "unit"),
    ],
)
def test_plans_with_other_errors_are_refused(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(DecodingError, match=field):
        require_supported(make_plan(**changes))


def test_other_statistics_are_refused() -> None:
    x = Dimension(name="x", unit="1", lower=-20.0, upper=20.0)
    plan = make_plan(None, "discrete-laplace", statistic="histogram", seed=None, dimensions=(x,))
    with pytest.raises(WrongStatisticError):
        require_supported(plan)


def test_a_selection_without_a_sketch_of_some_block_is_refused() -> None:
    plan = make_plan(40, frequencies_per_sketch=10)
    fleet = Fleet(plan, 1)
    assert average(plan, fleet.draw(500, 4)).n_sketches == 4
    with pytest.raises(DecodingError, match="each of the 4 blocks"):
        average(plan, fleet.draw(500, 3))


def test_weights_that_need_sizes_are_refused_without() -> None:
    plan = make_plan()
    drawn = replace(Fleet(plan, 1).draw(500, 2), weights=Weights(a=0.0, b=1.0))
    with pytest.raises(DecodingError, match="sizes: must list the 2 sketches"):
        average(plan, drawn)
    # Many sketches have Gaussian noise, whose variance the moments give.
    assert average(plan, drawn, most_exact=1).n_records == 1000
