"""A plan's promise for people: the odds of a guess, and a person with many records."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Decimal, localcontext
from fractions import Fraction

from sfumato.shared.plan.model import SketchPlan
from sfumato.shared.privacy.group import compute_group_loss, format_upper
from sfumato.shared.privacy.limits import ABSURD_EPSILON

RECORDS_A_DAY = 288
"""Records of the example where nobody knows better: one every five minutes."""
_DAY_S = 86_400
_DAYS = 14
_DIGITS = 40


def bound_odds(epsilon: Fraction, delta: Fraction = Fraction(0)) -> Fraction:
    """Bound the odds of a guess between two cases that are equally likely beforehand.

    ``(exp(epsilon) + delta) / (1 - delta)`` to 1: a guess from a release is right at most so many
    times as often as it is wrong. Without a delta this holds for every single release, too.

    Parameters
    ----------
    epsilon, delta
        Guarantee that compares the two cases; delta below 1.

    Returns
    -------
    Fraction
        Rounded up.

    Guarantees
    ----------
    For a test with the probabilities a and b of the answer "first" in the two cases, both
    ``a <= exp(epsilon) b + delta`` and ``1 - b <= exp(epsilon) (1 - a) + delta`` hold; their sum
    bounds the probability of being right, ``(a + 1 - b) / 2``, by
    ``(exp(epsilon) + delta) / (exp(epsilon) + 1)``.
    """
    with localcontext(prec=_DIGITS, rounding=ROUND_CEILING):
        exponent = Decimal(epsilon.numerator) / Decimal(epsilon.denominator)
        # ``exp`` rounds half to even, whatever the context says.
        factor = Fraction(exponent.exp().next_plus())
    return (factor + delta) / (1 - delta)


def describe_odds(plan: SketchPlan) -> str:
    """Describe the promise for one record, or for a device's window, as the odds of a guess."""
    secret, sender = "what one record says", "All that a device sends"
    if plan.protects_devices:
        secret = "what the records of a device in one window say"
    elif plan.releases_count:
        secret = "whether one record exists"
    if plan.sum_release is not None:
        sender = "The totals, and all that one of the two servers sees alone,"
    one = compute_group_loss(plan.mechanism, n_records=1)
    change = f"change these even odds to at most {_show_odds(one.epsilon, one.delta)}"
    if one.epsilon > ABSURD_EPSILON:
        change = "make one of them all but certain"
    average = " on average, and seldom to more" if one.delta else ""
    words = (
        f"In plain words: suppose that somebody knows everything except {secret}, and holds two "
        f"answers for equally likely. {sender} can {change}{average} "
        f"({show_level(one.epsilon, one.delta)})."
    )
    if plan.releases_count:
        # Other values are a record that goes and one that comes.
        both = compute_group_loss(plan.mechanism, n_records=2)
        words += f" What the record says is protected {_judge(both.epsilon, both.delta)}."
    return words


def describe_person(plan: SketchPlan, *, records_a_day: int | None = None) -> str:
    """Describe the loss of a person with many records, in one window and in two weeks.

    Parameters
    ----------
    records_a_day
        Records that a device makes a day, as seen; None for an example of 288.
    """
    known = 1 if plan.protects_devices else plan.max_records_per_person
    if known is None:
        unknown = "The plan does not say how many records one person can have."
        return f"{unknown} {_describe_everywhere(plan, records_a_day)}"
    whose = f"A person has at most {known:,} record(s) in a window, as the plan states. This person"
    if plan.protects_devices:
        whose = "All records of one window are protected together. Somebody who is in all of them"
    shown = []
    for n_windows, span in {(1, "one window"), _count_windows(plan)}:
        loss = compute_group_loss(plan.mechanism, n_records=known, n_windows=n_windows)
        shown.append((n_windows, f"in {span} {_judge(loss.epsilon, loss.delta)}"))
    return f"{whose} is protected {', and '.join(words for _, words in sorted(shown))}."


def find_person_doubt(plan: SketchPlan, *, records_a_day: int | None = None) -> str | None:
    """Return what a plan leaves open about people with many records, with the fix.

    See :func:`describe_person` for ``records_a_day``.
    """
    if plan.protects_devices or plan.max_records_per_person is not None:
        return None
    everywhere = _describe_everywhere(plan, records_a_day)
    return (
        f"max_records_per_person is unknown. {everywhere} State the number, or with windows by "
        'time under replace-one all records of a window: unit = "device"'
    )


def _describe_everywhere(plan: SketchPlan, records_a_day: int | None) -> str:
    """Describe the loss of somebody who is in all records of a device, for two weeks."""
    rule, rate = plan.window, records_a_day or RECORDS_A_DAY
    n_records, (n_windows, span) = _DAYS * rate, _count_windows(plan)
    if rule.kind == "time":
        # Records that were too few for a sketch are in the next one too.
        in_window = -(-rate * rule.length_s // _DAY_S) + max(plan.least_records, 1) - 1
        span = span if rule.length_s < _DAYS * _DAY_S else "two weeks"
    else:
        n_windows, in_window, span = -(-n_records // rule.length), rule.length, "two weeks"
    loss = compute_group_loss(plan.mechanism, n_records=in_window, n_windows=n_windows)
    epsilon = loss.epsilon
    if not loss.delta:
        # Pure losses add up, however the records lie in windows.
        epsilon = min(n_records, in_window * n_windows) * plan.mechanism.guarantee.epsilon
    often = f"about {rate:,} a day" if records_a_day else f"{rate:,} a day, one every five minutes,"
    return (
        f"Somebody who is in all records of a device that makes {often} is protected in {span} "
        f"{_judge(epsilon, loss.delta)}."
    )


def _count_windows(plan: SketchPlan) -> tuple[int, str]:
    """Return the number of windows of two weeks, or of a shorter study, and its words."""
    most, rule = plan.most_sketches_per_device, plan.window
    if rule.kind == "count":
        return 10, "10 windows"
    n_windows, limit = -(-_DAYS * _DAY_S // rule.length_s), min(most, rule.n_slots or most)
    if n_windows == 1 or limit == 1:
        return 1, "one window"
    if limit < n_windows:
        return limit, f"the {limit:,} windows of the study"
    return n_windows, f"the {n_windows:,} windows of two weeks"


def show_level(epsilon: Fraction, delta: Fraction) -> str:
    """Write a level of privacy for people, rounded up."""
    level = f"epsilon {_show(epsilon)}"
    return f"{level} and delta {format_upper(delta)}" if delta else level


def _judge(epsilon: Fraction, delta: Fraction) -> str:
    """Write a level with what it is worth."""
    worth = f" (odds of at most {_show_odds(epsilon, delta)})"
    if epsilon > ABSURD_EPSILON:
        worth = ", which is next to no protection"
    return f"at {show_level(epsilon, delta)}{worth}"


def _show_odds(epsilon: Fraction, delta: Fraction) -> str:
    # Beyond it nobody shows the odds, which may be too large to compute.
    return f"{_show(bound_odds(min(epsilon, ABSURD_EPSILON), delta))} to 1"


def _show(value: Fraction) -> str:
    """Write a bound, rounded up; one of hundreds or more as a whole number."""
    return format_upper(value) if value < 100 else f"{math.ceil(value):,}"
