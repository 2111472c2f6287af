"""From what a plan promises to the mechanism that keeps it; wrong combinations are refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from shared.core import AMPLITUDE, feature_table
from shared.errors import PrivacyError
from shared.privacy.gaussian import DiscreteGaussian
from shared.privacy.knorm import DiscreteKNorm
from shared.privacy.laplace import DiscreteLaplace
from shared.privacy.mechanism import Mechanism
from shared.privacy.polygon import compute_norm_sensitivity
from shared.privacy.sensitivity import Sensitivity, compute_sensitivity

MECHANISMS = ("discrete-knorm", "discrete-laplace", "discrete-gaussian")


@dataclass(frozen=True, kw_only=True)
class PrivacyTarget:
    """The guarantee that a release must have, and the sums it is for.

    Parameters
    ----------
    mechanism
        One of ``MECHANISMS``.
    n_frequencies, measurements_per_record
        m and r.
    epsilon, delta
        Exact; delta is 0 but for the discrete Gaussian.
    neighbouring
        ``replace-one`` or ``add-remove-one``.
    """

    mechanism: str
    n_frequencies: int
    measurements_per_record: int
    epsilon: Fraction
    delta: Fraction
    neighbouring: str

    @property
    def sensitivity(self) -> Sensitivity:
        """The enumerated sensitivities of the sum."""
        return _enumerate_sensitivity(self.measurements_per_record, self.neighbouring)

    @property
    def release_sensitivity(self) -> Sensitivity:
        """The sensitivities of all that is released: of the sum, with the count if it is secret."""
        features = self.sensitivity
        count = self.count_scale if self.releases_count else 0
        return Sensitivity(
            l1=features.l1 + count,
            l2_squared=features.l2_squared + count**2,
            modulus_squared=features.modulus_squared,
        )

    @property
    def releases_count(self) -> bool:
        """True if the number of records is secret, and so released with noise after the features.

        Under add-remove-one, where a record's presence is what is protected.
        """
        return self.neighbouring == "add-remove-one"

    @property
    def count_scale(self) -> int:
        """The factor that multiplies the number of records before noise is added.

        A record then changes it as far as the mechanism's norm allows a feature to change.
        """
        return self.norm_sensitivity if self.mechanism == "discrete-knorm" else AMPLITUDE

    @property
    def norm_sensitivity(self) -> int:
        """The enumerated sensitivity in the norm of the K-norm mechanism."""
        return _enumerate_norm_sensitivity(self.neighbouring)


# Every plan that is read is checked against these, and they depend on little: once is enough.


@lru_cache(maxsize=256)
def _enumerate_sensitivity(measurements_per_record: int, neighbouring: str) -> Sensitivity:
    return compute_sensitivity(
        feature_table(),
        measurements_per_record=measurements_per_record,
        neighbouring=neighbouring,
    )


@lru_cache(maxsize=256)
def _enumerate_norm_sensitivity(neighbouring: str) -> int:
    return compute_norm_sensitivity(
        feature_table(), DiscreteKNorm.polygon, neighbouring=neighbouring
    )


def compute_count_variance(target: PrivacyTarget, mechanism: Mechanism) -> float:
    """Return the noise variance of a released number of records, in records squared.

    0 where the number is public.
    """
    if not target.releases_count:
        return 0.0
    if isinstance(mechanism, DiscreteKNorm):
        return mechanism.count_variance
    return mechanism.variance / target.count_scale**2


def calibrate_mechanism(target: PrivacyTarget) -> Mechanism:
    """Find the least noise of the chosen mechanism that keeps the promise.

    Raises
    ------
    PrivacyError
        The mechanism is unknown, cannot give the guarantee, or would be wasteful with masks.
    """
    if target.mechanism not in _CALIBRATIONS:
        raise PrivacyError(f"must be one of {', '.join(MECHANISMS)}", field="mechanism")
    if target.mechanism != "discrete-gaussian" and target.delta != 0:
        raise PrivacyError(
            f"must be 0 with {target.mechanism}, which needs none",
            field="delta",
            fix="leave it out, or choose discrete-gaussian",
        )
    masked = target.measurements_per_record < target.n_frequencies
    if masked and target.releases_count:
        raise PrivacyError(
            "must equal n_frequencies under add-remove-one: a record that is absent shifts the "
            "counter, and with it the masks, of all that follow",
            field="measurements_per_record",
            fix="leave it out",
        )
    if masked and target.mechanism != "discrete-laplace":
        raise PrivacyError(
            f"must equal n_frequencies with {target.mechanism}: one record then moves few of the "
            "features that its noise covers, which costs at least 1 / alpha times the variance",
            field="measurements_per_record",
            fix="leave it out, or choose discrete-laplace",
        )
    return _CALIBRATIONS[target.mechanism](target)


def _calibrate_laplace(target: PrivacyTarget) -> Mechanism:
    return DiscreteLaplace.calibrate(
        sensitivity_l1=target.release_sensitivity.l1,
        epsilon=target.epsilon,
        neighbouring=target.neighbouring,
    )


def _calibrate_knorm(target: PrivacyTarget) -> Mechanism:
    return DiscreteKNorm.calibrate(
        n_frequencies=target.n_frequencies,
        norm_sensitivity=target.norm_sensitivity,
        epsilon=target.epsilon,
        neighbouring=target.neighbouring,
        n_counts=int(target.releases_count),
    )


def _calibrate_gaussian(target: PrivacyTarget) -> Mechanism:
    return DiscreteGaussian.calibrate(
        n_coordinates=2 * target.n_frequencies + int(target.releases_count),
        sensitivity_l2_squared=target.release_sensitivity.l2_squared,
        epsilon=target.epsilon,
        delta=target.delta,
        neighbouring=target.neighbouring,
    )


_CALIBRATIONS: dict[str, Callable[[PrivacyTarget], Mechanism]] = {
    "discrete-knorm": _calibrate_knorm,
    "discrete-laplace": _calibrate_laplace,
    "discrete-gaussian": _calibrate_gaussian,
}
