"""Questions on the density behind a decode."""

import asyncio
from typing import Any

import numpy as np
import pytest

from sfumato.aggregator.worker import Worker
from sfumato.shared.plan import SketchPlan
from tests.aggregator.fleet import Desk, Device, assert_problem, draw_records, make_plan
from tests.aggregator.serving import Server
from tests.walking import Walk

pytestmark = pytest.mark.anyio


async def queue(server: Server, **changes: Any) -> tuple[SketchPlan, str]:
    """Upload a sketch and ask for a decode of it."""
    desk, plan = server.desk, make_plan()
    study = await desk.open(Device(1), plan=plan)
    await desk.put(study, *Device(1).message(study, plan))
    body = {"n_clusters": 3, "settings": {"n_replicates": 1}} | changes
    answer = await desk.post(f"/v1/studies/{study.hex()}/decodes", body)
    assert answer.status_code == 202, answer.text
    return plan, str(answer.json()["decode_id"])


async def solve(server: Server) -> None:
    worker = Worker(server.services.jobs, lease_s=60.0, poll_s=0.01)
    assert await worker.run_once(asyncio.Event())


async def test_a_decode_answers_questions_and_gives_its_bars(server: Server) -> None:
    plan, decode = await queue(server)
    await solve(server)
    result = (await server.desk.read(f"/v1/decodes/{decode}"))["result"]
    assert result["bars"]["word"] in ("stated", "rough", "none")
    has_bars = result["bars"]["word"] != "none"
    assert (result["centroid_errors"] is not None) == has_bars
    assert (result["weight_errors"] is not None) == has_bars
    name = plan.dimensions[0].name
    asked = {
        "ranges": [{}, {name: [None, plan.dimensions[0].upper]}],
        "quantiles": [{"dimension": name, "share": 0.5}],
        "marginals": [{"dimension": name, "points": 16}],
        "means": [{"mean_of": name, "within": {}}],
    }
    answer = await server.desk.post(f"/v1/decodes/{decode}/questions", asked)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert [each["share"] for each in found["ranges"]] == pytest.approx([1.0, 1.0])
    records = draw_records(1, 500)[:, 0]
    assert abs(found["means"][0]["mean"] - records.mean()) < 0.5 * np.ptp(records)
    assert len(found["marginals"][0]["x"]) == 16
    assert found["level"] == 0.9
    again = await server.desk.post(f"/v1/decodes/{decode}/questions", asked)
    assert again.json() == found


async def test_a_decode_that_has_not_ended_answers_nothing(server: Server) -> None:
    _, decode = await queue(server)
    answer = await server.desk.post(f"/v1/decodes/{decode}/questions", {"ranges": [{}]})
    assert_problem(answer, "decoding-invalid", 422, "decode")
    assert "queued" in answer.json()["detail"]


async def test_a_decoder_without_a_density_answers_nothing(server: Server) -> None:
    _, decode = await queue(server, decoder="cl-ompr", settings={})
    await solve(server)
    answer = await server.desk.post(f"/v1/decodes/{decode}/questions", {"ranges": [{}]})
    assert_problem(answer, "decoding-invalid", 422, "decode")
    assert "cl-ompr" in answer.json()["detail"]


async def test_a_question_that_cannot_be_answered_is_refused(server: Server) -> None:
    _, decode = await queue(server)
    await solve(server)
    refused: list[tuple[dict[str, Any], str, str]] = [
        ({"ranges": [{"nonsense": [0, 1]}]}, "decoding-invalid", "ranges[0].nonsense"),
        ({"ranges": [{}] * 33}, "request-invalid", "ranges"),
        ({"quantiles": [{"dimension": "x"}]}, "request-invalid", "quantiles.0.share"),
        ({"unknown": []}, "request-invalid", "unknown"),
    ]
    with Walk() as walk:
        for body, slug, field in refused:
            with walk.cell(body):
                answer = await server.desk.post(f"/v1/decodes/{decode}/questions", body)
                assert answer.json()["type"] == f"/problems/{slug}", answer.text
                assert field in answer.text


async def test_questions_about_an_unknown_decode_find_nothing(desk: Desk) -> None:
    answer = await desk.post(f"/v1/decodes/{'ab' * 32}/questions", {"ranges": [{}]})
    assert_problem(answer, "not-found", 404, "decode")
