"""A plan with a secure sum, its helper's keys, and reports of its devices."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from fractions import Fraction
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from sfumato.shared.plan import (
    Dimension,
    Helper,
    PlanSpec,
    SketchPlan,
    WindowRule,
    create_plan,
    endorse,
)

IDENTITY = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"helper identity").digest())
KEY = X25519PrivateKey.from_private_bytes(hashlib.sha256(b"helper key").digest())
HELPER = Helper(
    name="Patients' association",
    identity=IDENTITY.public_key().public_bytes_raw(),
    key=KEY.public_key().public_bytes_raw(),
)
SPEC = PlanSpec(
    dimensions=(
        Dimension(name="x", unit="1", lower=0.0, upper=1.0, scale=0.1),
        Dimension(name="y", unit="1", lower=0.0, upper=1.0, scale=0.1),
    ),
    n_frequencies=20,
    seed="samples of the secure sum",
    epsilon=Fraction(1),
    window=WindowRule(kind="time", origin=1_000_000, length_s=3600),
    most_records=5,
    release="sum.v1",
    least_reports=2,
    most_reports=1000,
)


def make_draft(**changes: Any) -> SketchPlan:
    """Return a plan that no helper has accepted."""
    return create_plan(replace(SPEC, **changes))


def make_plan(**changes: Any) -> SketchPlan:
    """Return a plan that the helper has accepted."""
    return endorse(make_draft(**changes), HELPER, IDENTITY.sign)
