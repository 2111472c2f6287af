from typing import Any

import pytest

from tests.aggregator.fleet import SLOT, Desk, Device, make_plan
from tests.aggregator.serving import Server

pytestmark = pytest.mark.anyio


async def fill(desk: Desk) -> bytes:
    """Four sketches: two devices, two slots each."""
    plan = make_plan()
    study = await desk.publish(plan)
    devices = [Device(1), Device(2, {"site": "south"})]
    await desk.enrol(study, *devices)
    for device in devices:
        for i in range(2):
            message = device.message(study, plan, sequence=i, slots=(SLOT + i, SLOT + i))
            assert (await desk.put(study, *message)).status_code == 201
    return study


@pytest.mark.parametrize("weighting", ["size", "noise-optimal"])
async def test_a_snapshot_is_the_same_before_and_after_merging(
    server: Server, weighting: str
) -> None:
    study = await fill(server.desk)
    url = f"/v1/studies/{study.hex()}/snapshots"
    body: dict[str, Any] = {"first_slot": SLOT, "weighting": weighting}
    before = await server.desk.post(url, body)
    assert await server.services.merger.merge_all() == 4
    assert await server.services.merger.merge_all() == 0
    after = await server.desk.post(url, body)
    assert (before.status_code, after.status_code) == (201, 200)
    assert before.json() == after.json()
    assert await server.services.merger.check(study) == []


async def test_a_replay_after_merging_adds_nothing(server: Server) -> None:
    plan = make_plan()
    study = await server.desk.publish(plan)
    await server.desk.enrol(study, Device(1))
    message = Device(1).message(study, plan)
    assert (await server.desk.put(study, *message)).status_code == 201
    await server.services.merger.merge_all()
    assert (await server.desk.put(study, *message)).status_code == 200
    assert await server.services.merger.merge_all() == 0
    made = await server.desk.post(f"/v1/studies/{study.hex()}/snapshots", {})
    assert made.json()["n_sketches"] == 1
