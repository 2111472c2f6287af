"""Calibrate the mechanism that a plan promises; refuse combinations that cannot hold."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from sfumato.shared.errors import PrivacyError
from sfumato.shared.privacy.mechanism import Mechanism
from sfumato.shared.privacy.mechanisms import MECHANISMS, get_mechanism
from sfumato.shared.privacy.mechanisms.kind import MechanismKind
from sfumato.shared.privacy.target import PrivacyTarget


def compute_count_variance(target: PrivacyTarget, mechanism: Mechanism) -> float:
    """Return the noise variance of a released count, in records squared; 0 where it is public."""
    if not target.releases_count:
        return 0.0
    return mechanism.compute_count_variance(compute_count_scale(target))


def compute_count_scale(target: PrivacyTarget) -> int:
    """Return the factor of a released count; 0 where the count is public."""
    return get_mechanism(target.mechanism).scale_count(target) if target.releases_count else 0


# One plan is calibrated where it is derived, verified, judged and drawn from.
@lru_cache(maxsize=64)
def calibrate_mechanism(target: PrivacyTarget) -> Mechanism:
    """Calibrate the least noise of the chosen mechanism that keeps the promise.

    Raises
    ------
    PrivacyError
        The mechanism is unknown, cannot give the guarantee, or would be wasteful with masks.
    """
    kind = get_mechanism(target.mechanism)
    if target.delta != 0 and not kind.needs_delta:
        raise PrivacyError(
            f"must be 0 with {kind.name}, which needs none",
            field="delta",
            fix=f"leave it out, or choose {_name_those(lambda other: other.needs_delta)}",
        )
    if target.shape.is_masked and target.releases_count:
        raise PrivacyError(
            "must equal n_frequencies under add-remove-one: an absent record shifts the counter, "
            "and with it the masks, of all records that follow",
            field="measurements_per_record",
            fix="leave it out",
        )
    if target.shape.is_masked and not kind.allows_masks:
        raise PrivacyError(
            f"must equal n_frequencies with {kind.name}: one record then moves few of the "
            "features that its noise covers, which costs at least 1 / alpha times the variance",
            field="measurements_per_record",
            fix=f"leave it out, or choose {_name_those(lambda other: other.allows_masks)}",
        )
    return kind.calibrate(target)


def _name_those(holds: Callable[[MechanismKind], bool]) -> str:
    return " or ".join(kind.name for kind in MECHANISMS.values() if holds(kind))
