"""Releases of the same records under both relations: what a record that is replaced has lost."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, strategies as st

from sfumato.shared.errors import BudgetExceededError, PrivacyError
from sfumato.shared.privacy import Budget, PrivacyEvent, PrivacyLoss, compose, require_within_budget
from sfumato.shared.privacy.accounting import (
    explain_relations,
    express_in_one_relation,
    join_events,
    scale_to_group,
    select_per_record,
    sum_losses,
)
from tests.shared.privacy.sources import make_event, make_gaussian_event

ONE = Fraction(1)
REPLACE, PRESENCE = "replace-one", "add-remove-one"
RELATIONS = (REPLACE, PRESENCE)


def event(relation: str, *, plan: bytes = b"", **more: Any) -> PrivacyEvent:
    return make_event(neighbouring=relation, plan_digest=plan or relation.encode(), **more)


def gaussian(relation: str, rho: Fraction) -> PrivacyEvent:
    return make_gaussian_event(rho, neighbouring=relation, plan_digest=relation.encode())


def test_a_replaced_record_loses_three_where_either_relation_costs_one() -> None:
    both = [event(PRESENCE), event(REPLACE)]
    for loss in (sum_losses(both), compose(both, delta=Fraction(0))):
        assert loss is not None
        assert loss == PrivacyLoss(epsilon=Fraction(3), neighbouring=REPLACE)
    for relation in RELATIONS:
        alone = sum_losses([event(relation), event(relation, plan=b"q")])
        assert alone == PrivacyLoss(epsilon=Fraction(2), neighbouring=relation)
    assert sum_losses([]).neighbouring is None


def test_a_budget_is_judged_by_what_a_replaced_record_loses_and_the_refusal_says_so() -> None:
    for first, then in itertools.permutations(RELATIONS):
        for limits in (Budget(per_record=Fraction(2)), Budget(lifetime=Fraction(2))):
            with pytest.raises(BudgetExceededError, match="epsilon 3 under replace-one") as caught:
                require_within_budget([event(first)], event(then), limits)
            assert "counts twice" in str(caught.value)
        require_within_budget([event(first)], event(then), Budget(per_record=Fraction(3)))
    again = event(PRESENCE, plan=b"q")
    with pytest.raises(BudgetExceededError, match="epsilon 2 under add-remove-one") as caught:
        require_within_budget([event(PRESENCE)], again, Budget(per_record=ONE))
    assert "twice" not in str(caught.value)
    assert explain_relations([event(PRESENCE)]) is None


def test_no_event_is_without_a_relation() -> None:
    with pytest.raises(TypeError, match="neighbouring"):
        PrivacyEvent(stream="s", plan_digest=b"", sequence=0, epsilon=ONE)  # type: ignore[call-arg]
    with pytest.raises(PrivacyError, match="neighbouring"):
        event("swap-one")


def test_one_of_several_windows_counts_in_each_measure() -> None:
    # A record is in any one of them, and none of the two costs more than the other in both.
    windows = [event(REPLACE), event(REPLACE, epsilon=ONE / 2, delta=Fraction(1, 10**6))]
    for given_events in (windows, windows[::-1]):
        (found,) = select_per_record(given_events, {(b"", "s")})
        assert (found.epsilon, found.delta, found.rho) == (ONE, Fraction(1, 10**6), None)
    known, unknown = gaussian(REPLACE, ONE / 20), replace(gaussian(REPLACE, ONE / 20), rho=None)
    (found,) = select_per_record([known, unknown], {(b"", "s")})
    assert found.rho is None
    (found,) = select_per_record([known, event(REPLACE)], {(b"", "s")})
    assert found.rho == ONE / 2


# ---- laws ----

costs = st.builds(
    lambda relation, epsilon, delta, rho, count: event(
        relation,
        epsilon=epsilon,
        delta=delta,
        rho=rho if delta else None,
        count=count,
        plan=repr((relation, epsilon, delta, rho, count)).encode(),
    ),
    st.sampled_from(RELATIONS),
    st.fractions(0, 3, max_denominator=50),
    st.sampled_from([Fraction(0), Fraction(1, 10**9), Fraction(1, 10**6)]),
    st.none() | st.fractions(0, 2, max_denominator=50),
    st.integers(1, 3),
)


@given(st.lists(costs, max_size=5), st.sampled_from([0, Fraction(1, 10**5), Fraction(1, 10)]))
def test_the_bound_is_never_below_that_of_either_relation_alone(
    events: list[PrivacyEvent], delta: Fraction
) -> None:
    total, joint = sum_losses(events), compose(events, delta=Fraction(delta))
    for relation in RELATIONS:
        own = [each for each in events if each.neighbouring == relation]
        assert sum_losses(own).epsilon <= total.epsilon
        assert sum_losses(own).delta <= total.delta
        alone = compose(own, delta=Fraction(delta))
        assert joint is None or (alone is not None and alone.epsilon <= joint.epsilon)
    doubled = sum((1 if e.neighbouring == REPLACE else 2) * e.count * e.epsilon for e in events)
    is_mixed = len({each.neighbouring for each in events}) == 2
    plain = sum(each.count * each.epsilon for each in events)
    assert total.epsilon == (doubled if is_mixed else plain)


@given(st.lists(costs, min_size=1, max_size=5))
def test_one_event_in_the_place_of_several_costs_the_same(events: list[PrivacyEvent]) -> None:
    joint, total = join_events(events), sum_losses(events)
    assert sum_losses([joint]) == total
    alone, together = compose([joint], delta=total.delta), compose(events, delta=total.delta)
    assert alone is not None
    assert together is not None
    assert together.epsilon <= alone.epsilon


@given(costs, st.integers(1, 30))
def test_delta_of_a_group_is_the_sum_of_powers_rounded_up(cost: PrivacyEvent, q: int) -> None:
    exact = cost.delta * sum((Fraction(math.exp(i * cost.epsilon)) for i in range(q)), Fraction(0))
    scaled = scale_to_group(cost, q)
    assert exact * (1 - Fraction(1, 10**12)) <= scaled.delta or scaled.delta == 1
    assert scaled.delta <= exact * (1 + Fraction(1, 10**8))


@pytest.mark.parametrize("epsilon", [Fraction(0), Fraction(1, 10**30), Fraction(10**400)])
def test_delta_of_a_group_holds_at_any_epsilon(epsilon: Fraction) -> None:
    scaled = scale_to_group(event(REPLACE, epsilon=epsilon, delta=Fraction(1, 10**400)), 2)
    assert scaled.delta == 1 if epsilon > 1 else scaled.delta >= Fraction(2, 10**400)


# ---- exact mechanisms ----

Law = tuple[Fraction, ...]
laws = st.lists(st.integers(1, 9), min_size=3, max_size=3).map(
    lambda weights: tuple(Fraction(weight, sum(weights)) for weight in weights)
)
HERE, OTHER, GONE = range(3)
"""A record has one value, or the other, or is not there."""


def bound_exp(epsilon: Fraction) -> Fraction:
    """Bound ``exp(epsilon)`` from below."""
    return Fraction(math.exp(epsilon)) * (1 - Fraction(1, 10**12))


def measure(pairs: Sequence[tuple[Law, Law]], epsilon: Fraction) -> Fraction:
    """Bound the least delta at an epsilon from above; both orders of a pair are compared."""
    factor = bound_exp(epsilon)
    return max(
        sum((max(a - factor * b, Fraction(0)) for a, b in zip(p, q, strict=True)), Fraction(0))
        for pair in pairs
        for p, q in (pair, pair[::-1])
    )


def state(relation: str, pairs: Sequence[tuple[Law, Law]], share: Fraction) -> PrivacyEvent:
    """Return the event of a mechanism, at a share of its pure epsilon."""
    ratio = max(max(a / b, b / a) for p, q in pairs for a, b in zip(p, q, strict=True))
    epsilon = share * Fraction(math.log(ratio)) * (1 + Fraction(1, 10**9))
    delta = Fraction(0) if share == 1 else measure(pairs, epsilon)
    return event(relation, epsilon=epsilon, delta=delta)


@given(
    st.tuples(laws, laws, laws),
    st.tuples(*[st.tuples(laws, laws, laws)] * 3),
    st.sampled_from(RELATIONS),
    st.sampled_from([ONE, ONE / 2, Fraction(0)]),
)
def test_what_a_replaced_record_loses_is_covered_whatever_is_released_of_it(
    first: tuple[Law, ...],
    second: tuple[tuple[Law, ...], ...],
    first_relation: str,
    share: Fraction,
) -> None:
    """All answers of two small mechanisms, of which the second depends on the first's answer."""
    (second_relation,) = {*RELATIONS} - {first_relation}

    def pair(by: tuple[Law, ...], relation: str) -> list[tuple[Law, Law]]:
        if relation == REPLACE:
            return [(by[HERE], by[OTHER])]
        return [(by[HERE], by[GONE]), (by[OTHER], by[GONE])]

    events = [
        state(first_relation, pair(first, first_relation), share),
        state(second_relation, [p for by in second for p in pair(by, second_relation)], share),
    ]
    loss = sum_losses(events)
    joint = tuple(
        tuple(first[x][i] * second[i][x][j] for i in range(3) for j in range(3))
        for x in (HERE, OTHER)
    )
    assert measure([(joint[0], joint[1])], loss.epsilon) <= loss.delta + Fraction(1, 10**9)


