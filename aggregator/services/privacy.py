"""Privacy promise and statement of a study as JSON values; rationals are exact text."""

from __future__ import annotations

from typing import Any

from shared.plan import SketchPlan, make_statement


def describe_promise(plan: SketchPlan) -> dict[str, Any]:
    """Return the guarantee of a plan, as it goes with every result."""
    statement = make_statement(plan)
    return {
        "epsilon": str(plan.release.epsilon),
        "delta": str(plan.release.delta),
        "neighbouring": plan.release.neighbouring,
        "mechanism": plan.release.mechanism,
        "scale": str(plan.release.scale),
        "statement": statement.describe(),
        "max_records_per_person": (
            "unknown" if plan.max_records_per_person is None else plan.max_records_per_person
        ),
        "people": statement.people_to_json(),
    }


def describe_privacy(plan: SketchPlan) -> dict[str, Any]:
    """Return all that is said about the privacy of a study: the promise, and what it leaves out."""
    statement = make_statement(plan)
    return {
        **describe_promise(plan),
        "public": [
            {"what": fact.what, "detail": fact.detail, "seen_by": fact.seen_by}
            for fact in statement.public
        ],
        "unprotected": list(statement.unprotected),
        "warnings": list(statement.cautions),
    }
