"""The plan: everything that privacy depends on, frozen and hashed.

Every package may import it. A plan is the only way to get frequencies, sensitivities and a
mechanism, so a device computes what the digest in each of its sketches promises.
"""

from sfumato.shared.plan.campaign import PHASE_NAMES, Campaign, Phase, require_follows
from sfumato.shared.plan.dimensions import Axis, Dimension, LogTransform, RecordSpace
from sfumato.shared.plan.documents import compute_plan_digest, encode_plan, plan_to_json
from sfumato.shared.plan.encoding import decode_plan, draft_from_json, plan_from_json
from sfumato.shared.plan.endorsement import compute_endorsed, endorse
from sfumato.shared.plan.events import make_event
from sfumato.shared.plan.model import SketchPlan
from sfumato.shared.plan.parts import (
    Helper,
    Label,
    LateRule,
    LocalRelease,
    PhaseRelease,
    SumRelease,
    WindowRule,
)
from sfumato.shared.plan.spec import PlanSpec, create_plan, plan_from_spec
from sfumato.shared.plan.statement import (
    PrivacyStatement,
    describe_helper,
    describe_release,
    describe_times,
    describe_trust,
    find_cautions,
    make_statement,
)
from sfumato.shared.plan.statistics import (
    ClustersPart,
    FourierPart,
    GridPart,
    HistogramPart,
    MomentsPart,
)

__all__ = [
    "PHASE_NAMES",
    "Axis",
    "Campaign",
    "ClustersPart",
    "Dimension",
    "FourierPart",
    "GridPart",
    "Helper",
    "HistogramPart",
    "Label",
    "LateRule",
    "LocalRelease",
    "LogTransform",
    "MomentsPart",
    "Phase",
    "PhaseRelease",
    "PlanSpec",
    "PrivacyStatement",
    "RecordSpace",
    "SketchPlan",
    "SumRelease",
    "WindowRule",
    "compute_endorsed",
    "compute_plan_digest",
    "create_plan",
    "decode_plan",
    "describe_helper",
    "describe_release",
    "describe_times",
    "describe_trust",
    "draft_from_json",
    "encode_plan",
    "endorse",
    "find_cautions",
    "make_event",
    "make_statement",
    "plan_from_json",
    "plan_from_spec",
    "plan_to_json",
    "require_follows",
]
