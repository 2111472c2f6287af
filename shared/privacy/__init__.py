"""Exact privacy: sensitivities by enumeration, noise by integer sampling, costs by rule.

Pure: numpy and ``shared.core`` only. Randomness comes in as an argument: ``shared.system``
supplies the operating system's, ``shared.privacy.testing`` a seeded one, which nothing that
releases may import.
"""

from shared.privacy.accounting import (
    Budget,
    PrivacyEvent,
    PrivacyLoss,
    Reader,
    compose,
    compute_lifetime_loss,
    compute_per_record_loss,
    require_within_budget,
)
from shared.privacy.calibration import (
    calibrate_mechanism,
    compute_count_scale,
    compute_count_variance,
)
from shared.privacy.circle import CircularLaw, certify_odds, choose_law
from shared.privacy.mechanism import Mechanism, PrivacyGuarantee
from shared.privacy.mechanisms import MECHANISMS, MechanismKind, get_mechanism
from shared.privacy.mechanisms.gaussian import DiscreteGaussian
from shared.privacy.mechanisms.knorm import DiscreteKNorm
from shared.privacy.mechanisms.laplace import DiscreteLaplace
from shared.privacy.origins import ANY_TIME, Origin, OriginIndex, TimeSpan
from shared.privacy.samplers import RandomSource
from shared.privacy.sensitivity import (
    NEIGHBOURINGS,
    Sensitivity,
    compute_sensitivity,
    measure_sensitivity,
)
from shared.privacy.shapes import FourierShape, MeasuredShape, SumShape
from shared.privacy.target import PrivacyTarget

__all__ = [
    "ANY_TIME",
    "MECHANISMS",
    "NEIGHBOURINGS",
    "Budget",
    "CircularLaw",
    "DiscreteGaussian",
    "DiscreteKNorm",
    "DiscreteLaplace",
    "FourierShape",
    "MeasuredShape",
    "Mechanism",
    "MechanismKind",
    "Origin",
    "OriginIndex",
    "PrivacyEvent",
    "PrivacyGuarantee",
    "PrivacyLoss",
    "PrivacyTarget",
    "RandomSource",
    "Reader",
    "Sensitivity",
    "SumShape",
    "TimeSpan",
    "calibrate_mechanism",
    "certify_odds",
    "choose_law",
    "compose",
    "compute_count_scale",
    "compute_count_variance",
    "compute_lifetime_loss",
    "compute_per_record_loss",
    "compute_sensitivity",
    "get_mechanism",
    "measure_sensitivity",
    "require_within_budget",
]
