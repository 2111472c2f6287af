"""Plans that protect all records of a device together, and plans of phase reports."""

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays

from sfumato.shared.core import feature_table
from sfumato.shared.errors import PlanMismatchError, UnsupportedVersionError
from sfumato.shared.plan import (
    PhaseRelease,
    SketchPlan,
    decode_plan,
    encode_plan,
    make_statement,
    plan_from_json,
    plan_from_spec,
    plan_to_json,
)
from sfumato.shared.privacy import certify_odds
from sfumato.shared.privacy.polygon import GON24
from tests.shared.plan.test_plan import SPEC
from tests.shared.refusals import list_wrong_refusals

TABLE = feature_table().astype(np.int64)


def make(**changes: Any) -> SketchPlan:
    return plan_from_spec({**SPEC, "unit": "device", **changes})


def make_phases(**changes: Any) -> SketchPlan:
    spec = {name: value for name, value in SPEC.items() if name != "most_records"}
    return plan_from_spec({**spec, "release": "phase.v1", **changes})


@pytest.mark.parametrize("plan", [make(), make_phases(), make_phases(epsilon="6")])
def test_bytes_and_json_carry_the_plan_exactly(plan: SketchPlan) -> None:
    assert decode_plan(encode_plan(plan)) == plan
    assert plan_from_json(json.loads(json.dumps(plan_to_json(plan)))) == plan


def test_a_plan_of_phase_reports_has_the_law_that_epsilon_allows() -> None:
    plan = make_phases(epsilon="6", frequencies_per_sketch=2)
    assert isinstance(plan.release, PhaseRelease)
    certify_odds(plan.release.make_law(), Fraction(6), 2)
    assert plan.payload_bytes == 4
    assert plan.size_limits == (1, 1)
    assert (plan.most_sketches_per_device, plan.most_streams_per_device) == (1, 1)
    # A lying phone moves its feature as far as 1 / gain true ones.
    assert make_statement(plan).influence == (1 / plan.mechanism.gain,) * 2


@given(
    st.integers(1, 500),
    arrays(np.int64, st.integers(1, 500), elements=st.integers(0, 65535)),
    arrays(np.int64, st.integers(1, 500), elements=st.integers(0, 65535)),
)
def test_two_means_differ_no_more_than_two_records_do(
    seed: int, one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]
) -> None:
    plan = make()
    means = [
        plan.finish_sum(TABLE[phases].sum(axis=0), len(phases))
        for phases in (one, other, np.array([seed]))
    ]
    assert np.array_equal(means[2], TABLE[seed])
    release = plan.release
    assert not isinstance(release, PhaseRelease)
    c, s = (means[0] - means[1]).tolist()
    assert GON24.norm(c, s) <= release.sensitivity.value


def find_corners(points: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """Return the corners of the convex hull, by Andrew's chain."""

    def chain(ordered: list[tuple[int, int]]) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for x, y in ordered:
            while len(found) > 1:
                (x0, y0), (x1, y1) = found[-2:]
                if (x1 - x0) * (y - y0) > (y1 - y0) * (x - x0):
                    break
                found.pop()
            found.append((x, y))
        return found

    ordered = sorted(points)
    return {*chain(ordered), *chain(ordered[::-1])}


def test_the_hull_of_the_features_is_its_own_mirror_image_though_the_features_are_not() -> None:
    # So with (x, y) it contains the rectangle of (+-x, +-y), and with that (x, y) rounded to zero.
    rows = {(x, y) for x, y in TABLE.tolist()}
    corners = find_corners(rows)
    assert (len(rows), len(corners)) == (64_180, 1344)
    for signs in ((-1, 1), (1, -1)):
        assert {(signs[0] * x, signs[1] * y) for x, y in corners} == corners
        assert len({(signs[0] * x, signs[1] * y) for x, y in rows} - rows) == 24


def test_a_mean_is_rounded_towards_zero_and_that_of_no_usable_record_is_zero() -> None:
    plan = make()
    assert plan.finish_sum(np.array([7, -7, 2, 0]), 3).tolist() == [2, -2, 0, 0]
    assert plan.finish_sum(np.zeros(4, dtype=np.int64), 5).tolist() == [0, 0, 0, 0]


def test_what_would_say_more_than_one_sketch_a_slot_is_refused_by_name() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"neighbouring": "add-remove-one"}, "neighbouring"),
        ({"window": {"kind": "count", "length": 5}}, "window.kind"),
        ({"least_records": 2}, "least_records"),
        ({"measurements_per_record": 10}, "measurements_per_record"),
        ({"most_streams_per_device": 2}, "most_streams_per_device"),
        ({"max_records_per_person": 3}, "max_records_per_person"),
    ]
    assert list_wrong_refusals(make, cases) == []


def test_phase_reports_go_with_no_other_choice() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"mechanism": "discrete-knorm"}, "mechanism"),
        ({"delta": "1e-6"}, "delta"),
        ({"neighbouring": "add-remove-one"}, "neighbouring"),
        ({"unit": "record"}, "unit"),
        ({"most_records": 2}, "most_records"),
        ({"measurements_per_record": 10}, "frequencies_per_sketch"),
        ({"frequencies_per_sketch": 3}, "frequencies_per_sketch"),
        ({"window": {"kind": "count", "length": 1}}, "window.kind"),
    ]
    assert list_wrong_refusals(make_phases, cases) == []


@pytest.mark.parametrize(
    ("name", "value"), [("arc", 13000), ("odds", "3"), ("odds", "2"), ("arc", -1)]
)
def test_a_law_that_epsilon_does_not_give_is_refused(name: str, value: Any) -> None:
    document = plan_to_json(make_phases())
    document["release"][name] = value
    with pytest.raises(PlanMismatchError) as refusal:
        plan_from_json(document)
    assert refusal.value.field == f"release.{name}"


def test_the_statement_promises_the_records_of_a_window_together() -> None:
    for plan in (make(), make_phases()):
        statement = make_statement(plan)
        assert [(p.n_records, p.n_windows) for p in statement.people] == [(1, 1), (1, 10)]
        assert "All records of one window are protected together" in statement.describe()
        facts = {fact.what: fact.detail for fact in statement.public}
        assert facts["number of records"].startswith("Only that there was one")
        assert "how many records" not in statement.unprotected[0]


def test_a_release_of_an_unknown_kind_is_refused() -> None:
    document = plan_to_json(make_phases())
    document["release"]["kind"] = "phase.v2"
    with pytest.raises(UnsupportedVersionError) as refusal:
        plan_from_json(document)
    assert refusal.value.field == "release.kind"
