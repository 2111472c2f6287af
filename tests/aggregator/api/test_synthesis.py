"""Synthetic records from the density behind a decode, over REST."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.aggregator.api.test_questions import queue, solve
from tests.aggregator.api.test_statistics import NUMBERS, fill, make_other_plan
from tests.aggregator.fleet import assert_problem, make_plan
from tests.aggregator.serving import Server

pytestmark = pytest.mark.anyio


async def draw(server: Server, decode: str, **asked: Any) -> Any:
    return await server.desk.post(f"/v1/decodes/{decode}/records", asked)


async def test_a_decode_gives_synthetic_records_and_says_what_they_are(server: Server) -> None:
    plan, decode = await queue(server)
    await solve(server)
    answer = await draw(server, decode, n_records=50, seed=7, allow_unusable=True)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert [each["name"] for each in found["dimensions"]] == [each.name for each in plan.dimensions]
    columns = np.array(found["columns"])
    assert columns.shape == (plan.n_dimensions, 50)
    assert "no row is a record" in found["statement"]
    assert found["privacy"][0]["epsilon"] == str(plan.release.epsilon)
    again = await draw(server, decode, n_records=50, seed=7, allow_unusable=True)
    assert again.json() == found
    further = await draw(server, decode, n_records=50, seed=7, part=1, allow_unusable=True)
    assert further.json()["columns"] != found["columns"]


async def test_columns_agree_with_a_histogram_of_another_study(server: Server) -> None:
    histogram, records = await fill(server.desk, make_other_plan("histogram", epsilon=Fraction(4)))
    snapshot = await server.desk.post(f"/v1/studies/{histogram.hex()}/snapshots", {})
    plan = make_plan(dimensions=tuple(_scaled(each) for each in NUMBERS))
    study, _ = await fill(server.desk, plan, first=11)
    asked = {"n_clusters": 3, "settings": {"n_replicates": 1}}
    queued = await server.desk.post(f"/v1/studies/{study.hex()}/decodes", asked)
    await solve(server)
    answer = await draw(
        server,
        queued.json()["decode_id"],
        n_records=4000,
        histogram=snapshot.json()["snapshot_id"],
        allow_unusable=True,
    )
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert found["matched"] == ["pressure", "flow"]
    assert len(found["privacy"]) == 2
    drawn = np.array(found["columns"][1])
    for share in (0.1, 0.5, 0.9):
        cut = np.quantile(records[:, 1], share)
        assert abs(np.mean(drawn < cut) - share) < 0.1


async def test_answers_follow_a_histogram_of_the_same_records(server: Server) -> None:
    histogram, records = await fill(server.desk, make_other_plan("histogram", epsilon=Fraction(4)))
    snapshot = await server.desk.post(f"/v1/studies/{histogram.hex()}/snapshots", {})
    plan = make_plan(dimensions=tuple(_scaled(each) for each in NUMBERS))
    study, _ = await fill(server.desk, plan, first=11)
    queued = await server.desk.post(f"/v1/studies/{study.hex()}/decodes", {"n_clusters": 3})
    await solve(server)
    decode = queued.json()["decode_id"]
    cut = float(np.median(records[:, 1]))
    asked = {"ranges": [{"flow": [None, cut]}], "histogram": snapshot.json()["snapshot_id"]}
    url = f"/v1/decodes/{decode}/questions"
    answer = await server.desk.post(url, asked)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert found["ranges"][0]["share"] == pytest.approx(0.5, abs=0.1)
    assert any("flow follow a histogram" in words for words in found["words"])
    assert (await server.desk.post(url, asked)).json() == found
    alone = await server.desk.post(url, asked | {"histogram": None})
    assert any("no bars are shown" in words for words in alone.json()["words"])
    state = await server.desk.read(f"/v1/decodes/{decode}")
    wrong = await server.desk.post(url, asked | {"histogram": state["snapshot_id"]})
    assert_problem(wrong, "wrong-statistic", 409, wrong.json().get("field"))
    nobody = await server.desk.post(url, asked | {"histogram": "ab" * 32})
    assert_problem(nobody, "not-found", 404, nobody.json().get("field"))


async def test_unusable_unknown_and_other_inputs_are_refused_by_name(server: Server) -> None:
    _, decode = await queue(server)
    early = await draw(server, decode)
    assert_problem(early, "decoding-invalid", 422, "decode")
    await solve(server)
    state = await server.desk.read(f"/v1/decodes/{decode}")
    wrong = await draw(server, decode, histogram=state["snapshot_id"], allow_unusable=True)
    assert_problem(wrong, "wrong-statistic", 409, wrong.json().get("field"))
    nobody = await draw(server, decode, histogram="ab" * 32)
    assert_problem(nobody, "not-found", 404, nobody.json().get("field"))
    many = await draw(server, decode, n_records=20_001)
    assert many.status_code == 422
    if state["result"]["verdict"]["word"] == "do not use":
        refused = await draw(server, decode)
        assert_problem(refused, "decoding-invalid", 422, "decode")


def _scaled(dimension: Any) -> Any:
    return replace(dimension, scale=1.0)
