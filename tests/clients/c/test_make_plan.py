"""The compiler of plans: what it verifies, what it refuses, and what a device trusts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clients.c.make_plan import MOST_DIMENSIONS, compile_plan, main, read_study
from sfumato.shared.errors import PlanError
from sfumato.shared.plan import ClustersPart, SketchPlan, plan_to_json
from sfumato.shared.wire import compute_study_id
from tests.clients.c.building import DEVICE, list_plans
from tests.vectors import wire_plans


def write_answer(path: Path, plan: SketchPlan, **changes: Any) -> str:
    """Write what a server answers; return the identity of the unchanged study."""
    document = plan_to_json(plan)
    path.write_text(json.dumps({"name": "weather", "plan": document | changes}))
    return compute_study_id("weather", plan).hex()


def test_a_study_is_compiled_from_a_file_of_the_servers_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = list_plans()["knorm"]
    study = write_answer(tmp_path / "plan.json", wire_plans.BY_COUNT)
    assert main([str(tmp_path / "plan.json"), study]) == 0
    assert capsys.readouterr().out == compile_plan(wire_plans.BY_COUNT, bytes.fromhex(study))
    assert "SFUMATO_KNORM" in compile_plan(plan, bytes(32))


def test_a_plan_of_another_study_or_with_less_noise_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "plan.json"
    study = write_answer(path, wire_plans.BY_COUNT)
    with pytest.raises(PlanError, match="study"):
        read_study(str(path), "00" * 32)
    release = plan_to_json(wire_plans.BY_COUNT)["release"]
    write_answer(path, wire_plans.BY_COUNT, release=release | {"scale": "1"})
    assert main([str(path), study]) == 1
    assert "scale" in capsys.readouterr().err
    assert main([str(tmp_path / "none.json"), study]) == 1


@pytest.mark.parametrize(
    ("plan", "field"),
    [
        ("HISTOGRAM", "statistic.kind"),
        ("LOOK", "release.mechanism"),
        ("SECRET_LOOK", "release.neighbouring"),
        ("PHASES", "release.kind"),
        ("OF_DEVICES", "release.unit"),
        ("SECRET_COUNT", "release.neighbouring"),
        ("MIXED_FEATURES", "dimensions"),
        ("SPLIT", "statistic.frequencies_per_sketch"),
    ],
)
def test_a_plan_that_the_device_does_not_compute_is_refused_by_name(plan: str, field: str) -> None:
    with pytest.raises(PlanError) as caught:
        compile_plan(getattr(wire_plans, plan), bytes(32))
    assert caught.value.field == field
    assert "Python agent" in str(caught.value)


def test_a_phase_of_a_campaign_is_compiled_unless_phases_are_drawn() -> None:
    plan = wire_plans.PHASE_OF_CAMPAIGN
    assert "leaves_out_outside = true" in compile_plan(plan, bytes(32))
    drawn = replace(plan, campaign=replace(wire_plans.CAMPAIGN, devices="drawn"))
    with pytest.raises(PlanError, match=r"campaign\.devices: must be all"):
        compile_plan(drawn, bytes(32))


def test_a_sketch_of_some_clusters_is_refused_by_name() -> None:
    whole = list_plans()["measured"].statistic
    assert isinstance(whole, ClustersPart)
    plan = replace(list_plans()["measured"], statistic=replace(whole, clusters_per_sketch=1))
    with pytest.raises(PlanError, match="all clusters") as caught:
        compile_plan(plan, bytes(32))
    assert caught.value.field == "statistic.clusters_per_sketch"


def test_the_header_has_room_for_the_dimensions_that_are_compiled() -> None:
    header = (DEVICE / "include/sfumato.h").read_text("utf-8")
    assert f"SFUMATO_DIMENSIONS_MOST = {MOST_DIMENSIONS}," in header
