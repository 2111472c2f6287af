"""Exact privacy: sensitivities by enumeration, noise by integer sampling, costs by rule.

Pure: numpy and ``shared.core`` only. Randomness comes in as an argument: ``shared.entropy``
supplies the operating system's, ``shared.privacy.testing`` a seeded one that only tests may import.
"""

from shared.privacy.accounting import (
    Budget,
    PrivacyEvent,
    compute_lifetime_loss,
    compute_per_record_loss,
    require_within_budget,
)
from shared.privacy.laplace import DiscreteLaplace
from shared.privacy.mechanism import Mechanism, PrivacyGuarantee
from shared.privacy.samplers import RandomSource
from shared.privacy.sensitivity import NEIGHBOURINGS, Sensitivity, compute_sensitivity

__all__ = [
    "NEIGHBOURINGS",
    "Budget",
    "DiscreteLaplace",
    "Mechanism",
    "PrivacyEvent",
    "PrivacyGuarantee",
    "RandomSource",
    "Sensitivity",
    "compute_lifetime_loss",
    "compute_per_record_loss",
    "compute_sensitivity",
    "require_within_budget",
]
