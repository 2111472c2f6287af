"""Group privacy of people with many records, from the mechanism's own curve.

Pure noise protects q records at q epsilon. Gaussian noise does not: its loss grows with the square,
and delta at q epsilon is larger, often by orders of magnitude (``proofs.md``, section 6).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

from sfumato.shared.errors import PrivacyError
from sfumato.shared.privacy.accounting import (
    PrivacyEvent,
    compose,
    express_in_one_relation,
    join_events,
    scale_to_group,
    sum_losses,
)
from sfumato.shared.privacy.mechanism import Mechanism

USUAL_GROUPS = (1, 2, 5, 20)
"""Numbers of records of one person to show where the plan states no maximum."""
_STEPS = 1000


@dataclass(frozen=True, kw_only=True)
class GroupLoss:
    """Privacy loss of a person with many records: two points of one privacy curve.

    Parameters
    ----------
    n_records, n_windows
        q records in each of w windows.
    epsilon, delta
        The least epsilon, in thousandths of the plan's, at the delta of one release.
    multiple_epsilon, multiple_delta
        ``q w`` times the epsilon of one release, and a bound on delta there.
    """

    n_records: int
    n_windows: int
    epsilon: Fraction
    delta: Fraction
    multiple_epsilon: Fraction
    multiple_delta: Fraction


@lru_cache(maxsize=1024)
def compute_group_loss(mechanism: Mechanism, *, n_records: int, n_windows: int = 1) -> GroupLoss:
    """Bound the loss of someone with q records in each of w windows, released with one mechanism.

    ``epsilon(q, w) = min {e : delta(e; q, w) <= delta}``, with the curve of the mechanism at the
    distance of the group: ``q w epsilon_1`` for pure noise, and for the discrete Gaussian that of
    Balle and Wang (2018, Theorem 8) at ``sqrt(w) q Delta_2``, corrected for the integers.

    Parameters
    ----------
    mechanism
        Calibrated for one record.
    n_records, n_windows
        q and w, each at least 1.

    Returns
    -------
    GroupLoss
        Exact rationals, rounded towards more loss.

    Raises
    ------
    PrivacyError
        q or w is less than 1.

    Guarantees
    ----------
    Both pairs, (epsilon, delta) and (multiple_epsilon, multiple_delta), hold for all pairs of data
    sets that differ by changing (replace-one), or adding and removing (add-remove-one), at most q
    records in each of w windows.
    """
    for name, value in (("n_records", n_records), ("n_windows", n_windows)):
        if value < 1:
            raise PrivacyError("must be at least 1", field=name, fix="use a whole number such as 1")
    one = mechanism.guarantee
    multiple = n_records * n_windows * one.epsilon

    def bound(epsilon: Fraction) -> Fraction:
        return mechanism.bound_delta(epsilon, n_records=n_records, n_windows=n_windows)

    epsilon = multiple
    if one.delta and n_records * n_windows > 1:
        step = one.epsilon / _STEPS
        epsilon = step * _find_least(lambda k: bound(k * step) <= one.delta)
    return GroupLoss(
        n_records=n_records,
        n_windows=n_windows,
        epsilon=epsilon,
        delta=one.delta,
        multiple_epsilon=multiple,
        multiple_delta=min(bound(multiple), Fraction(1)) if one.delta else Fraction(0),
    )


def bound_group_loss(
    events: Sequence[PrivacyEvent], *, n_records: int, n_windows: int = 1
) -> GroupLoss:
    """Bound the loss of someone with q records in each of w windows, by events in sequence.

    Looser than :func:`compute_group_loss`, which knows the curve of a single mechanism.

    Parameters
    ----------
    events
        What one record in one window loses by, at least one.
    n_records, n_windows
        q and w, each at least 1.

    Guarantees
    ----------
    As :func:`compute_group_loss`, under replace-one where the events are under both relations.
    """
    one = join_events(events)
    scaled = [
        replace(scaled, count=n_windows * scaled.count)
        for scaled in (scale_to_group(each, n_records) for each in express_in_one_relation(events))
    ]
    summed, loss = sum_losses(scaled), compose(scaled, delta=one.delta)
    epsilon, delta = summed.epsilon, min(summed.delta, Fraction(1))
    if loss is not None and n_records * n_windows > 1:
        epsilon, delta = loss.epsilon, one.delta
    return GroupLoss(
        n_records=n_records,
        n_windows=n_windows,
        epsilon=epsilon,
        delta=delta,
        multiple_epsilon=summed.epsilon,
        multiple_delta=min(summed.delta, Fraction(1)),
    )


def _find_least(suffices: Callable[[int], bool]) -> int:
    """Find a whole number that suffices: the least one, if ``suffices`` is monotone."""
    low, high = 0, _STEPS
    while not suffices(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if suffices(middle):
            high = middle
        else:
            low = middle
    return high


def format_upper(value: Fraction) -> str:
    """Write a non-negative bound as a decimal of at most three digits, rounded up."""
    if value == 0:
        return "0"
    with localcontext(prec=3, rounding=ROUND_CEILING):
        decimal = Decimal(value.numerator) / Decimal(value.denominator)
    if decimal < Decimal("1e-4"):
        return f"{float(decimal):.3g}"
    return f"{decimal.normalize():f}"
