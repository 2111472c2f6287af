"""Encode and decode plans: CBOR that is hashed, JSON for people; both carry every field exactly."""

from __future__ import annotations

import hashlib
from dataclasses import fields, is_dataclass
from fractions import Fraction
from typing import Any

from shared.cbor import decode_deterministic, encode_deterministic
from shared.errors import PlanError, UnsupportedVersionError
from shared.plan.deriving import verify
from shared.plan.model import SketchPlan
from shared.plan.rules import FORMAT_VERSION
from shared.structure import structure

UNKNOWN = "unknown"
"""Stands for None, so that unknown values are explicit."""


def encode_plan(plan: SketchPlan) -> bytes:
    """Encode a plan as deterministic CBOR; rationals are tag 30."""
    return encode_deterministic(_to_map(plan, to_json=False))


def compute_plan_digest(plan: SketchPlan) -> bytes:
    """Return the SHA-256 of a plan's encoding, as every sketch carries it."""
    return hashlib.sha256(encode_plan(plan)).digest()


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


def plan_to_json(plan: SketchPlan) -> dict[str, Any]:
    """Return a plan as JSON values: bytes in hexadecimal, rationals as ``"p/q"``."""
    document: dict[str, Any] = _to_map(plan, to_json=True)
    return document


def plan_from_json(document: Any) -> SketchPlan:
    """Read and verify a plan from JSON values; raise as :func:`decode_plan`."""
    return _load(document)


def _load(document: Any) -> SketchPlan:
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
    return plan


def _to_map(value: Any, *, to_json: bool) -> Any:
    if is_dataclass(value):
        held = [(f, getattr(value, f.name)) for f in fields(value)]
        return {
            f.name: _to_map(part, to_json=to_json)
            for f, part in held
            if not (f.metadata.get("optional") and part == f.default)
        }
    if isinstance(value, tuple):
        return [_to_map(item, to_json=to_json) for item in value]
    if value is None:
        return UNKNOWN
    if to_json and isinstance(value, Fraction):
        return str(value)
    if to_json and isinstance(value, bytes):
        return value.hex()
    return value
