"""Privacy accounting: releases are immutable events, and their cost is computed from them.

Rules, for both relations. A record is in one window; where its presence is secret, that window
depends on no other record. Records in different windows of one stream are disjoint, so the releases
of one plan compose in parallel. Sequential composition applies to streams that may read the same
records (under one study or several), to different plans over one stream, and to the releases of two
copies of one device. For a person with records in many windows, everything composes in sequence.
Origins (``sfumato.shared.privacy.origins``), never names, decide which streams may read the same
records.

Releases under one relation bound the loss under that relation. Releases under both bound it under
replace-one alone, for the number of records is public then. A replaced record is one that goes and
one that comes, so a release under add-remove-one counts as for a group of two (``proofs.md``,
section 19).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from sfumato.shared.errors import BudgetExceededError
from sfumato.shared.privacy.sensitivity import require_neighbouring

Reader = tuple[bytes, str]
"""A study, and the name of one of its streams on this device."""

_ROUNDING = 1e-9
"""More than the arithmetic of this module can err, relatively."""
_LARGEST_EXPONENT, _SMALLEST_EXPONENT = 700, Fraction(1, 10**10)
"""Above it delta counts as 1; below it the powers of the group rule are 1 within the rounding."""


@dataclass(frozen=True, kw_only=True)
class PrivacyEvent:
    """A release (the sketch of one window of one stream under one plan), or several of equal cost.

    Parameters
    ----------
    stream
        The stream that was read.
    study
        The study that it was released to, 32 bytes; empty where there is only one.
    plan_digest
        SHA-256 of the plan.
    sequence
        The sketch's number in its stream; of several, the last number.
    neighbouring
        The relation between the data sets that the guarantee compares.
    epsilon, delta
        The guarantee of one release, exact.
    rho
        The zero-concentrated loss, exact; None where only (epsilon, delta) is known.
    count
        How many releases of this stream, plan and cost the event stands for, at least one.
    copy
        0 for the ledger's own releases, 1 for those of another copy of the device's state, such as
        a clone: both may have read the same records, so the two compose in sequence.

    Raises
    ------
    PrivacyError
        Unknown neighbouring relation.
    """

    stream: str
    plan_digest: bytes
    sequence: int
    neighbouring: str
    epsilon: Fraction
    delta: Fraction = Fraction(0)
    rho: Fraction | None = None
    count: int = 1
    copy: int = 0
    study: bytes = b""

    def __post_init__(self) -> None:
        require_neighbouring(self.neighbouring)

    @property
    def reader(self) -> Reader:
        """Study and stream."""
        return self.study, self.stream

    @property
    def concentrated(self) -> Fraction | None:
        """The zero-concentrated loss: rho, or ``epsilon^2 / 2`` of a pure release."""
        if self.rho is not None:
            return self.rho
        return self.epsilon**2 / 2 if self.delta == 0 else None


@dataclass(frozen=True, kw_only=True)
class PrivacyLoss:
    """A bound on the joint cost of several releases: (epsilon, delta).

    ``neighbouring`` is the relation that it holds under; None where nothing was released.
    """

    epsilon: Fraction
    delta: Fraction = Fraction(0)
    neighbouring: str | None

    @property
    def replaced_epsilon(self) -> Fraction:
        """Epsilon of a record that is replaced, by which losses under both relations compare."""
        return (2 if self.neighbouring == "add-remove-one" else 1) * self.epsilon


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The limits that the owner of a device sets; None means no limit.

    Parameters
    ----------
    per_record
        Largest epsilon for a single record: the composition over all plans, streams and studies
        that may read it.
    lifetime
        Largest epsilon summed over all releases of these streams, for people who appear in many.
    delta
        The delta at which both limits are judged; plans with Gaussian noise need one above zero.
    defaults
        Names of the limits that are defaults, for messages.
    """

    per_record: Fraction | None = None
    lifetime: Fraction | None = None
    delta: Fraction = Fraction(0)
    defaults: frozenset[str] = frozenset()


