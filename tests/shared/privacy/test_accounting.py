from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import BudgetExceededError
from shared.privacy import (
    Budget,
    PrivacyEvent,
    compute_lifetime_loss,
    compute_per_record_loss,
    require_within_budget,
)

ONE = Fraction(1)


def event(
    sequence: int, *, epsilon: Fraction = ONE, plan: bytes = b"p", stream: str = "s"
) -> PrivacyEvent:
    return PrivacyEvent(stream=stream, plan_digest=plan, sequence=sequence, epsilon=epsilon)


def test_windows_of_one_plan_compose_in_parallel() -> None:
    assert compute_per_record_loss([event(i) for i in range(4)], "s") == 1


def test_plans_on_one_stream_compose_in_sequence() -> None:
    events = [event(0), event(1, plan=b"q", epsilon=Fraction(1, 2)), event(2)]
    assert compute_per_record_loss(events, "s") == Fraction(3, 2)


def test_a_lifetime_sums_every_release() -> None:
    assert compute_lifetime_loss([event(i) for i in range(4)], "s") == 4


def test_streams_do_not_mix() -> None:
    events = [event(0), event(0, stream="other")]
    assert compute_per_record_loss(events, "s") == 1
    assert compute_lifetime_loss(events, "s") == 1


def test_a_release_beyond_either_budget_is_refused_by_name() -> None:
    spent = [event(0)]
    with pytest.raises(BudgetExceededError, match=r"budget\.per_record"):
        require_within_budget(spent, event(1, plan=b"q"), Budget(per_record=ONE))
    with pytest.raises(BudgetExceededError, match=r"budget\.lifetime"):
        require_within_budget(spent, event(1), Budget(lifetime=Fraction(3, 2)))
    require_within_budget(spent, event(1), Budget(per_record=ONE, lifetime=Fraction(2)))


@given(
    st.lists(
        st.tuples(st.fractions(Fraction(1, 10), 2), st.sampled_from([b"p", b"q"])), max_size=8
    ),
    st.fractions(0, 10),
    st.fractions(0, 10),
)
def test_a_ledger_that_obeys_never_exceeds_its_budget(
    releases: list[tuple[Fraction, bytes]], per_record: Fraction, lifetime: Fraction
) -> None:
    budget = Budget(per_record=per_record, lifetime=lifetime)
    ledger: list[PrivacyEvent] = []
    for i, (epsilon, plan) in enumerate(releases):
        new = event(i, epsilon=epsilon, plan=plan)
        try:
            require_within_budget(ledger, new, budget)
        except BudgetExceededError:
            continue
        ledger.append(new)
    assert compute_per_record_loss(ledger, "s") <= per_record
    assert compute_lifetime_loss(ledger, "s") <= lifetime
