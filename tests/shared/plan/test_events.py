"""Events of releases under a plan: every kind of release states its relation and its promise."""

import pytest

from sfumato.shared.plan import SketchPlan, compute_plan_digest, make_event
from tests.shared.plan import test_plan, test_units
from tests.shared.sharing import samples

PRESENCE = {
    "neighbouring": "add-remove-one",
    "window": {"kind": "time", "origin": 3600, "length_s": 3600},
}
PLANS = [
    test_plan.make(),
    test_plan.make(**PRESENCE),
    test_plan.make(epsilon="1/3", delta="1e-6", **PRESENCE),
    test_units.make_phases(),
    samples.make_plan(),
    samples.make_plan(neighbouring="add-remove-one"),
]


@pytest.mark.parametrize("plan", PLANS)
def test_an_event_states_the_relation_and_the_promise_of_its_plan(plan: SketchPlan) -> None:
    event = make_event(plan, stream="a", sequence=3, study=b"s")
    release, guarantee = plan.release, plan.mechanism.guarantee
    assert (event.study, event.stream, event.sequence, event.count) == (b"s", "a", 3, 1)
    assert event.plan_digest == compute_plan_digest(plan)
    assert event.neighbouring == release.neighbouring == guarantee.neighbouring
    assert (event.epsilon, event.delta, event.rho) == (
        *(release.epsilon, release.delta),
        guarantee.rho,
    )
    assert event.epsilon >= guarantee.epsilon
    assert event.delta >= guarantee.delta
