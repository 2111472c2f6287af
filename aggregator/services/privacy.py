"""What a study promises, in figures and in words."""

from __future__ import annotations

from typing import Any

from shared.plan import SketchPlan


def describe_privacy(plan: SketchPlan) -> dict[str, Any]:
    """Return the guarantee of a plan as JSON values; rationals are exact text."""
    return {
        "epsilon": str(plan.release.epsilon),
        "delta": str(plan.release.delta),
        "neighbouring": plan.release.neighbouring,
        "mechanism": plan.release.mechanism,
        "scale": str(plan.release.scale),
        "statement": plan.mechanism.guarantee.describe(),
        "max_records_per_person": (
            "unknown" if plan.max_records_per_person is None else plan.max_records_per_person
        ),
    }
