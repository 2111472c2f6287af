"""Strength of a pilot: whether its histogram can be calibrated from, and what would do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sfumato.learning.estimate.histogram import Marginal
from sfumato.learning.estimate.reports import ReportedMarginal, measure_reports
from sfumato.shared.privacy.circle import LARGEST_EPSILON

LEAST_STRENGTH: Final = 100.0
"""Least x: below it one bin's noise is 3 % of the records."""
LEAST_REPORTED: Final = 200.0
"""Least x of reports: from here on ``python -m benchmarks.reported_pilots`` found all spreads
within a factor of 2.2, or 2.5 in two bins; at 160 it was wrong by 16 once in 80 columns."""
_SURE_STRENGTH = 500.0
CLEAR_STRENGTH: Final = 2000.0
"""x of a pilot that shows long tails: those of ``pareto`` in ``python -m benchmarks.calibration``
show at 3,300, and stay hidden at 670."""
_EXCESS = ((5_000.0, 1.02), (2_000.0, 1.11), (-math.inf, 1.15))
_TAIL_EXCESS = 8.0
_LEAST_SHARE, _CHEAP_SHARE, _LARGEST_SHARE = 0.1, 0.2, 0.25
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
        So many times the records would do: for reports, so many times the devices.
    epsilon_factor
        So many times the epsilon would do; infinite where none would.
    are_reports
        Whether devices report bins rather than release counts.
    """

    strength: float
    factor: float
    epsilon_factor: float
    are_reports: bool = False


def predict_strength(
    *, n_records: float, epsilon: float, n_dimensions: int, n_sums: int = 1
) -> float:
    """Return ``x = n epsilon / (d sqrt L)`` of a pilot with Laplace noise under replace-one.

    Parameters
    ----------
    n_records, epsilon, n_dimensions
        Size, epsilon and dimensions of the pilot.
    n_sums
        L, the number of noised sums: devices times windows, or 2 under a secure sum.
    """
    return n_records * epsilon / (n_dimensions * math.sqrt(n_sums))


def judge_strength(strength: float) -> Refusal | None:
    """Refuse a pilot below the least strength; None if it suffices."""
    if strength >= LEAST_STRENGTH:
        return None
    factor = LEAST_STRENGTH / strength if strength > 0 else math.inf
    return Refusal(strength=strength, factor=factor, epsilon_factor=factor)


def judge_reports(strength: float, *, epsilon: float) -> Refusal | None:
    """Refuse reports of bins below the least strength; None if they suffice.

    Parameters
    ----------
    strength
        x, proportional to the root of the devices and to the share of telling reports.
    epsilon
        Epsilon of one report.
    """
    if strength >= LEAST_REPORTED:
        return None
    needed = predict_reach(epsilon) * LEAST_REPORTED / strength
    low, high = epsilon, float(LARGEST_EPSILON)
    is_possible = predict_reach(high) >= needed
    while is_possible and high - low > 1e-3 * low:
        middle = (low + high) / 2.0
        low, high = (low, middle) if predict_reach(middle) >= needed else (middle, high)
    return Refusal(
        strength=strength,
        factor=(LEAST_REPORTED / strength) ** 2,
        epsilon_factor=high / epsilon if is_possible else math.inf,
        are_reports=True,
    )


def count_needed_reports(reach: float) -> int:
    """Return the fewest reports of a dimension that suffice, by the share of telling ones."""
    return math.ceil(LEAST_REPORTED**2 / measure_reports(reach, 1.0) ** 2)


def predict_reach(epsilon: float) -> float:
    """Predict the share of telling reports of bins in order, for many bins.

    The share s of the arc is that of :func:`sfumato.shared.privacy.circle.choose_bin_law`; with L
    the odds ``s (L - 1) / (1 + s (L - 1))`` of the reports tell of the record.
    """
    excess = math.expm1(epsilon)
    part = ((excess + 1.0) * epsilon - excess) / excess
    return part / (1.0 + part)


def judge_pilot(marginals: Sequence[Marginal | ReportedMarginal]) -> Refusal | None:
    """Refuse a pilot by the weakest of its dimensions."""
    weakest = min(marginals, key=lambda marginal: marginal.strength)
    if isinstance(weakest, ReportedMarginal):
        return judge_reports(weakest.strength, epsilon=math.log(weakest.law.odds))
    return judge_strength(weakest.strength)


def bound_excess(strength: float, *, has_tail: bool = False) -> float:
    """Return how much larger the SSE may be than with known bounds and scale: a factor.

    A rule of thumb. In ten runs each of seven sets of columns, without rare far clusters, in
    ``python -m benchmarks.calibration``, the relative SSE was within the band for known bounds
    times 1.02 from x = 5,000 on, but where it was judged on another scale than the plan's. Between
    2,000 and there the worst ratio to known bounds was 1.1 on weather. Below, five runs of weather
    gave 1.15 at x = 650.

    Parameters
    ----------
    strength
        x of the pilot.
    has_tail
        Whether few far values hold much of a column's variance on its scale, or may, or its scale
        is a guess. 27 runs in which
        sizes of files, lengths of functions, Pareto and log-normal columns were kept on linear
        scales gave relative SSE from 1.02 to 3.7, and six of Pareto columns after weak pilots from
        1.1 to 8.3.
    """
    excess = next(factor for least, factor in _EXCESS if strength >= least)
    return excess * (_TAIL_EXCESS if has_tail else 1.0)


def choose_bins_log2(strength: float) -> int:
    """Choose the number of bins of a dimension by the strength of the pilot."""
    return next(bits for least, bits in _BINS_LOG2 if strength >= least)


def choose_share(whole: float) -> float:
    """Choose the pilot's share of the records, or of epsilon, by the strength of all of them.

    The share that brings the pilot to x = 500, from 10 to 25 %: what is taken from the main study
    costs it little, and a weaker pilot can fail. Where up to 20 % bring it to x = 2000, it is that
    share, because long tails show from there on.
    """
    if _CHEAP_SHARE * whole >= CLEAR_STRENGTH:
        return max(_LEAST_SHARE, CLEAR_STRENGTH / whole)
    wanted = _SURE_STRENGTH / whole if whole > 0 else math.inf
    return min(_LARGEST_SHARE, max(_LEAST_SHARE, wanted))


def round_up_level(value: float) -> float:
    """Round a positive number up to two digits, for what would do; infinity stays."""
    if math.isinf(value):
        return value
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / step - 1e-9) * step:.2g}")
