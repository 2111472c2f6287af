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
"""Standard errors above zero from which a number of records is told from no record at all."""


@dataclass(frozen=True, kw_only=True)
class RecordCount:
    """The records of a selection.

    Parameters
    ----------
    n_records
        Exact, or the nearest whole number to the estimate and at least 1.
    standard_error
        Of the estimate, in records; 0 where the number is exact.
    """

    n_records: int
    standard_error: float

    @property
    def is_clear(self) -> bool:
        """True if there are records beyond what noise alone would show."""
        return self.n_records > 0 and self.n_records >= _CLEAR * self.standard_error

    @property
    def relative_variance(self) -> float:
        """The squared relative error of every average that divides by the estimate."""
        return (self.standard_error / self.n_records) ** 2


def count_records(plan: SketchPlan, totals: Totals) -> RecordCount:
    """Count the records of a selection; post-processing of what was released.

    ``n = sum of noised counts / count_scale`` where the number is secret, with the noise of L
    sketches: ``sqrt(L Var)``.
    """
    n_sketches = totals.moments.n_sketches
    if not plan.releases_count or n_sketches == 0:
        return RecordCount(n_records=totals.moments.first, standard_error=0.0)
    scale = plan.release.count_scale
    # Whole numbers only, so that every machine rounds alike.
    nearest = (2 * int(totals.sums[-1]) + scale) // (2 * scale)
    return RecordCount(
        n_records=max(1, nearest), standard_error=math.sqrt(n_sketches * plan.count_variance)
    )


def put_count(totals: SomeTotals, count: RecordCount) -> SomeTotals:
    """Return the totals with the number of records put where the exact one would stand."""
    return replace(totals, moments=replace(totals.moments, first=count.n_records))


def require_clear(count: RecordCount) -> None:
    """Refuse a selection whose records cannot be told from the noise of their number.

    Raises
    ------
    ConfigError
        It is one.
    """
    if not count.is_clear:
        raise ConfigError(
            f"holds too few records to tell from the noise of their secret number: about "
            f"{count.n_records}, give or take {count.standard_error:.3g}",
            field="selection",
            fix="widen the slots or labels, or wait for more records",
        )
