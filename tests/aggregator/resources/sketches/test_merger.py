import asyncio
from typing import Any

import pytest

from sfumato.aggregator.resources.batches.store.exclusion import list_leaving
from sfumato.aggregator.resources.sketches.store.merge import list_unmerged
from tests.aggregator.fleet import SLOT, Desk, Device, make_plan
from tests.aggregator.serving import Server, SteppedClock, open_server

pytestmark = pytest.mark.anyio


async def fill(desk: Desk) -> bytes:
    """Four sketches: two devices, two slots each."""
    plan = make_plan()
    study = await desk.publish(plan)
    devices = [Device(1), Device(2, {"site": "south"})]
    await desk.enrol(study, *devices)
    for device in devices:
        for i in range(2):
            await desk.send(study, device, plan, sequence=i)
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
    study = await server.desk.open(Device(1), plan=plan)
    message = Device(1).message(study, plan)
    assert (await server.desk.put(study, *message)).status_code == 201
    await server.services.merger.merge_all()
    assert (await server.desk.put(study, *message)).status_code == 200
    assert await server.services.merger.merge_all() == 0
    made = await server.desk.post(f"/v1/studies/{study.hex()}/snapshots", {})
    assert made.json()["n_sketches"] == 1


async def test_payloads_are_dropped_after_their_days_and_no_sum_changes(
    clock: SteppedClock,
) -> None:
    async with open_server(clock=clock, payload_days=30.0) as server:
        study = await fill(server.desk)
        await server.services.merger.merge_all()
        clock.seconds += 29 * 86400.0
        assert await server.services.merger.drop_payloads() == 0
        url = f"/v1/studies/{study.hex()}/snapshots"
        before = await server.desk.post(url, {})
        clock.seconds += 2 * 86400.0
        assert await server.services.merger.drop_payloads() == 4
        assert await server.services.merger.drop_payloads() == 0
        after = await server.desk.post(url, {})
        assert (before.status_code, after.status_code) == (201, 200)
        assert before.json() == after.json()
        assert await server.services.merger.check(study) == []


async def test_no_payload_is_dropped_unless_it_is_asked_for(server: Server) -> None:
    await fill(server.desk)
    await server.services.merger.merge_all()
    server.clock.seconds += 10_000 * 86400.0
    assert await server.services.merger.drop_payloads() == 0


async def test_merging_goes_on_by_itself_until_the_server_stops(server: Server) -> None:
    study = await fill(server.desk)
    stop = asyncio.Event()
    running = asyncio.create_task(server.services.merger.run(stop))
    while True:
        async with server.store.begin() as transaction:
            if not await list_unmerged(transaction):
                break
        await asyncio.sleep(0.05)
    stop.set()
    await running
    assert await server.services.merger.check(study) == []


async def test_a_study_with_much_to_take_out_holds_up_no_other(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches are taken in turns, and new sketches come in between."""
    monkeypatch.setattr("sfumato.aggregator.resources.sketches.service.merger._REMOVED", 1)
    desk = server.desk
    study = await fill(desk)
    await server.services.merger.merge_all()
    url = f"/v1/devices/{Device(1).device_id.hex()}/exclude"
    await desk.operate("POST", url, {"reason": "lies"})
    plan = make_plan()
    other = await desk.open(Device(3), plan=plan, name="other")
    await desk.send(other, Device(3), plan)
    n_moved, has_more = await server.services.merger._move_some()
    assert (n_moved, has_more) == (2, True)
    async with server.store.begin() as transaction:
        assert await list_unmerged(transaction) == []
        assert await list_leaving(transaction) == [study]
    assert await server.services.merger.merge_all() == 1
    async with server.store.begin() as transaction:
        assert await list_leaving(transaction) == []
    assert await server.services.merger.check(study) == []
