"""Plans of a small campaign: pilot, sketch and look, each of its own days."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

from sfumato.shared.core.statistics.clusters import Units
from sfumato.shared.plan import (
    Campaign,
    ClustersPart,
    Dimension,
    Phase,
    PlanSpec,
    SketchPlan,
    WindowRule,
    create_plan,
)

DAY = 86_400
START = 1_767_225_600  # 2026-01-01 in UTC
COLUMNS = (
    Dimension(name="room", unit="degC", lower=-40.0, upper=60.0),
    Dimension(name="load", unit="kW", lower=-10.0, upper=90.0),
)


def make_window(first: int, n: int) -> WindowRule:
    """Return windows of a day each, from a day of the campaign on."""
    origin = START + first * DAY
    return WindowRule(kind="time", origin=origin, length_s=DAY, end=origin + n * DAY)


TERMS = Campaign(
    number=0,
    phases=(
        Phase(statistic="histogram", epsilon=Fraction(1), window=make_window(0, 1)),
        Phase(statistic="fourier", epsilon=Fraction(1), window=make_window(1, 2)),
        Phase(statistic="clusters", epsilon=Fraction(2), window=make_window(4, 2)),
    ),
    columns=COLUMNS,
    most_clusters=3,
    most_records=1000,
    most_payload_bytes=1 << 12,
)


def make_phase(number: int, terms: Campaign = TERMS, **changes: Any) -> SketchPlan:
    """Return a plan that keeps the terms in one phase, but for the changes of its specification."""
    phase = TERMS.phases[number]
    own: dict[str, Any] = {"statistic": phase.statistic}
    dimensions: tuple[Dimension, ...] = COLUMNS
    if number == 1:
        own |= {"n_frequencies": 24, "seed": "campaign", "most_clusters": 3}
        dimensions = tuple(replace(each, scale=1.0) for each in COLUMNS)
    if number == 2:
        own["clusters"] = ClustersPart(
            assigned=("room", "load"),
            summed=("room", "load"),
            centres=((0, 0), (9000, 9000)),
            weights=(1, 1),
            cap=10**9,
            origins=((0, 0), (9000, 9000)),
            radii=((500, 500), (500, 500)),
            units=Units(count=1024, square=1024, residual=4096),
            clusters_per_sketch=2,
        )
    spec: dict[str, Any] = {
        "dimensions": dimensions,
        "epsilon": phase.epsilon,
        "window": phase.window,
        "most_records": 1000,
        "late_rule": "leave-out-outside",
        **own,
        **changes,
    }
    return replace(create_plan(PlanSpec(**spec)), campaign=replace(terms, number=number))