def select_per_record(
    events: Iterable[PrivacyEvent], readers: Collection[Reader]
) -> list[PrivacyEvent]:
    """Return the releases that may contain one record: one of each reader, plan, copy and relation.

    A record is in one window, so in one of the releases of each; the event that is returned costs
    as much as the costliest of them, in each measure.

    Parameters
    ----------
    readers
        The streams that may read the record.
    """
    apart: dict[tuple[Reader, bytes, int, str], list[PrivacyEvent]] = {}
    for event in events:
        if event.reader in readers:
            key = event.reader, event.plan_digest, event.copy, event.neighbouring
            apart.setdefault(key, []).append(event)
    return [_find_costliest(group) for group in apart.values()]


def _find_costliest(events: Sequence[PrivacyEvent]) -> PrivacyEvent:
    known = [event.concentrated for event in events if event.concentrated is not None]
    # A rho that follows from a pure epsilon need not be stated.
    is_known = len(known) == len(events) and any(event.rho is not None for event in events)
    return replace(
        events[0],
        epsilon=max(event.epsilon for event in events),
        delta=max(event.delta for event in events),
        rho=max(known) if is_known else None,
        count=1,
    )


def select_lifetime(
    events: Iterable[PrivacyEvent], readers: Collection[Reader]
) -> list[PrivacyEvent]:
    """Return all releases of some streams: those of a person with records in every window."""
    return [event for event in events if event.reader in readers]


def scale_to_group(event: PrivacyEvent, n_records: int) -> PrivacyEvent:
    """Return the cost of a release for a person with q records in each of its windows.

    Epsilon grows by q and rho by q^2 (Bun and Steinke 2016, Proposition 1.9), and delta by
    ``1 + exp(epsilon) + ... + exp((q - 1) epsilon)``, rounded up.
    """
    if n_records == 1:
        return event
    return replace(
        event,
        epsilon=n_records * event.epsilon,
        delta=_grow_delta(event, n_records),
        rho=None if event.rho is None else n_records**2 * event.rho,
    )


def _grow_delta(event: PrivacyEvent, n_records: int) -> Fraction:
    exponent = n_records * event.epsilon
    if not event.delta:
        return Fraction(0)
    if exponent > _LARGEST_EXPONENT:
        return Fraction(1)
    powers = float(n_records)
    if exponent > _SMALLEST_EXPONENT:
        powers = math.expm1(exponent) / math.expm1(event.epsilon)
    return min(event.delta * Fraction(powers * (1 + _ROUNDING)), Fraction(1))


def express_in_one_relation(events: Iterable[PrivacyEvent]) -> list[PrivacyEvent]:
    """Return events under one relation: their own, or replace-one where they have both.

    Guarantees
    ----------
    Every event that is returned bounds the loss of a record under that relation, if the event that
    was given does so under its own (``proofs.md``, section 19).
    """
    listed = list(events)
    if len({event.neighbouring for event in listed}) <= 1:
        return listed
    return [
        event
        if event.neighbouring == "replace-one"
        # A record goes, and another comes.
        else replace(scale_to_group(event, 2), neighbouring="replace-one")
        for event in listed
    ]


def explain_relations(events: Iterable[PrivacyEvent]) -> str | None:
    """Explain why a loss is above the sum of what releases state; None if it is not."""
    if len({event.neighbouring for event in events}) < 2:
        return None
    return (
        "the same records are released under both relations: a release under add-remove-one counts "
        "twice, because a replaced record is one that goes and one that comes; their presence is "
        "not hidden"
    )


def join_events(events: Sequence[PrivacyEvent]) -> PrivacyEvent:
    """Return one event that costs what some events cost in sequence, named as the first of them."""
    common = express_in_one_relation(events)
    loss = sum_losses(common)
    return replace(
        common[0], epsilon=loss.epsilon, delta=loss.delta, rho=_sum_concentrated(common), count=1
    )


def sum_losses(events: Iterable[PrivacyEvent]) -> PrivacyLoss:
    """Sum epsilons and deltas: the plain bound on releases that may read the same records."""
    common = express_in_one_relation(events)
    return PrivacyLoss(
        epsilon=sum((event.count * event.epsilon for event in common), Fraction(0)),
        delta=sum((event.count * event.delta for event in common), Fraction(0)),
        neighbouring=common[0].neighbouring if common else None,
    )


def compute_per_record_loss(
    events: Iterable[PrivacyEvent], readers: Collection[Reader]
) -> PrivacyLoss:
    """Bound the loss of any one record that some streams may read, by sums."""
    return sum_losses(select_per_record(events, readers))


