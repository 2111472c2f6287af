"""Number of records in a selection: exact where public, estimated where secret."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TypeVar

from learning.estimate.totals import Totals
from shared.errors import ConfigError
from shared.plan import SketchPlan

SomeTotals = TypeVar("SomeTotals", bound=Totals)
_CLEAR = 4.0
"""Standard errors above zero at which a number of records is distinct from none."""


@dataclass(frozen=True, kw_only=True)
class RecordCount:
    """The number of records in a selection.

    Parameters
    ----------
    n_records
        Exact, or the estimate rounded to a whole number of at least 1.
    standard_error
        Standard error of the estimate, in records; 0 where the number is exact.
    """

    n_records: int
    standard_error: float

    @property
    def is_clear(self) -> bool:
        """True if there are more records than noise alone would show."""
        return self.n_records > 0 and self.n_records >= _CLEAR * self.standard_error

    @property
    def relative_variance(self) -> float:
        """The squared relative error of every average that divides by the estimate."""
        return (self.standard_error / self.n_records) ** 2


def count_records(plan: SketchPlan, totals: Totals) -> RecordCount:
    """Count the records of a selection; post-processing of the release.

    Where the number is secret, ``n = sum of noised counts / count_scale`` with standard error
    ``sqrt(L Var)``, the noise of L sketches.
    """
    n_sketches = totals.moments.n_sketches
    if not plan.releases_count or n_sketches == 0:
        return RecordCount(n_records=totals.moments.first, standard_error=0.0)
    scale = plan.release.count_scale
    # Integer arithmetic, so that every machine rounds alike.
    nearest = (2 * int(totals.sums[-1]) + scale) // (2 * scale)
    return RecordCount(
        n_records=max(1, nearest), standard_error=math.sqrt(n_sketches * plan.count_variance)
    )


def put_count(totals: SomeTotals, count: RecordCount) -> SomeTotals:
    """Return the totals with the estimated number of records in place of the exact one."""
    return replace(totals, moments=replace(totals.moments, first=count.n_records))


def require_clear(count: RecordCount) -> None:
    """Refuse a selection whose records are indistinct from the noise of their secret number.

    Raises
    ------
    ConfigError
        The selection is too small.
    """
    if not count.is_clear:
        raise ConfigError(
            "holds too few records to distinguish from the noise of their secret number: about "
            f"{count.n_records}, with a standard error of {count.standard_error:.3g}",
            field="selection",
            fix="widen the slots or labels, or wait for more records",
        )
