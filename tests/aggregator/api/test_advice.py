"""Advice before a study exists: its plan makes a study, and a hopeless one says what would help."""

from __future__ import annotations

from typing import Any

import pytest

from sfumato.shared.plan import plan_from_json
from tests.aggregator.fleet import Desk, assert_problem

pytestmark = pytest.mark.anyio

ASKED: dict[str, Any] = {
    "dimensions": [
        {"name": "temperature", "unit": "degF", "lower": 0.0, "upper": 110.0, "spread": 9.0},
        {"name": "wind", "unit": "mph", "lower": 0.0, "upper": 50.0},
    ],
    "n_clusters": 4,
    "n_devices": 100,
    "n_windows": 10,
    "records_per_window": 1000,
}


async def test_the_advised_plan_makes_a_study(desk: Desk) -> None:
    answer = await desk.post("/v1/advice", ASKED)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert found["outlook"] == "good"
    assert found["band"]["high"] <= found["target"]
    assert found["remedies"] is None
    assert "epsilon = 1 " in found["statement"]
    plan = plan_from_json(found["plan"])
    assert [each.name for each in plan.dimensions] == ["temperature", "wind"]
    assert plan.dimensions[0].scale == 9.0
    assert plan.window.origin % 86_400 == 0
    body = {"name": "weather", "plan": found["plan"]}
    made = await desk.operate("POST", "/v1/studies", body)
    assert made.status_code == 201
    again = (await desk.post("/v1/advice", ASKED)).json()
    assert again["plan"] != found["plan"], "the seed is fresh"
    assert again["band"] == found["band"]


@pytest.mark.parametrize(
    ("asked", "unit", "person"),
    [
        ({}, "record", None),
        ({"max_records_per_person": 3}, "record", 3),
        ({"unit": "device", "n_devices": 5000}, "device", None),
    ],
)
async def test_the_plan_protects_what_was_asked_for_and_states_the_records_of_a_person(
    desk: Desk, asked: dict[str, Any], unit: str, person: int | None
) -> None:
    answer = await desk.post("/v1/advice", ASKED | asked)
    assert answer.status_code == 200, answer.text
    plan = plan_from_json(answer.json()["plan"])
    assert (plan.release.unit, plan.max_records_per_person) == (unit, person)


async def test_a_device_as_the_unit_needs_no_records_of_a_person(desk: Desk) -> None:
    asked = {"unit": "device", "n_devices": 5000, "max_records_per_person": 3}
    answer = await desk.post("/v1/advice", ASKED | asked)
    assert_problem(answer, "plan-invalid", 422, "max_records_per_person")


async def test_a_logarithmic_scale_is_in_the_plan_and_its_usual_spread_is_in_doublings(
    desk: Desk,
) -> None:
    bytes_sent = {
        "name": "bytes",
        "lower": 0.0,
        "upper": 2.0**30 - 1.0,
        "transform": {"kind": "log", "resolution": 1.0},
    }
    answer = await desk.post("/v1/advice", ASKED | {"dimensions": [bytes_sent]})
    assert answer.status_code == 200, answer.text
    (dimension,) = plan_from_json(answer.json()["plan"]).dimensions
    assert dimension.transform is not None
    assert dimension.transform.resolution == 1.0
    # A sixth of thirty doublings, shared by four clusters on one axis.
    assert dimension.scale == pytest.approx(0.7 * 5.0 / 4.0)


async def test_a_hopeless_study_says_what_would_do(desk: Desk) -> None:
    few = ASKED | {"n_devices": 2, "n_windows": 1, "records_per_window": 20}
    found = (await desk.post("/v1/advice", few)).json()
    assert found["outlook"] == "hopeless"
    assert found["band"]["high"] is None
    remedies = found["remedies"]
    helped = few | {"records_per_window": remedies["records_per_window"]}
    assert (await desk.post("/v1/advice", helped)).json()["outlook"] == "good"
    assert remedies["epsilon"] is None, "as few records are too few without noise too"
    helped = few | {"n_devices": remedies["n_sketches"]}
    assert (await desk.post("/v1/advice", helped)).json()["outlook"] == "good"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"epsilon": "much"}, "epsilon"),
        ({"epsilon": "1/0"}, "epsilon"),
        ({"epsilon": "1e-40"}, "epsilon"),
        ({"n_devices": 0}, "n_devices"),
        ({"dimensions": []}, "dimensions"),
        ({"dimensions": [{"name": "flow", "lower": 2.0, "upper": 1.0}]}, "upper"),
        (
            {
                "dimensions": [
                    {"name": "a", "lower": 0.0, "upper": 1.0, "transform": {"resolution": 0.0}}
                ]
            },
            "resolution",
        ),
        ({"n_clusters": 1000}, "n_clusters"),
    ],
)
async def test_a_study_that_cannot_be_is_refused_with_its_field(
    desk: Desk, changes: dict[str, Any], field: str
) -> None:
    answer = await desk.post("/v1/advice", ASKED | changes)
    assert answer.status_code == 422, answer.text
    assert field in answer.json()["field"]
