"""What was released, and what it cost, kept apart: events never change, costs are computed.

Rules (``replace-one``): records in different windows of one stream are disjoint, so the releases of
one plan compose in parallel; different plans over the same stream compose in sequence; for someone
whose records appear in many windows, everything composes in sequence.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from shared.errors import BudgetExceededError


@dataclass(frozen=True, kw_only=True)
class PrivacyEvent:
    """One release: a sketch of one window of one stream under one plan.

    Parameters
    ----------
    stream
        The source of records.
    plan_digest
        SHA-256 of the plan.
    sequence
        The sketch's number in its stream.
    epsilon, delta
        The guarantee of this release, exact.
    """

    stream: str
    plan_digest: bytes
    sequence: int
    epsilon: Fraction
    delta: Fraction = Fraction(0)


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What the owner of a device allows; None means no limit.

    Parameters
    ----------
    per_record
        Largest epsilon for a single record: the composition over the plans on its stream.
    lifetime
        Largest epsilon summed over all releases of a stream, for people who appear in many.
    """

    per_record: Fraction | None = None
    lifetime: Fraction | None = None


def compute_per_record_loss(events: Iterable[PrivacyEvent], stream: str) -> Fraction:
    """Bound the epsilon spent on any one record of a stream.

    The largest release of each plan, summed over plans.
    """
    largest: dict[bytes, Fraction] = {}
    for event in events:
        if event.stream == stream:
            previous = largest.get(event.plan_digest, Fraction(0))
            largest[event.plan_digest] = max(previous, event.epsilon)
    return sum(largest.values(), Fraction(0))


def compute_lifetime_loss(events: Iterable[PrivacyEvent], stream: str) -> Fraction:
    """Sum the epsilon of every release of a stream: the bound for someone in all windows."""
    return sum((event.epsilon for event in events if event.stream == stream), Fraction(0))


def require_within_budget(
    events: Iterable[PrivacyEvent], new: PrivacyEvent, budget: Budget
) -> None:
    """Check that one more release stays within the budget.

    Raises
    ------
    BudgetExceededError
        It would not. Nothing was changed.
    """
    after = [*events, new]
    checks = (
        ("per_record", budget.per_record, compute_per_record_loss(after, new.stream)),
        ("lifetime", budget.lifetime, compute_lifetime_loss(after, new.stream)),
    )
    for name, limit, loss in checks:
        if limit is not None and loss > limit:
            raise BudgetExceededError(
                f"releasing sketch {new.sequence} of stream {new.stream!r} would bring the loss "
                f"to epsilon {_show(loss)}, above the owner's limit {_show(limit)}",
                field=f"budget.{name}",
                fix="raise the limit if the owner agrees, or stop this stream",
            )


def _show(value: Fraction) -> str:
    return str(value) if value.denominator <= 1000 else f"{float(value):.9g}"
