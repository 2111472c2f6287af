"""Plans of second looks for the device in C: those of the vectors, and seeded ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sfumato.shared.core.encoder import RecordEncoder
from sfumato.shared.core.statistics.clusters import MOST_WEIGHT, Norm
from sfumato.shared.plan import ClustersPart, SketchPlan, plan_from_spec
from tests.vectors.kind_vectors import CLUSTERS, ENCODINGS, LOWER, UPPER

STEPS = 32767
NORMS: tuple[Norm, Norm] = ("l1", "l2")
N_SEEDED = 12
IN_VECTORS = (0, 1, 3, 4, 5)
"""Coordinates of the vectors' records that the look of the vectors reads."""


def make_look(
    bounds: Sequence[tuple[float, float]], clusters: dict[str, Any], **changes: Any
) -> SketchPlan:
    """Return the plan of a look at numbers named 0, 1, ..., by an exact sampler of this device."""
    k = len(clusters["centres"])
    spec = {
        "statistic": "clusters",
        "dimensions": [
            {"name": str(i), "unit": "1", "lower": low, "upper": high}
            for i, (low, high) in enumerate(bounds)
        ],
        "clusters": {"clusters_per_sketch": k} | clusters,
        "epsilon": "1",
        "window": {"kind": "count", "length": 8},
        "most_records": 200,
        "most_sketches": 1000,
    }
    return plan_from_spec(spec | changes)


def clip_in(plan: SketchPlan, norm: Norm) -> SketchPlan:
    """Return a plan whose residuals are clipped in a norm, also in one of other noise."""
    part = plan.statistic
    assert isinstance(part, ClustersPart)
    return replace(plan, statistic=replace(part, norm=norm))


def _make_look_of_vectors() -> SketchPlan:
    """Return a look at encoded records: the device reads numbers alone."""
    encoder = RecordEncoder(dimensions=ENCODINGS)
    lower, upper = (list(each) for each in encoder.encode_bounds(LOWER, UPPER))
    named = {"assigned": ["0", "2", "3", "4"], "summed": ["0", "1", "2", "3", "4"]}
    return make_look([(float(lower[i]), float(upper[i])) for i in IN_VECTORS], CLUSTERS | named)


def _make_seeded(seed: int) -> SketchPlan:
    """Return a plan at random, whose weights and cap are the largest for every third seed."""
    rng = np.random.default_rng(seed)

    def draw(low: int, high: int, *shape: int) -> Any:
        return rng.integers(low, high, size=shape, endpoint=True).tolist()

    roles = rng.choice(["assigned", "summed", "both"], size=rng.integers(0, 6))
    assigned = ["0", *(str(i + 1) for i, role in enumerate(roles) if role != "summed")]
    summed = [str(i + 1) for i, role in enumerate(roles) if role != "assigned"]
    k, d, e, n_sets = draw(1, 6), len(assigned), len(summed), draw(0, 2)
    units = {
        "residual": draw(1, 1 << 15) if e else 0,
        "count": draw(1, 1 << 15),
        "square": draw(0, 1) * draw(1, 1 << 15),
        "beyond": draw(0, 1) * draw(1, 1 << 15),
        "presence": draw(1, 1 << 15) if set(summed) - set(assigned) else 0,
        "total": draw(1, 1 << 15) if n_sets else draw(0, 1),
    }
    is_extreme = seed % 3 == 0
    most = (MOST_WEIGHT - 1) // d
    most_cap = (1 << 63) // max(units["square"], units["total"], 1) - 1
    return make_look(
        [(-STEPS, STEPS)] * (1 + len(roles)),
        {
            "assigned": assigned,
            "summed": summed,
            "centres": draw(-STEPS, STEPS, k, d),
            "weights": [most] * d if is_extreme else draw(1, 9, d),
            "cap": most_cap if is_extreme else draw(1, 10**10),
            "origins": draw(-STEPS, STEPS, k, e) if e else [],
            "radii": (draw(1, 2 * STEPS, k, e) if seed % 2 else [[2 * STEPS] * e] * k) if e else [],
            "units": units,
            "candidates": draw(-STEPS, STEPS, n_sets, k, d) if n_sets else [],
        },
    )


MEASURED = {
    "assigned": ["0", "1"],
    "centres": [[-9000, 32767], [9000, -32767], [0, 0]],
    "weights": [5, 1],
    "cap": 4_000_000_000,
    "units": {"residual": 0, "count": 512, "square": 512, "total": 64},
}
"""Without residuals no sum is negative."""

EDGES = {
    "assigned": ["0"],
    "summed": ["0", "1"],
    "centres": [[0], [200]],
    "weights": [1],
    "cap": 10_000,
    "origins": [[0, 0], [200, 0]],
    "radii": [[500, 500]] * 2,
    "units": {"residual": 500, "count": 1, "square": 100, "beyond": 1, "presence": 1},
}
"""A step of a residual is a step, so that whole numbers lie at the cap, the clip and between."""


def list_looks() -> dict[str, SketchPlan]:
    """Return the looks that the driver knows, by name."""
    of_vectors, edges = _make_look_of_vectors(), make_look([(-STEPS, STEPS)] * 2, EDGES)
    return {
        **{f"clusters, {norm}": clip_in(of_vectors, norm) for norm in NORMS},
        **{f"edges, {norm}": clip_in(edges, norm) for norm in NORMS},
        **{f"look {i}": clip_in(_make_seeded(i), NORMS[i // 2 % 2]) for i in range(N_SEEDED)},
        "measured": make_look([(-10.0, 10.0)] * 2, MEASURED),
        "look by count": make_look(
            [(-10.0, 20.0), (0.0, 2.0)],
            MEASURED
            | {
                "summed": ["0", "1"],
                "origins": [[0, 0]] * 3,
                "radii": [[20000, 20000]] * 3,
                "units": {"residual": 4096, "count": 512, "square": 512, "beyond": 64},
            },
            window={"kind": "count", "length": 5},
        ),
    }
