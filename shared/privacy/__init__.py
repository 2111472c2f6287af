"""Exact privacy: sensitivities by enumeration, noise by integer sampling, costs by rule.

Pure: numpy and ``shared.core`` only. Randomness comes in as an argument: ``shared.entropy``
supplies the operating system's, ``shared.privacy.testing`` a seeded one that only tests may import.
"""

from shared.privacy.accounting import (
    Budget,
    PrivacyEvent,
    PrivacyLoss,
    compose,
    compute_lifetime_loss,
    compute_per_record_loss,
    require_within_budget,
)
from shared.privacy.calibration import (
    MECHANISMS,
    PrivacyTarget,
    calibrate_mechanism,
    compute_count_variance,
)
from shared.privacy.gaussian import DiscreteGaussian
from shared.privacy.knorm import DiscreteKNorm
from shared.privacy.laplace import DiscreteLaplace
from shared.privacy.laws import LawChoice, choose_radius_law, describe_law
from shared.privacy.mechanism import Mechanism, PrivacyGuarantee
from shared.privacy.outline import StudyOutline
from shared.privacy.planner import (
    Advice,
    Candidate,
    advise,
    find_smallest_epsilon,
    predict_candidate,
)
from shared.privacy.samplers import RandomSource
from shared.privacy.sensitivity import NEIGHBOURINGS, Sensitivity, compute_sensitivity
from shared.privacy.utility import QualityBand, predict_mechanism_snr, predict_relative_sse

__all__ = [
    "MECHANISMS",
    "NEIGHBOURINGS",
    "Advice",
    "Budget",
    "Candidate",
    "DiscreteGaussian",
    "DiscreteKNorm",
    "DiscreteLaplace",
    "LawChoice",
    "Mechanism",
    "PrivacyEvent",
    "PrivacyGuarantee",
    "PrivacyLoss",
    "PrivacyTarget",
    "QualityBand",
    "RandomSource",
    "Sensitivity",
    "StudyOutline",
    "advise",
    "calibrate_mechanism",
    "choose_radius_law",
    "compose",
    "compute_count_variance",
    "compute_lifetime_loss",
    "compute_per_record_loss",
    "compute_sensitivity",
    "describe_law",
    "find_smallest_epsilon",
    "predict_candidate",
    "predict_mechanism_snr",
    "predict_relative_sse",
    "require_within_budget",
]