def compute_lifetime_loss(
    events: Iterable[PrivacyEvent], readers: Collection[Reader]
) -> PrivacyLoss:
    """Bound the loss of a person who appears in every window of some streams, by sums."""
    return sum_losses(select_lifetime(events, readers))


def compose(events: Sequence[PrivacyEvent], *, delta: Fraction) -> PrivacyLoss | None:
    """Compute the least proved epsilon, at a given delta, of releases that may share records.

    Parameters
    ----------
    events
        The releases, in any order.
    delta
        The total delta that is allowed.

    Returns
    -------
    PrivacyLoss or None
        The least of three proved bounds: sums of epsilon and delta; sums of epsilon for the pure
        releases and of rho for the others, converted; sums of rho for all (a pure release has
        ``rho = epsilon^2 / 2``), converted. Under replace-one if the releases are under both
        relations. None when no bound holds at this delta.
    """
    common = express_in_one_relation(events)
    pure = [event for event in common if event.delta == 0]
    other = [event for event in common if event.delta != 0]
    summed = sum_losses(common)
    bounds = [summed.epsilon] if summed.delta <= delta else []
    for plain, rest in ((pure, other), ([], common)):
        rho = _sum_concentrated(rest)
        if delta > 0 and rho is not None:
            bounds.append(sum_losses(plain).epsilon + convert_concentrated(rho, delta))
    return replace(summed, epsilon=min(bounds), delta=delta) if bounds else None


def _sum_concentrated(events: Iterable[PrivacyEvent]) -> Fraction | None:
    total = Fraction(0)
    for event in events:
        if event.concentrated is None:
            return None
        total += event.count * event.concentrated
    return total


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
    return Fraction(epsilon * (1 + _ROUNDING) + 1e-12)


def require_within_budget(
    events: Iterable[PrivacyEvent],
    new: PrivacyEvent,
    budget: Budget,
    *,
    readers: Collection[Reader] = (),
    people: Collection[Reader] = (),
) -> None:
    """Check that one more release stays within the budget.

    Parameters
    ----------
    readers
        Other streams that may read the same records.
    people
        Other streams that may read records of the same people at other times.

    Raises
    ------
    BudgetExceededError
        The release would exceed it. Nothing was changed.
    """
    after, shared = [*events, new], {*readers, new.reader}
    for name, limit, select, among in (
        ("per_record", budget.per_record, select_per_record, shared),
        ("lifetime", budget.lifetime, select_lifetime, {*shared, *people}),
    ):
        if limit is None:
            continue
        selected = select(after, among)
        delta = _find_delta(selected, budget)
        loss = compose(selected, delta=delta)
        if loss is None:
            raise BudgetExceededError(
                f"is {_show(delta)}, and no bound on the loss holds at it after sketch "
                f"{new.sequence} of stream {new.stream!r}",
                field="budget.delta",
                fix="set it to what the owner accepts; plans with Gaussian noise need one",
            )
        if loss.epsilon > limit:
            is_default = name in budget.defaults
            whose = "default limit" if is_default else "owner's limit"
            at = f" at delta {_show(delta)}" if delta else ""
            mixed = explain_relations(selected)
            raise BudgetExceededError(
                f"releasing sketch {new.sequence} of stream {new.stream!r} would bring the loss "
                f"to epsilon {_show(loss.epsilon)} under {loss.neighbouring}{at}, above the "
                f"{whose} {_show(limit)}{f' ({mixed})' if mixed else ''}",
                field=f"budget.{name}",
                fix=f'write [budget] {name} = "{_suggest(loss.epsilon)}" if the owner agrees to '
                "that, or leave the study"
                if is_default
                else "raise the limit if the owner agrees, or stop this stream",
            )


def _find_delta(events: Sequence[PrivacyEvent], budget: Budget) -> Fraction:
    """Return the delta to judge at; a default delta loosens no sum of pure releases."""
    if "delta" in budget.defaults and all(event.delta == 0 for event in events):
        return Fraction(0)
    return budget.delta


def _show(value: Fraction) -> str:
    return str(value) if value.denominator <= 1000 else f"{float(value):.9g}"


def _suggest(value: Fraction) -> str:
    return str(math.ceil(value * 10) / 10).removesuffix(".0")