def test_the_bound_is_attained() -> None:
    """Two answers tell as much for the value as against it: a replaced record loses all of 3."""
    hidden: Mapping[int, Law] = {
        GONE: (Fraction(1, 4), Fraction(1, 4), Fraction(1, 2)),
        HERE: (Fraction(1, 2), Fraction(1, 8), Fraction(3, 8)),
        OTHER: (Fraction(1, 8), Fraction(1, 2), Fraction(3, 8)),
    }
    told = (Fraction(2, 3), Fraction(1, 3)), (Fraction(1, 3), Fraction(2, 3))
    presence = state(PRESENCE, [(hidden[x], hidden[GONE]) for x in (HERE, OTHER)], ONE)
    values = state(REPLACE, [told], ONE)
    lost = math.log(hidden[HERE][0] * told[0][0] / (hidden[OTHER][0] * told[1][0]))
    assert lost == pytest.approx(3 * math.log(2))
    assert float(sum_losses([presence, values]).epsilon) == pytest.approx(lost)


@pytest.mark.parametrize("order", [2, 3, 10])
def test_concentrated_loss_grows_fourfold_as_that_of_gaussian_noise_does(order: int) -> None:
    # A record adds 1 or -1 to a count of the present ones: to be replaced moves it by 2.
    variance, reach = 9.0, 100
    rho = Fraction(1, 18)
    (found, _) = express_in_one_relation([gaussian(PRESENCE, rho), event(REPLACE)])

    def weigh(centre: int) -> list[float]:
        logs = [-((i - centre) ** 2) / (2 * variance) for i in range(-reach, reach)]
        total = math.log(sum(map(math.exp, logs)))
        return [each - total for each in logs]

    def diverge(p: list[float], q: list[float]) -> float:
        moment = sum(math.exp(order * a + (1 - order) * b) for a, b in zip(p, q, strict=True))
        return math.log(moment) / (order - 1)

    assert diverge(weigh(1), weigh(0)) == pytest.approx(order * float(rho))
    assert found.rho is not None
    assert diverge(weigh(1), weigh(-1)) == pytest.approx(order * float(found.rho))
    assert found.rho == 4 * rho
