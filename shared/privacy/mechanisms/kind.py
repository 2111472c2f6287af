"""Facts of a kind of noise: its name, its norm, and how it is calibrated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shared.privacy.mechanism import Mechanism
from shared.privacy.target import PrivacyTarget


@dataclass(frozen=True, kw_only=True)
class MechanismKind:
    """A kind of noise that a plan can name.

    Parameters
    ----------
    name, label
        In plans; and for people, where a sentence names it.
    norm
        The norm in which a plan states the sensitivity: ``l1``, ``l2-squared`` or ``gon24``.
    needs_delta
        Whether its guarantee has a delta above 0; the others must have none.
    allows_masks
        Whether it may go with r < m. Noise that covers all features costs at least ``m / r`` times
        the variance there.
    measure
        Computes the sensitivity of all that is released, in its norm: an integer, with the count
        where that is released.
    scale_count
        Computes the factor that multiplies the number of records before noise is added, so that a
        record changes it as far as the norm allows a feature to change.
    calibrate
        Finds the least noise that keeps a promise; raises ``PrivacyError`` if it cannot.
    """

    name: str
    label: str
    norm: str
    needs_delta: bool
    allows_masks: bool
    measure: Callable[[PrivacyTarget], int]
    scale_count: Callable[[PrivacyTarget], int]
    calibrate: Callable[[PrivacyTarget], Mechanism]
