"""Number of records in a selection, and of each block: exact where public, else estimated."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.estimate.totals import Totals
from sfumato.shared.errors import ConfigError
from sfumato.shared.plan import SketchPlan

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
    by_block, errors
        The same for each block of features: shapes ``(B,)``; 0 for a block without a sketch.
    """

    n_records: int
    standard_error: float
    by_block: tuple[int, ...]
    errors: NDArray[np.float64]

    @property
    def is_clear(self) -> bool:
        """True if there are more records than noise alone would show."""
        return self.n_records > 0 and self.n_records >= _CLEAR * self.standard_error

    @property
    def is_known(self) -> NDArray[np.bool_]:
        """Whether a block has records, and clearly so: shape ``(B,)``."""
        numbers = np.array(self.by_block, dtype=np.float64)
        known: NDArray[np.bool_] = (numbers > 0) & (numbers >= _CLEAR * self.errors)
        return known

    @property
    def relative_variance(self) -> NDArray[np.float64]:
        """The squared relative error of averages that divide by the estimate: shape ``(B,)``."""
        numbers = np.maximum(1.0, np.array(self.by_block, dtype=np.float64))
        relative: NDArray[np.float64] = (self.errors / numbers) ** 2
        return relative


def count_records(plan: SketchPlan, totals: Totals) -> RecordCount:
    """Count the records of a selection; post-processing of the release.

    Where the number is secret, ``n = sum of noised counts / count_scale`` with standard error
    ``sqrt(L Var)``, the noise of L sketches; so too for the L sketches of each block.
    """
    moments = totals.moments
    if not plan.releases_count or moments.n_sketches == 0:
        return RecordCount(
            n_records=moments.first,
            standard_error=0.0,
            by_block=tuple(moments.rows[1]),
            errors=np.zeros(moments.n_blocks),
        )
    scaled = totals.sums[-moments.n_blocks :].tolist()
    numbers = [_round(total, plan.count_scale) for total in scaled]
    return RecordCount(
        n_records=_round(sum(scaled), plan.count_scale),
        standard_error=math.sqrt(moments.n_sketches * plan.count_variance),
        by_block=tuple(n if held else 0 for n, held in zip(numbers, moments.rows[0], strict=True)),
        errors=np.sqrt(moments.floats[0] * plan.count_variance),
    )


def _round(total: int, scale: int) -> int:
    """Return the nearest whole number of records, at least 1; in integers, so alike everywhere."""
    return max(1, (2 * total + scale) // (2 * scale))


def put_count(totals: SomeTotals, count: RecordCount) -> SomeTotals:
    """Return the totals with the estimated numbers of records in place of the exact ones."""
    return replace(totals, moments=totals.moments.with_first(count.by_block))


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
