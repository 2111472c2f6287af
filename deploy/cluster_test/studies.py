"""Studies whose sums are exact: so large an epsilon that no coordinate gets any noise.

What two servers or a hundred uploads made of the records can then be compared bit by bit with what
the devices folded. Never use such a plan for records of people.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.shared.core import SketchAccumulator
from sfumato.shared.plan import SketchPlan, plan_from_spec

SLOT_S = 3600
EPSILON = 100 * 46324 * 12
"""The chance that a coordinate of a sketch gets noise is at most exp(-100)."""
_RECORDS = 5
"""Records of each device in each slot."""


def make_plan(seed: str, *, n_slots: int, **changes: Any) -> SketchPlan:
    """Make a plan of 12 features over two dimensions, all of whose slots are over."""
    now = int(time.time())
    bounds = {"unit": "m", "lower": -10.0, "upper": 10.0, "scale": 1.0}
    spec: dict[str, Any] = {
        "dimensions": [{"name": "x", **bounds}, {"name": "y", **bounds}],
        "n_frequencies": 12,
        "seed": seed,
        "epsilon": str(EPSILON),
        "mechanism": "discrete-laplace",
        "window": {
            "kind": "time",
            "origin": (now // SLOT_S - n_slots - 1) * SLOT_S,
            "length_s": SLOT_S,
        },
        "most_records": 100,
    }
    return plan_from_spec(spec | changes)


def make_local_plan(n_slots: int) -> SketchPlan:
    """Make the plan of a study in which each device releases for itself."""
    return make_plan(
        "cluster test, local",
        n_slots=n_slots,
        least_records=1,
        most_sketches_per_device=1000,
        most_sketches=100_000,
    )


def make_draft(n_slots: int, *, n_devices: int) -> SketchPlan:
    """Make the draft of a secure sum; a batch is full when every device has sent."""
    return make_plan(
        "cluster test, secure sum",
        n_slots=n_slots,
        release="sum.v1",
        least_reports=n_devices,
        most_reports=n_devices,
    )


Window = tuple[list[int], NDArray[np.float64]]
"""Times in seconds and records of one device in one slot."""


@dataclass(kw_only=True)
class Records:
    """Records for devices, and the exact sum of all that were given out."""

    plan: SketchPlan
    rng: np.random.Generator
    given: list[NDArray[np.float64]] = field(default_factory=list)

    def deal(self, slot: int, n_devices: int) -> Sequence[Window]:
        """Give each device its records of a slot."""
        start = self.plan.window.origin + slot * SLOT_S
        windows = []
        for number in range(n_devices):
            records = self.rng.uniform(-9.0, 9.0, size=(_RECORDS, 2))
            self.given.append(records)
            windows.append(([start + number + 60 * i for i in range(_RECORDS)], records))
        return windows

    @property
    def n_records(self) -> int:
        """Records that were given out."""
        return sum(map(len, self.given))

    def sum_up(self) -> list[int]:
        """Return the exact sum of all records."""
        accumulator = SketchAccumulator(self.plan.statistic_of(b""))
        accumulator.add(np.concatenate(self.given))
        return [int(value) for value in accumulator.sums]
