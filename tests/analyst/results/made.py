"""Results that no server has computed."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from sfumato.analyst import DecodeResult
from sfumato.shared.plan import Dimension, SketchPlan
from sfumato.shared.structure import structure
from sfumato.shared.wire.objects.answers import describe_promise
from sfumato.shared.wire.objects.declaration import make_sample
from sfumato.shared.wire.objects.results import ResultBody
from tests.aggregator.fleet import make_plan


def make_result(
    names: Sequence[str] = ("flow",),
    units: Sequence[str] | None = None,
    *,
    plan: SketchPlan | None = None,
    **changes: Any,
) -> DecodeResult:
    """Return a result with axes of these names; ``changes`` replace members of its body."""
    plan = plan or make_plan(
        dimensions=tuple(
            Dimension(name=name, unit=unit, lower=0.0, upper=30_000.0, scale=1.0)
            for name, unit in zip(names, units or ["l/s"] * len(names), strict=True)
        )
    )
    axes = [{"name": each.name, "unit": each.unit} for each in plan.axes]
    members = {
        **(make_sample(ResultBody) or {}),
        "dimensions": axes,
        "search_box": {},
        **dict.fromkeys(("centroid_errors", "weight_errors", "bars", "stability", "sse_curve")),
        "privacy": asdict(describe_promise(plan)),
        "centroids": [[1.0] * len(axes), [23456.0] * len(axes)],
        "weights": [0.9, 0.1],
        "spreads": None,
        "mixture": None,
        "choice": None,
        "resolved": [True, False],
        "verdict": {"word": "rough", "sentence": "noise is strong"},
    }
    return DecodeResult(structure(ResultBody, members | changes, strict=False), plan, seed=3)
