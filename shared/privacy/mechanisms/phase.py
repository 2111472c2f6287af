"""Phase reports as a mechanism: rows of the feature table in, rows of other phases out."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Final

import numpy as np

from sfumato.shared.arrays import Integers
from sfumato.shared.core import AMPLITUDE, feature_table
from sfumato.shared.errors import PrivacyError
from sfumato.shared.privacy.circle import CircularLaw, certify_odds
from sfumato.shared.privacy.mechanism import NoiseTail, PrivacyGuarantee, bound_pure_delta
from sfumato.shared.privacy.samplers import RandomSource

PHASE_REPORT: Final = "phase-report"
"""The name of this mechanism; plans of the release kind ``phase.v1`` have no other."""
_SOME_ROW: Final = feature_table()[0].astype(np.int64)[:, None]


@dataclass(frozen=True, kw_only=True)
class CircularReports:
    """Base of the reports of one record on a circle.

    Parameters
    ----------
    law
        The law of the offsets.
    n_reports
        r, the reports of one record.
    epsilon
        Epsilon of all reports of a record together.

    Raises
    ------
    PrivacyError
        The law does not keep epsilon, or has no gain.
    """

    law: CircularLaw
    n_reports: int
    epsilon: Fraction

    def __post_init__(self) -> None:
        certify_odds(self.law, self.epsilon, self.n_reports)
        if self.law.weight == 1 << self.law.bits:
            raise PrivacyError(
                "must be greater than 2^bits, or a report says nothing",
                field="weight",
                fix="take the law from choose_law",
            )

    @property
    def noise_bound(self) -> int:
        """0: what is released is no larger than a record's."""
        return 0

    @property
    def scale(self) -> Fraction:
        """The odds of a report between two phases, exact."""
        return self.law.odds

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """The proved bound for the reports of one record."""
        return PrivacyGuarantee(epsilon=self.epsilon, delta=Fraction(0), neighbouring="replace-one")

    def bound_delta(self, epsilon: Fraction, *, n_records: int = 1, n_windows: int = 1) -> Fraction:
        """Bound delta at an epsilon for q records in each of w windows: 0 from q w epsilon on."""
        return bound_pure_delta(self.guarantee, epsilon, n_records=n_records, n_windows=n_windows)

    def compute_count_variance(self, count_scale: int) -> float:
        """Return 0: the number of records is public, one."""
        return 0.0


@dataclass(frozen=True, kw_only=True)
class PhaseReports(CircularReports):
    """Moves the phase of each feature of one record by a random offset.

    A released feature is the row of a reported phase, so its modulus is A whatever the record is,
    and its mean is ``gain`` times the record's feature. What this leaves of it,
    ``A^2 (1 - gain^2)``, is the noise energy of a feature.

    Guarantees
    ----------
    The reports of one record on ``n_reports`` features are epsilon differentially private
    (``proofs.md``, section 9): ``certify_odds`` proves it when an object is made.
    """

    @property
    def gain(self) -> float:
        """Return eta, by which the mean of a released feature is shorter than the record's."""
        return self.law.gain

    @property
    def variance(self) -> float:
        """Noise variance of one real coordinate of a report, ``A^2 (1 - gain^2) / 2``."""
        return AMPLITUDE**2 * (1.0 - self.gain**2) / 2.0

    def bound_tail(self, n_coordinates: int, *, exponent: float) -> NoiseTail:
        """Bound the noise for certain: a report and its mean are both at most A long."""
        return NoiseTail(
            exponent=exponent,
            squared_norm=n_coordinates / 2 * (AMPLITUDE * (1.0 + self.gain)) ** 2,
            spread=0.0,
            reach=0.0,
        )

    def add_noise(self, sums: Integers, source: RandomSource) -> Integers:
        """Return the rows of the reports of one record: shape ``(2 r,)``, int64.

        A second call is a second release.

        Parameters
        ----------
        sums
            The record's features, shape ``(2 r,)``: r rows of the feature table, real parts, then
            imaginary parts; all 0 for a record that cannot be sketched, whose reports are uniform.

        Raises
        ------
        PrivacyError
            It is not the sum of one record; nothing was drawn.
        """
        features = sums.reshape(2, -1)
        is_sketched = bool(features.any())
        # Another row in the place of what is no row, so that the work is the same.
        rows = features if is_sketched else np.zeros_like(features) + _SOME_ROW
        draw = self.law.report if is_sketched else self._report_nothing
        reports = [draw(phase, source) for phase in find_phases(rows).tolist()]
        return feature_table()[reports].T.astype(np.int64).ravel()

    def _report_nothing(self, phase: int, source: RandomSource) -> int:
        return self.law.uniform_report(source)


def find_phases(features: Integers) -> Integers:
    """Return the least phase that has each feature: shape ``(n,)`` for ``(2, n)``.

    Neighbouring phases may share a row of the feature table; they differ by less than the table's
    own error.

    Raises
    ------
    PrivacyError
        A feature is no row of the table.
    """
    keys, phases = _index_rows()
    wanted = _pack(features)
    found = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
    if not np.array_equal(keys[found], wanted):
        raise PrivacyError(
            "is not the feature of one record",
            field="sums",
            fix="report this: a phase report was about to be drawn from something else",
        )
    least: Integers = phases[found]
    return least


@cache
def _index_rows() -> tuple[Integers, Integers]:
    keys, first = np.unique(_pack(feature_table().T.astype(np.int64)), return_index=True)
    return keys, first.astype(np.int64)


def _pack(features: Integers) -> Integers:
    packed: Integers = (features[0] << np.int64(32)) + features[1]
    return packed
