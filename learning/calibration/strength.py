"""Strength of a pilot: whether its histogram can be calibrated from, and what would do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from learning.estimate.histogram import Marginal

LEAST_STRENGTH: Final = 100.0
"""Least x: below it one bin's noise is 3 % of the records."""
_SURE_STRENGTH = 500.0
_EXCESS = ((25_000.0, 1.02), (2_000.0, 1.11), (-math.inf, 1.15))
_LEAST_SHARE, _LARGEST_SHARE = 0.1, 0.25
# The more noise, the fewer and wider bins: noise of a wide block grows with its number of bins.
_BINS_LOG2 = ((1000.0, 10), (300.0, 9), (0.0, 8))


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A pilot that is too weak to calibrate from.

    Parameters
    ----------
    strength
        Its x.
    factor
        So many times the records, or the epsilon, would do.
    """

    strength: float
    factor: float


def predict_strength(
    *, n_records: float, epsilon: float, n_dimensions: int, n_sums: int = 1
) -> float:
    """Return ``x = n epsilon / (d sqrt L)`` of a pilot with Laplace noise under replace-one.

    Parameters
    ----------
    n_records, epsilon, n_dimensions
        Of the pilot.
    n_sums
        L, the number of noised sums: devices times windows, or 2 under a secure sum.
    """
    return n_records * epsilon / (n_dimensions * math.sqrt(n_sums))


def judge_strength(strength: float) -> Refusal | None:
    """Refuse a pilot below the least strength; None if it suffices."""
    if strength >= LEAST_STRENGTH:
        return None
    factor = LEAST_STRENGTH / strength if strength > 0 else math.inf
    return Refusal(strength=strength, factor=factor)


def judge_pilot(marginals: Sequence[Marginal]) -> Refusal | None:
    """Refuse a pilot by the weakest of its dimensions."""
    return judge_strength(min(marginal.strength for marginal in marginals))


def bound_excess(strength: float) -> float:
    """Return how much larger the SSE may be than with known bounds and scale: a factor.

    A rule of thumb: the worst ratio of ten runs each of five sets of columns, without rare far
    clusters, in ``python -m benchmarks.calibration --first-seed 100``, was 1.02 from x = 25,000 on
    and 1.11 from 2,000 to there. Below, five runs of weather gave 1.15 at x = 650.
    """
    return next(factor for least, factor in _EXCESS if strength >= least)


def choose_bins_log2(strength: float) -> int:
    """Choose the number of bins of a dimension by the strength of the pilot."""
    return next(bits for least, bits in _BINS_LOG2 if strength >= least)


def choose_share(whole: float) -> float:
    """Choose the pilot's share of the records, or of epsilon, by the strength of all of them.

    The share that brings the pilot to x = 500, from 10 to 25 %: what is taken from the main study
    costs it little, and a weaker pilot can fail.
    """
    wanted = _SURE_STRENGTH / whole if whole > 0 else math.inf
    return min(_LARGEST_SHARE, max(_LEAST_SHARE, wanted))
