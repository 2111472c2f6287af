"""A synthetic table of the demo beside the raw records, which only a demonstration may read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from sfumato.analyst.results.synthetic import SyntheticRecords

N_RECORDS = 10_000
_N_RANGES = 1000

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Mean errors of a table, and those that it states; NaN where it states none.

    Parameters
    ----------
    range_error, stated_range_error
        Errors of shares of ranges of one column, over all records.
    correlation_error, stated_correlation_error
        Errors of correlations of two columns.
    """

    n_records: int
    range_error: float
    stated_range_error: float
    correlation_error: float
    stated_correlation_error: float

    def describe(self) -> str:
        """Describe the errors in a sentence."""
        return (
            f"{self.n_records:,} rows; ranges of a column off by {self.range_error:.1%} "
            f"({_say(self.stated_range_error, '.1%')}), correlations by "
            f"{self.correlation_error:.2f} ({_say(self.stated_correlation_error, '.2f')})"
        )


def compare(table: SyntheticRecords, records: Floats) -> Comparison:
    """Compare a table with the records it stands for, shape ``(n, d)``, clipped to the bounds."""
    drawn = np.array([table.columns[name] for name in table.names]).T
    rng = np.random.default_rng(0)
    errors = [
        np.mean(np.abs(_count(ours, ends) - _count(theirs, ends)))
        for ours, theirs in zip(drawn.T, records.T, strict=True)
        for ends in [np.sort(rng.uniform(theirs.min(), theirs.max(), (_N_RANGES, 2)), axis=1)]
    ]
    missed = [
        _correlate(drawn[:, i], drawn[:, j]) - _correlate(records[:, i], records[:, j])
        for i, j in combinations(range(len(table.names)), 2)
    ]
    stated = list(table.correlation_errors.values())
    return Comparison(
        n_records=len(table),
        range_error=float(np.mean(errors)),
        stated_range_error=table.errors.get(1, math.nan),
        correlation_error=float(np.mean(np.abs(missed))),
        stated_correlation_error=float(np.mean(stated)) if stated else math.nan,
    )


def _count(values: Floats, ends: Floats) -> Floats:
    """Return the shares of values between two ends: shape ``(r,)``."""
    ordered = np.sort(values)
    found = np.searchsorted(ordered, ends[:, 1], "right") - np.searchsorted(ordered, ends[:, 0])
    shares: Floats = found / len(values)
    return shares


def _correlate(ours: Floats, theirs: Floats) -> float:
    return float(np.corrcoef(ours, theirs)[0, 1])


def _say(error: float, form: str) -> str:
    return "none stated" if math.isnan(error) else f"{error:{form}} stated"
