"""Facts of a mechanism: its name, its norm, and its calibration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sfumato.shared.privacy.mechanism import Mechanism
from sfumato.shared.privacy.target import PrivacyTarget


@dataclass(frozen=True, kw_only=True)
class MechanismKind:
    """A noise mechanism that a plan can name.

    Parameters
    ----------
    name, label
        Name in plans, and label in sentences for people.
    norm
        The norm in which a plan states the sensitivity: ``l1``, ``l2-squared`` or ``gon24``.
    needs_delta
        Whether its guarantee has a delta above 0; without one, delta must be 0.
    allows_masks
        Whether r < m is allowed. With masks, noise that covers all features costs at least
        ``m / r`` times the variance.
    needs_pairs
        Whether coordinates must come in pairs, as the parts of Fourier features do.
    measure
        Computes the sensitivity of the whole release in its norm: an integer, with the count where
        it is released.
    scale_count
        Computes the factor of the number of records before noise is added, such that a record
        changes it as far as the norm allows a feature to change.
    calibrate
        Finds the least noise that keeps the promise; raises ``PrivacyError`` if there is none.
    """

    name: str
    label: str
    norm: str
    needs_delta: bool
    allows_masks: bool
    needs_pairs: bool = False
    measure: Callable[[PrivacyTarget], int]
    scale_count: Callable[[PrivacyTarget], int]
    calibrate: Callable[[PrivacyTarget], Mechanism]
