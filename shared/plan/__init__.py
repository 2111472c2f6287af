"""The plan: everything that privacy depends on, frozen and hashed.

Every package may import it. A plan is the only way to get frequencies, sensitivities and a
mechanism, so a device computes what the digest in each of its sketches promises.
"""

from shared.plan.dimensions import Axis, Dimension, LogTransform, RecordSpace
from shared.plan.encoding import (
    compute_plan_digest,
    decode_plan,
    encode_plan,
    plan_from_json,
    plan_to_json,
)
from shared.plan.model import SketchPlan
from shared.plan.parts import Label, LateRule, LocalRelease, PhaseRelease, WindowRule
from shared.plan.spec import PlanSpec, create_plan, plan_from_spec
from shared.plan.statement import (
    PrivacyStatement,
    describe_release,
    describe_times,
    find_cautions,
    make_statement,
)
from shared.plan.statistics import FourierPart, GridPart, HistogramPart, MomentsPart

__all__ = [
    "Axis",
    "Dimension",
    "FourierPart",
    "GridPart",
    "HistogramPart",
    "Label",
    "LateRule",
    "LocalRelease",
    "LogTransform",
    "MomentsPart",
    "PhaseRelease",
    "PlanSpec",
    "PrivacyStatement",
    "RecordSpace",
    "SketchPlan",
    "WindowRule",
    "compute_plan_digest",
    "create_plan",
    "decode_plan",
    "describe_release",
    "describe_times",
    "encode_plan",
    "find_cautions",
    "make_statement",
    "plan_from_json",
    "plan_from_spec",
    "plan_to_json",
]
