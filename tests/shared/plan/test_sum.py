"""Plans with a secure sum: drafts, endorsement, rules and widths."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from sfumato.shared.errors import PlanError
from sfumato.shared.plan import (
    Helper,
    WindowRule,
    decode_plan,
    draft_from_json,
    encode_plan,
    endorse,
    plan_from_json,
    plan_to_json,
)
from sfumato.shared.plan.endorsement import require_endorsed
from tests.shared.refusals import list_wrong_refusals
from tests.shared.sharing.samples import HELPER, IDENTITY, make_draft, make_plan

WINDOW = WindowRule(kind="time", origin=1_000_000, length_s=3600)


def test_a_plan_that_its_helper_has_accepted_survives_both_encodings() -> None:
    plan = make_plan()

    assert decode_plan(encode_plan(plan)) == plan
    assert plan_from_json(plan_to_json(plan)) == plan


def test_a_draft_is_no_plan_until_a_helper_accepts_it() -> None:
    draft = plan_to_json(make_draft())

    with pytest.raises(PlanError, match=r"release.helper: is missing.*sfumato helper accept"):
        plan_from_json(draft)
    assert draft_from_json(draft) == make_draft()


@pytest.mark.parametrize(
    "change",
    [
        {"most_records": 6},
        {"most_clusters": 3},
        {"window": replace(WINDOW, length_s=60)},
        {"epsilon": Fraction(2)},
        {"parts": 2},
        {"grace_s": 1},
        {"least_reports": 3},
    ],
)
def test_an_endorsement_is_of_every_field_of_the_plan(change: dict[str, Any]) -> None:
    helper = make_plan().helper
    draft = make_draft(**change)
    release = draft.sum_release
    assert release is not None
    forged = replace(draft, release=replace(release, helper=helper))

    with pytest.raises(PlanError, match=r"release.helper.endorsement: must be the helper"):
        plan_from_json(plan_to_json(forged))


@pytest.mark.parametrize(
    "change",
    [
        {"name": "Another"},
        {"identity": bytes(32)},
        {"key": b"\x09" + bytes(31)},
        {"endorsement": bytes(64)},
    ],
)
def test_a_helper_that_was_exchanged_is_refused(change: dict[str, Any]) -> None:
    plan = make_plan()
    release = plan.sum_release
    assert release is not None
    forged = replace(plan, release=replace(release, helper=replace(plan.helper, **change)))

    with pytest.raises(PlanError, match=r"release\.helper\.endorsement"):
        require_endorsed(forged)


def test_a_rule_that_is_broken_is_named() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"window": WindowRule(kind="count", length=5)}, "window.kind"),
        ({"least_records": 2}, "least_records"),
        ({"frequencies_per_sketch": 10, "mechanism": "discrete-laplace"}, "release"),
        ({"least_reports": 1}, "least_reports"),
        ({"least_reports": 1001}, "least_reports"),
        ({"most_reports": (1 << 32) + 1}, "most_reports"),
        ({"parts": 0}, "parts"),
        ({"parts": 65}, "parts"),
        ({"grace_s": -1}, "grace_s"),
        ({"grace_s": 30 * 86400 + 1}, "grace_s"),
        ({"late_s": 30 * 86400 + 1}, "late_s"),
        ({"release": "local.v1"}, "least_reports"),
    ]
    assert list_wrong_refusals(make_draft, cases) == []


@pytest.mark.parametrize(
    ("helper", "field"),
    [
        (replace(HELPER, name=""), "release.helper.name"),
        (replace(HELPER, name="x" * 65), "release.helper.name"),
        (replace(HELPER, name="a\u202eb"), "release.helper.name"),
        (replace(HELPER, identity=bytes(31)), "release.helper.identity"),
        (replace(HELPER, key=bytes(32)), "release.helper.key"),
        (replace(HELPER, key=bytes(33)), "release.helper.key"),
    ],
)
def test_a_helper_that_cannot_be_is_refused(helper: Helper, field: str) -> None:
    plan = endorse(make_draft(), helper, IDENTITY.sign)

    with pytest.raises(PlanError) as refused:
        plan_from_json(plan_to_json(plan))

    assert refused.value.field == field


def test_a_batch_has_room_for_all_reports_and_both_noises_and_four_spare_bits() -> None:
    plan = make_plan()

    largest = 1000 * 5 * plan.amplitude + 2 * plan.mechanism.noise_bound

    assert plan.coordinate_bound == largest
    assert largest < 1 << (8 * plan.payload_width - 5)
    assert largest >= 1 << (8 * (plan.payload_width - 1) - 5)
    assert plan.released_variance == 2 * plan.mechanism.variance


def test_a_secret_count_gets_both_noises() -> None:
    changes: dict[str, Any] = {"neighbouring": "add-remove-one"}
    plan = make_plan(**changes)
    local = make_draft(release="local.v1", least_reports=None, most_reports=None, **changes)

    assert plan.count_variance == 2 * local.count_variance > 0


def test_a_plan_is_endorsed_once() -> None:
    with pytest.raises(PlanError, match="must be a draft of a secure sum without a helper"):
        endorse(make_plan(), HELPER, IDENTITY.sign)


def test_a_local_plan_has_one_noise_and_no_helper() -> None:
    plan = make_draft(release="local.v1", least_reports=None, most_reports=None)

    assert plan.released_variance == plan.mechanism.variance
    with pytest.raises(PlanError, match=r"release\.helper"):
        _ = plan.helper
