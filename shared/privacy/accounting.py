"""What was released, and what it cost, kept apart: events never change, costs are computed.

Rules (both relations: a record is in one window, and which one depends on no other record wherever
its presence is secret): records in different windows of one stream are disjoint, so the releases of
one plan compose in parallel; different plans over the same stream compose in sequence; for someone
whose records appear in many windows, everything composes in sequence.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from shared.errors import BudgetExceededError


@dataclass(frozen=True, kw_only=True)
class PrivacyEvent:
    """A release, a sketch of one window of one stream under one plan; or several of one cost.

    Parameters
    ----------
    stream
        The source of records.
    plan_digest
        SHA-256 of the plan.
    sequence
        The sketch's number in its stream; of several, the last one's.
    epsilon, delta
        The guarantee of one release, exact.
    rho
        Its zero-concentrated loss, exact; None where only (epsilon, delta) is known.
    count
        How many releases of this stream, plan and cost it stands for, at least one.
    """

    stream: str
    plan_digest: bytes
    sequence: int
    epsilon: Fraction
    delta: Fraction = Fraction(0)
    rho: Fraction | None = None
    count: int = 1

    @property
    def concentrated(self) -> Fraction | None:
        """The zero-concentrated loss: rho, or ``epsilon^2 / 2`` of a pure release."""
        if self.rho is not None:
            return self.rho
        return self.epsilon**2 / 2 if self.delta == 0 else None


@dataclass(frozen=True, kw_only=True)
class PrivacyLoss:
    """A bound on what several releases cost together: (epsilon, delta)."""

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
    delta
        The delta at which these are judged; plans with Gaussian noise need one above zero.
    """

    per_record: Fraction | None = None
    lifetime: Fraction | None = None
    delta: Fraction = Fraction(0)


def select_per_record(events: Iterable[PrivacyEvent], stream: str) -> list[PrivacyEvent]:
    """Return the releases that one record of a stream can be in: the costliest of each plan."""
    largest: dict[bytes, PrivacyEvent] = {}
    for event in events:
        if event.stream == stream:
            previous = largest.get(event.plan_digest, event)
            largest[event.plan_digest] = max(previous, event, key=_cost)
    # A record is in one window, so in one release of those that an event may stand for.
    return [replace(event, count=1) for event in largest.values()]


def _cost(event: PrivacyEvent) -> tuple[Fraction, Fraction, Fraction]:
    return event.epsilon, event.delta, event.rho or Fraction(0)


def select_lifetime(events: Iterable[PrivacyEvent], stream: str) -> list[PrivacyEvent]:
    """Return the releases that someone with records in every window of a stream is in: all."""
    return [event for event in events if event.stream == stream]


def sum_losses(events: Iterable[PrivacyEvent]) -> PrivacyLoss:
    """Sum epsilons and deltas: the plain bound on releases that may read the same records."""
    listed = list(events)
    return PrivacyLoss(
        epsilon=sum((event.count * event.epsilon for event in listed), Fraction(0)),
        delta=sum((event.count * event.delta for event in listed), Fraction(0)),
    )


def compute_per_record_loss(events: Iterable[PrivacyEvent], stream: str) -> PrivacyLoss:
    """Bound what was spent on any one record of a stream, by sums over plans."""
    return sum_losses(select_per_record(events, stream))


def compute_lifetime_loss(events: Iterable[PrivacyEvent], stream: str) -> PrivacyLoss:
    """Bound what was spent on someone who appears in every window of a stream, by sums."""
    return sum_losses(select_lifetime(events, stream))


def compose(events: Sequence[PrivacyEvent], *, delta: Fraction) -> PrivacyLoss | None:
    """Find the least proved epsilon, at a given delta, of releases that may share records.

    Parameters
    ----------
    events
        What was released, in any order.
    delta
        The total delta that is allowed.

    Returns
    -------
    PrivacyLoss or None
        The least of three proved bounds: sums of epsilon and delta; sums of epsilon for the pure
        releases and of rho for the others, converted; sums of rho for all (a pure release has
        ``rho = epsilon^2 / 2``), converted. None when no bound holds at this delta.
    """
    pure = [event for event in events if event.delta == 0]
    other = [event for event in events if event.delta != 0]
    summed = sum_losses(events)
    bounds = [summed.epsilon] if summed.delta <= delta else []
    rhos = [(event.count, event.concentrated) for event in other]
    if delta > 0 and all(rho is not None for _, rho in rhos):
        concentrated = sum((n * rho for n, rho in rhos if rho is not None), Fraction(0))
        plain = sum((event.count * event.epsilon for event in pure), Fraction(0))
        bounds.append(plain + convert_concentrated(concentrated, delta))
        both = concentrated + sum((e.count * e.epsilon**2 / 2 for e in pure), Fraction(0))
        bounds.append(convert_concentrated(both, delta))
    return PrivacyLoss(epsilon=min(bounds), delta=delta) if bounds else None


def convert_concentrated(rho: Fraction, delta: Fraction) -> Fraction:
    """Return an epsilon with which a rho-zero-concentrated release is (epsilon, delta) private.

    ``epsilon = min over a > 1 of a rho + log(1 / (a delta)) / (a - 1) + log(1 - 1 / a)`` (Canonne,
    Kamath and Steinke 2020, Corollary 13). Every a gives a valid bound, so the search may be rough;
    the value is rounded up by more than its arithmetic can err.
    """
    if rho == 0:
        return Fraction(0)
    r, log_delta = float(rho), math.log(delta.numerator) - math.log(delta.denominator)

    def bound(log_order: float) -> float:
        excess = math.exp(log_order)
        a = 1.0 + excess
        return a * r - (math.log(a) + log_delta) / excess + math.log(excess / a)

    # The bound has a single minimum over the order; golden-section search on its logarithm.
    low, high = -30.0, 40.0
    shrink = (math.sqrt(5.0) - 1.0) / 2.0
    for _ in range(120):
        left, right = high - shrink * (high - low), low + shrink * (high - low)
        if bound(left) <= bound(right):
            high = right
        else:
            low = left
    epsilon = max(0.0, bound((low + high) / 2))
    return Fraction(epsilon * (1 + 1e-9) + 1e-12)


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
    for name, limit, select in (
        ("per_record", budget.per_record, select_per_record),
        ("lifetime", budget.lifetime, select_lifetime),
    ):
        if limit is None:
            continue
        loss = compose(select(after, new.stream), delta=budget.delta)
        if loss is None:
            raise BudgetExceededError(
                f"is {_show(budget.delta)}, and no bound on the loss holds there after sketch "
                f"{new.sequence} of stream {new.stream!r}",
                field="budget.delta",
                fix="set it to what the owner accepts; plans with Gaussian noise need one",
            )
        if loss.epsilon > limit:
            raise BudgetExceededError(
                f"releasing sketch {new.sequence} of stream {new.stream!r} would bring the loss "
                f"to epsilon {_show(loss.epsilon)}, above the owner's limit {_show(limit)}",
                field=f"budget.{name}",
                fix="raise the limit if the owner agrees, or stop this stream",
            )


def _show(value: Fraction) -> str:
    return str(value) if value.denominator <= 1000 else f"{float(value):.9g}"
