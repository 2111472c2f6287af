"""Encodings of a plan: CBOR that is hashed, JSON for people; both carry every field exactly."""

from __future__ import annotations

import hashlib
from dataclasses import fields, is_dataclass
from fractions import Fraction
from typing import Any

from sfumato.shared.cbor import encode_deterministic
from sfumato.shared.plan.model import SketchPlan

UNKNOWN = "unknown"
"""Stands for None, so that unknown values are explicit."""


def encode_plan(plan: SketchPlan) -> bytes:
    """Encode a plan as deterministic CBOR; rationals are tag 30."""
    return encode_deterministic(_to_map(plan, to_json=False))


def compute_plan_digest(plan: SketchPlan) -> bytes:
    """Return the SHA-256 of a plan's encoding, as every sketch carries it."""
    return hashlib.sha256(encode_plan(plan)).digest()


def plan_to_json(plan: SketchPlan) -> dict[str, Any]:
    """Return a plan as JSON values: bytes in hexadecimal, rationals as ``"p/q"``."""
    document: dict[str, Any] = _to_map(plan, to_json=True)
    return document


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
