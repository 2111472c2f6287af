"""Interface of the local methods: reports of devices, their tally, and centroids."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.lab.clustering.unary import Bytes, UnaryLaw
from sfumato.shared.arrays import Floats, Integers
from sfumato.shared.core import Quantiser
from sfumato.shared.core.quantise import STEPS
from sfumato.shared.errors import PlanError
from sfumato.shared.privacy.samplers import RandomSource


@dataclass(frozen=True, kw_only=True, eq=False)
class Tally:
    """Exact sums over reports; tallies of parts of a fleet add up in any order.

    Parameters
    ----------
    ones
        Shape ``(g, s)``, int64: reports of each group that have a one for each symbol.
    n_reports
        Shape ``(g,)``, int64: reports of each group.
    """

    ones: Integers
    n_reports: Integers

    def __add__(self, other: Tally) -> Tally:
        return Tally(ones=self.ones + other.ones, n_reports=self.n_reports + other.n_reports)

    @property
    def total(self) -> int:
        """The number of reports n."""
        return int(self.n_reports.sum())


@dataclass(frozen=True, kw_only=True, eq=False)
class LocalMethod:
    """Public parameters from which each device makes one report of one record.

    Parameters
    ----------
    epsilon
        Epsilon of a device's one report, an exact rational.
    lower, upper
        The public box, shape ``(d,)``, data units.

    Guarantees
    ----------
    ``report`` is epsilon-local differentially private for the values of the record; that the device
    takes part is public. ``tally``, ``recover`` and ``estimate`` read reports only.
    """

    epsilon: Fraction
    lower: ArrayLike
    upper: ArrayLike

    @cached_property
    def law(self) -> UnaryLaw:
        """The law of a report's unary code."""
        raise NotImplementedError

    @property
    def odds(self) -> Fraction:
        """The largest odds of any report between any two records, exact, at most exp(epsilon)."""
        return self.law.odds

    @property
    def report_bytes(self) -> int:
        """The length of a report."""
        return self.law.report_bytes

    @cached_property
    def quantiser(self) -> Quantiser:
        """The quantiser of the box."""
        return build_quantiser(self.lower, self.upper)

    def report(self, records: NDArray[np.floating], source: RandomSource) -> Bytes:
        """Draw the reports of records, one a device; a second call is a second release.

        Parameters
        ----------
        records
            Shape ``(n, d)``, float32 or float64, data units. Values outside the box are clipped.
            A row with a value that is not finite gives a blank report. The law of a blank does not
            depend on the row, is within the odds, and adds zero to every estimate in the mean.
        source
            Source of the random bytes; how many are drawn does not depend on the records.

        Returns
        -------
        NDArray[np.uint8]
            Shape ``(n, report_bytes)``.

        Raises
        ------
        RecordError
            The records are not floating-point numbers of shape ``(n, d)``.
        """
        raise NotImplementedError

    def tally(self, reports: Bytes) -> Tally:
        """Add up reports.

        Raises
        ------
        PlanError
            The reports were not made with these parameters.
        """
        raise NotImplementedError

    def recover(self, tally: Tally, *, n_clusters: int, rng: np.random.Generator) -> Floats:
        """Estimate centroids: shape ``(k, d)``, data units, inside the box.

        Parameters
        ----------
        tally
            Tally of all reports.
        n_clusters
            k.
        rng
            Source of the starts of k-means; no part of the guarantee.

        Raises
        ------
        PlanError
            There is no report, the tally has another shape, or k is below 1.
        """
        raise NotImplementedError

    def estimate(self, reports: Bytes, *, n_clusters: int, rng: np.random.Generator) -> Floats:
        """Tally reports and recover centroids: shape ``(k, d)``, data units."""
        return self.recover(self.tally(reports), n_clusters=n_clusters, rng=rng)


def build_quantiser(lower: ArrayLike, upper: ArrayLike) -> Quantiser:
    """Build the quantiser of a public box, both bounds of shape ``(d,)``, data units.

    Raises
    ------
    PlanError
        The bounds differ in shape, are empty, not finite, or not in order.
    """
    low, high = np.asarray(lower, dtype=np.float64), np.asarray(upper, dtype=np.float64)
    if low.ndim != 1 or low.shape != high.shape or not low.size:
        raise PlanError(
            f"must be two vectors of one length, not shapes {low.shape} and {high.shape}",
            field="lower, upper",
            fix="give a lower and an upper bound for each dimension",
        )
    return Quantiser.from_bounds(low, high)


def restore_units(quantiser: Quantiser, steps: Floats) -> Floats:
    """Convert points ``(M, d)`` from quantisation steps to data units."""
    points: Floats = quantiser.centre + steps * (quantiser.half_width / STEPS)
    return points


def require_tally(tally: Tally, n_groups: int, n_symbols: int) -> None:
    """Refuse a tally of other parameters, or of no report.

    Raises
    ------
    PlanError
        Its shape is another, or it counts no report.
    """
    if tally.ones.shape != (n_groups, n_symbols) or tally.n_reports.shape != (n_groups,):
        raise PlanError(
            f"must have {n_groups} groups of {n_symbols} symbols, not shape {tally.ones.shape}",
            field="tally",
            fix="tally the reports with the parameters that they were made with",
        )
    if tally.total < 1:
        raise PlanError(
            "must count at least one report", field="reports", fix="wait until a device reports"
        )


def require_sizes(n_records: int, n_clusters: int) -> None:
    """Refuse public numbers from which nothing can be chosen.

    Raises
    ------
    PlanError
        The number of records or of clusters is below 1.
    """
    for field, value in (("n_records", n_records), ("n_clusters", n_clusters)):
        if value < 1:
            raise PlanError("must be at least 1", field=field, fix="state the expected number")
