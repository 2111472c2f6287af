"""Selections whose errors are unknown are refused by name."""

from typing import Any

import pytest

from sfumato.learning.insight.selection import require_supported
from sfumato.shared.errors import DecodingError
from sfumato.shared.plan import WindowRule
from tests.learning.insight.drawing import make_plan

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
