"""Read plans from CBOR or JSON, and verify them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from sfumato.shared.cbor import decode_deterministic
from sfumato.shared.errors import PlanError, UnsupportedVersionError
from sfumato.shared.plan.derivation import verify
from sfumato.shared.plan.documents import UNKNOWN, encode_plan
from sfumato.shared.plan.endorsement import require_endorsed
from sfumato.shared.plan.model import SketchPlan
from sfumato.shared.plan.rules import FORMAT_VERSION
from sfumato.shared.structure import structure


# Verifying draws all frequencies again. A device reads its plan at every start and poll.
@lru_cache(maxsize=4)
def decode_plan(data: bytes) -> SketchPlan:
    """Decode and verify a plan.

    Raises
    ------
    MalformedMessageError, UnsupportedVersionError, PlanError
        Not a plan, of a version that this release does not know, or breaking a rule.
    """
    plan = _load(decode_deterministic(data, what="plan"))
    if encode_plan(plan) != data:
        raise PlanError(
            "has a field of another type than plans have",
            field="plan",
            fix="encode it as `sfumato plan new` does",
        )
    return plan


def plan_from_json(document: Any) -> SketchPlan:
    """Read and verify a plan from JSON values; raise as :func:`decode_plan`."""
    return _load(document)


def draft_from_json(document: Any) -> SketchPlan:
    """Read a plan that may be the draft of a secure sum; raise as :func:`decode_plan`."""
    return _load(document, as_draft=True)


def _load(document: Any, *, as_draft: bool = False) -> SketchPlan:
    if isinstance(document, dict):
        version = document.get("format_version", FORMAT_VERSION)
        if version != FORMAT_VERSION:
            raise UnsupportedVersionError(
                f"this release reads version {FORMAT_VERSION}",
                field="format_version",
                fix="update this software",
            )
    plan = structure(SketchPlan, document, complete=True, unknown=UNKNOWN, error=PlanError)
    verify(plan)
    if not as_draft or (plan.sum_release and plan.sum_release.helper):
        require_endorsed(plan)
    return plan
