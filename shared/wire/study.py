"""The identity of a study, derived from what it is."""

from __future__ import annotations

import hashlib

from shared.cbor import encode_deterministic
from shared.plan import SketchPlan, compute_plan_digest


def compute_study_id(name: str, plan: SketchPlan) -> bytes:
    """Return the SHA-256 of the deterministic encoding of ``[name, plan digest]``."""
    return hashlib.sha256(encode_deterministic([name, compute_plan_digest(plan)])).digest()
