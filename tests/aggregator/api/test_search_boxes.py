"""Search boxes: stored with a study, part of a decode's identity, shown with its result."""

import asyncio
from typing import Any

import pytest

from sfumato.aggregator.worker import Worker
from sfumato.shared.plan import plan_to_json
from tests.aggregator.fleet import Desk, Device, assert_problem, make_plan
from tests.aggregator.serving import Server
from tests.walking import Walk

pytestmark = pytest.mark.anyio

# Around the clusters of the fleet's records, in a plan from -10 to 10.
BOX = {"pressure": [-6.5, 6.5]}


async def publish(desk: Desk, name: str = "pumps", **members: Any) -> Any:
    body = {"name": name, "plan": plan_to_json(make_plan()), "allow_same_plan": True} | members
    return await desk.operate("POST", "/v1/studies", body)


async def fill(desk: Desk) -> bytes:
    study = await desk.open(Device(1))
    await desk.put(study, *Device(1).message(study, make_plan()))
    return study


async def decode(desk: Desk, study: bytes, **members: Any) -> Any:
    body = {"n_clusters": 3, "settings": {"n_replicates": 1}} | members
    return await desk.post(f"/v1/studies/{study.hex()}/decodes", body)


async def test_a_study_is_created_with_a_search_box_outside_its_identity(desk: Desk) -> None:
    made = await publish(desk, search_box=BOX | {"flow": [-10, 10]})
    assert (made.status_code, made.json()["search_box"]) == (201, BOX)
    shown = await desk.read(f"/v1/studies/{made.json()['study_id']}")
    assert shown["search_box"] == BOX
    for again in (await publish(desk), await publish(desk, search_box=BOX)):
        assert (again.status_code, again.json()["search_box"]) == (200, BOX)
        assert again.json()["study_id"] == made.json()["study_id"]
    other = await publish(desk, search_box={})
    assert_problem(other, "store-conflict", 409, "search_box")
    assert (await publish(desk, name="without")).json()["search_box"] == {}


async def test_a_search_box_is_changed_as_it_was_last_read(desk: Desk) -> None:
    study = await desk.publish(make_plan())
    url = f"/v1/studies/{study.hex()}"
    etag = (await desk.http.get(url, headers=desk.analyst)).headers["etag"]
    changed = await desk.change(study, None, search_box=BOX, if_match=etag)
    assert (changed.json()["search_box"], changed.json()["state"]) == (BOX, "open")
    stale = await desk.change(study, None, search_box={}, if_match=etag)
    assert_problem(stale, "precondition-failed", 412, "If-Match")
    # The same box again is no change; a change of the state leaves the box.
    same = await desk.change(study, None, search_box=BOX)
    assert same.headers["etag"] == changed.headers["etag"]
    assert (await desk.change(study, "closed")).json()["search_box"] == BOX
    both = await desk.change(study, "open", search_box={})
    assert (both.json()["search_box"], both.json()["state"]) == ({}, "open")


async def test_a_wrong_search_box_is_refused_by_field_everywhere(desk: Desk) -> None:
    study = await fill(desk)
    with Walk() as walk:
        for box, field in [
            ({"colour": [0, 1]}, "search_box.colour"),
            ({"flow": [1, 1]}, "search_box.flow"),
            ({"flow": [2, 1]}, "search_box.flow"),
            ({"flow": [-10.5, 1]}, "search_box.flow"),
            ({"flow": [1, 10.5]}, "search_box.flow"),
            ({"flow": [0, 1, 2]}, "search_box.flow"),
            ({"flow": [0, "one"]}, "search_box.flow.1"),
            ({"flow": [0, None]}, "search_box.flow.1"),
            ([], "search_box"),
        ]:
            with walk.cell(box, field):
                answers = [
                    await publish(desk, name="another", search_box=box),
                    await desk.change(study, None, search_box=box),
                    await decode(desk, study, search_box=box),
                ]
                for answer in answers:
                    assert_problem(answer, "request-invalid", 422, field)
                    assert answer.json()["fix"]
                assert (await desk.read(f"/v1/studies/{study.hex()}"))["search_box"] == {}


async def test_a_change_of_nothing_is_refused(desk: Desk) -> None:
    study = await desk.publish(make_plan())
    assert_problem(await desk.change(study, None), "request-invalid", 422, "state")


async def test_the_search_box_is_part_of_a_decodes_identity(desk: Desk) -> None:
    study = await fill(desk)
    without, own = await decode(desk, study), await decode(desk, study, search_box=BOX)
    assert (without.status_code, own.status_code) == (202, 202)
    assert (without.json()["search_box"], own.json()["search_box"]) == ({}, BOX)
    assert without.json()["decode_id"] != own.json()["decode_id"]
    await desk.change(study, None, search_box=BOX)
    # The study's box is the default, and the plan's bounds are the empty box.
    assert (await decode(desk, study)).json()["decode_id"] == own.json()["decode_id"]
    for plans_own in ({}, {"pressure": [-10, 10]}, {"flow": [-10.0, 10.0]}):
        again = await decode(desk, study, search_box=plans_own)
        assert again.json()["decode_id"] == without.json()["decode_id"]


async def test_a_decode_keeps_the_search_box_of_its_request(server: Server) -> None:
    desk = server.desk
    study = await fill(desk)
    await desk.change(study, None, search_box=BOX)
    queued = (await decode(desk, study)).json()
    await desk.change(study, None, search_box={"flow": [-1, 1]})
    worker = Worker(server.services.jobs, lease_s=60.0, poll_s=0.01)
    assert await worker.run_once(asyncio.Event())
    ended = await desk.read(f"/v1/decodes/{queued['decode_id']}")
    assert (ended["state"], ended["search_box"]) == ("succeeded", BOX)
    assert ended["result"]["search_box"] == BOX
    assert ended["decode_id"] == queued["decode_id"]
