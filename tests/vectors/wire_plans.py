"""Plans and records of the wire's vectors."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

from sfumato.shared.plan import Campaign, Dimension, Phase, SketchPlan, WindowRule, plan_from_spec

ORIGIN = 1_700_000_000
_SPEC: dict[str, Any] = {
    "dimensions": [
        {"name": "temperature", "unit": "°F", "lower": -10.0, "upper": 110.0, "scale": 8.0},
        {"name": "humidity", "unit": "1", "lower": 0.0, "upper": 1.0, "scale": 0.15},
    ],
    "n_frequencies": 12,
    "seed": "the wire vectors' study",
    "epsilon": "3/2",
    "window": {"kind": "time", "origin": ORIGIN, "length_s": 3600},
    "least_records": 2,
    "most_records": 50,
    "most_sketches": 1000,
    "labels": [
        {"name": "site", "values": ["north", "south"]},
        {"name": "größe", "values": ["klein", "groß"]},
    ],
}
MASKED = plan_from_spec(_SPEC | {"measurements_per_record": 3})
BY_COUNT = plan_from_spec(_SPEC | {"window": {"kind": "count", "length": 5}})
SPLIT = plan_from_spec(_SPEC | {"frequencies_per_sketch": 4})
SECRET_COUNT = plan_from_spec(
    {name: value for name, value in _SPEC.items() if name != "least_records"}
    | {"neighbouring": "add-remove-one", "delta": "1e-6"}
)
BOUNDED = plan_from_spec(
    _SPEC
    | {
        "late_rule": "leave-out-outside",
        "window": _SPEC["window"] | {"end": ORIGIN + 24 * 3600},
    }
)
_WINDOWS = [
    WindowRule(kind="time", origin=first, length_s=3600, end=first + 24 * 3600)
    for first in (ORIGIN - 24 * 3600, ORIGIN)
]
CAMPAIGN = Campaign(
    number=1,
    phases=(
        Phase(statistic="histogram", epsilon=Fraction(1), window=_WINDOWS[0]),
        Phase(statistic="fourier", epsilon=Fraction(3, 2), window=_WINDOWS[1]),
    ),
    columns=(
        Dimension(name="temperature", unit="°F", lower=-40.0, upper=140.0),
        Dimension(name="pressure", unit="hPa", lower=900.0, upper=1100.0),
        Dimension(name="humidity", unit="1", lower=0.0, upper=1.0),
    ),
    most_clusters=5,
    most_records=60,
    most_payload_bytes=256,
)
PHASE_OF_CAMPAIGN = replace(BOUNDED, campaign=CAMPAIGN)
OF_DEVICES = plan_from_spec(
    {name: value for name, value in _SPEC.items() if name != "least_records"} | {"unit": "device"}
)
PHASES = plan_from_spec(
    {name: value for name, value in _SPEC.items() if name not in ("least_records", "most_records")}
    | {"release": "phase.v1", "frequencies_per_sketch": 2}
)
Record = list[float | str | None]
RECORDS: list[Record] = [
    [39.02, 0.5937],
    [39.92, 0.6221],
    [999.0, -3.0],
    [None, 0.5],
    [72.3, 0.31],
]
MIXED: list[Record] = [
    [39.02, 12.5, "clear"],
    [None, 0.0, " rain\t"],
    [999.0, -40000.0, "Clear"],
    [-10.0, None, "grau é"],
    [72.3, 1e300, None],
]
"""A number, one on a logarithmic scale, and text; some of it no level, and some missing."""


CLUSTERS: dict[str, Any] = {
    "assigned": ["temperature", "sky"],
    "summed": ["temperature", "visibility"],
    "centres": [[-9000, 32767, -32767, -32767], [9000, -32767, -32767, 30000]],
    "weights": [5, 1, 1, 1],
    "cap": 4_000_000_000,
    "origins": [[-9000, 0], [9000, -20000]],
    "radii": [[15000, 40000], [20000, 40000]],
    "units": {"residual": 4096, "count": 512, "square": 512, "beyond": 64, "presence": 128},
    "clusters_per_sketch": 2,
    "result": "5f" * 32,
}


def _make_other(statistic: str, **changes: Any) -> SketchPlan:
    """Return a plan of numbers and a category, with another statistic."""
    first, second = (
        {name: value for name, value in dimension.items() if name != "scale"}
        for dimension in _SPEC["dimensions"]
    )
    log = {"kind": "log", "resolution": 0.5}
    sky = {
        "name": "sky",
        "unit": "1",
        "levels": ["clear", "rain", "grau é"],
        "missing": "rain",
    }
    mixed: list[dict[str, Any]] = [
        first,
        {"name": "visibility", "unit": "m", "lower": 0.0, "upper": 20000.0, "transform": log},
        sky,
    ]
    chosen: Any = {
        "histogram": {"bins_log2": [2, 3, 0], "dimensions": mixed},
        "grid": {"cells": [3, 2, 2, 2], "dimensions": [first, sky]},
        "moments": {"norm_steps": 2500, "dimensions": mixed},
        "clusters": {"clusters": CLUSTERS, "dimensions": mixed},
        "fourier": {
            "n_frequencies": 6,
            "seed": "columns of every kind",
            "dimensions": [first | {"scale": 8.0, "missing": 55.5}, mixed[1] | {"scale": 2.0}, sky],
        },
        "numbers": {"statistic": "histogram", "bins_log2": 2, "dimensions": [first, second]},
    }[statistic]
    given = {"statistic": statistic} | chosen | changes
    spec = {name: value for name, value in _SPEC.items() if name not in ("n_frequencies", "seed")}
    return plan_from_spec({k: v for k, v in (spec | given).items() if v is not None})


_SECRET = {"neighbouring": "add-remove-one", "least_records": None}
_GAUSSIAN = {"delta": "1e-6"}
MIXED_FEATURES = _make_other("fourier")
HISTOGRAM = _make_other("histogram")
SECRET_HISTOGRAM = _make_other("histogram", **_SECRET, **_GAUSSIAN)
ONE_DIMENSION = _make_other("numbers", dimensions_per_sketch=1)
GRID = _make_other("grid", **_GAUSSIAN)
MOMENTS = _make_other("moments")
LOOK = _make_other("clusters", **_GAUSSIAN)
CANDIDATES = [[[-8000, 32767, 0, -32767], [12000, -32767, 1, 32767]], [[0] * 4, [-9000, 0, 0, 0]]]
ONE_CLUSTER = _make_other(
    "clusters",
    clusters=CLUSTERS
    | {"clusters_per_sketch": 1, "candidates": CANDIDATES}
    | {"units": CLUSTERS["units"] | {"total": 256}},
)
SECRET_LOOK = _make_other("clusters", clusters=CLUSTERS | {"clusters_per_sketch": 1}, **_SECRET)
SECRET_MOMENTS = _make_other("moments", **_SECRET, **_GAUSSIAN)
BIN_REPORTS = _make_other("numbers", release="phase.v1", least_records=None, most_records=None)
ONE_RECORD = _make_other("histogram", unit="device", most_records=1, least_records=None)
