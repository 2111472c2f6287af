"""Reports of bins as a mechanism: counts of one record in, counts of other bins out.

The bins of a dimension lie on a circle, in the order of their values. A report is the place of the
record's bin, moved by the random offset of phase reports.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.shared.arrays import Integers
from sfumato.shared.errors import PrivacyError
from sfumato.shared.privacy.mechanism import NoiseTail
from sfumato.shared.privacy.mechanisms.phase import CircularReports
from sfumato.shared.privacy.samplers import RandomSource


@dataclass(frozen=True, kw_only=True)
class BinCircle:
    """The places of bins on a circle.

    Parameters
    ----------
    order
        Q different numbers from 0 to Q - 1: the bin at each place.
    """

    order: tuple[int, ...]

    @property
    def n_bins(self) -> int:
        """Q, the bins of one dimension."""
        return len(self.order)

    def find_places(self, counts: Integers) -> Integers:
        """Return the place of the bin of each dimension: shape ``(r,)`` for ``(r Q,)``.

        Raises
        ------
        PrivacyError
            They are not the counts of one record: 1 in one bin of each dimension.
        """
        bins = counts.reshape(-1, self.n_bins)
        is_one = (counts.min() >= 0) and np.array_equal(bins.sum(axis=1), np.ones(len(bins)))
        if not is_one:
            raise PrivacyError(
                "must be the counts of one record",
                field="sums",
                fix="report this: a report was about to be drawn from something else",
            )
        # A product rather than a search, so that the work is the same for every bin.
        places: Integers = bins @ np.argsort(self.order)
        return places

    def make_counts(self, places: NDArray[np.integer]) -> Integers:
        """Return the counts that places stand for: shape ``(n, r Q)`` for ``(n, r)``."""
        bins = np.array(self.order)[places]
        counts = np.zeros((*places.shape, self.n_bins), dtype=np.int64)
        np.put_along_axis(counts, bins[..., None], 1, axis=-1)
        return counts.reshape(len(places), -1)


@dataclass(frozen=True, kw_only=True)
class BinReports(CircularReports):
    """Moves the bin of each carried dimension of one record by a random offset.

    A released dimension has 1 in one bin, as that of a record has. With probability ``gain`` the
    bin lies within the law's arc around the record's, each as likely; otherwise it is uniform.

    Guarantees
    ----------
    The reports of one record on ``n_reports`` dimensions are epsilon differentially private
    (``proofs.md``, section 9): ``certify_odds`` proves it when an object is made.

    Parameters
    ----------
    circle
        Where the bins lie; the law's circle has as many phases.
    """

    circle: BinCircle

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.law.circle != self.circle.n_bins:
            raise PrivacyError(
                f"must have {self.circle.n_bins} places and has {self.law.circle}",
                field="law.circle",
                fix="take the law from choose_bin_law for these bins",
            )

    @property
    def gain(self) -> float:
        """The share of reports that depend on the record."""
        return self.law.reach

    @property
    def variance(self) -> float:
        """Variance of one bin of a report, for a record that is in any bin alike."""
        return (1.0 - 1.0 / self.circle.n_bins) / self.circle.n_bins

    def bound_tail(self, n_coordinates: int, *, exponent: float) -> NoiseTail:
        """Bound the noise for certain: two laws on a dimension's bins are at most sqrt 2 apart."""
        return NoiseTail(
            exponent=exponent, squared_norm=2.0 * self.n_reports, spread=0.0, reach=0.0
        )

    def add_noise(self, sums: Integers, source: RandomSource) -> Integers:
        """Return the counts of the reports of one record: shape ``(r Q,)``, int64.

        A second call is a second release.

        Parameters
        ----------
        sums
            The record's counts, shape ``(r Q,)``: 1 in one bin of each dimension.

        Raises
        ------
        PrivacyError
            They are not the counts of one record; nothing was drawn.
        """
        places = self.circle.find_places(sums).tolist()
        reports = [self.law.report(place, source) for place in places]
        (released,) = self.circle.make_counts(np.array([reports]))
        counts: Integers = released
        return counts
