"""Exact privacy: sensitivities by enumeration, noise by integer sampling, costs by rule.

Pure: numpy and ``sfumato.shared.core`` only. Randomness comes in as an argument:
``sfumato.shared.system`` supplies the operating system's, ``sfumato.shared.privacy.testing`` a
seeded one, which nothing that releases may import.
"""

from sfumato.shared.privacy.accounting import (
    Budget,
    PrivacyEvent,
    PrivacyLoss,
    Reader,
    compose,
    compute_lifetime_loss,
    compute_per_record_loss,
    require_within_budget,
)
from sfumato.shared.privacy.calibration import (
    calibrate_mechanism,
    compute_count_scale,
    compute_count_variance,
)
from sfumato.shared.privacy.circle import CircularLaw, certify_odds, choose_law
from sfumato.shared.privacy.mechanism import Mechanism, PrivacyGuarantee
from sfumato.shared.privacy.mechanisms import MECHANISMS, MechanismKind, get_mechanism
from sfumato.shared.privacy.mechanisms.gaussian import DiscreteGaussian
from sfumato.shared.privacy.mechanisms.knorm import DiscreteKNorm
from sfumato.shared.privacy.mechanisms.laplace import DiscreteLaplace
from sfumato.shared.privacy.origins import ANY_TIME, Origin, OriginIndex, TimeSpan
from sfumato.shared.privacy.samplers import RandomSource
from sfumato.shared.privacy.sensitivity import (
    NEIGHBOURINGS,
    Sensitivity,
    compute_sensitivity,
    measure_sensitivity,
)
from sfumato.shared.privacy.shapes import FourierShape, MeasuredShape, SumShape
from sfumato.shared.privacy.target import PrivacyTarget

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
