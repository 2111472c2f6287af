"""Uploads that are stored in one transaction, over every store that there is."""

import asyncio

import pytest

from sfumato.aggregator.base.sums.layout import Layout
from sfumato.aggregator.base.sums.selection import Selection
from sfumato.aggregator.resources.batches.store.check import check_sums
from sfumato.aggregator.resources.sketches.store.cells import sum_sketches
from sfumato.aggregator.resources.sketches.store.merge import apply_merge, prepare_merge
from sfumato.shared.wire import decode_message, decode_payload
from tests.aggregator.fleet import Desk, Device, change_bytes, make_plan
from tests.aggregator.serving import Server

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("server", ["sqlite", "postgres"], indirect=True),
]


async def test_what_is_wrong_with_one_upload_refuses_no_other(desk: Desk, server: Server) -> None:
    plan = make_plan()
    study = await desk.publish(plan)
    devices = [Device(number) for number in range(12)]
    await desk.enrol(study, *devices)
    messages = [device.message(study, plan) for device in devices]
    # One is stored before, one has another payload than what is stored, one cannot be.
    await desk.put(study, *messages[0])
    await desk.put(study, *messages[1])
    messages[1] = devices[1].message(study, plan, devices[1].release(plan, noise_seed=99))
    messages[2] = devices[2].message(study, plan, n_records=plan.most_records + 1)
    # One is altered on the way, and one is of a device that nobody knows.
    messages[3] = messages[3][0], change_bytes(messages[3][1], -1)
    messages[4] = Device(99).message(study, plan)
    answers = await asyncio.gather(*(desk.put(study, *message) for message in messages))
    statuses = [answer.status_code for answer in answers]
    assert statuses == [200, 409, 422, statuses[3], statuses[4], *[201] * 7]
    assert statuses[3] in (401, 403, 422)
    assert statuses[4] in (401, 403)
    stored = [0, *range(5, 12)]
    async with server.store.begin() as transaction:
        totals = await sum_sketches(transaction, study, Selection(), layout=Layout.of(plan))
    first = devices[1].message(study, plan)[1]
    payloads = [decode_message(messages[i][1]).payload for i in stored]
    expected = sum(
        decode_payload(payload, width=plan.payload_width, n_coordinates=plan.n_coordinates)
        for payload in [decode_message(first).payload, *payloads]
    )
    assert totals.n_sketches == 9
    assert (totals.sums == expected).all()


async def test_a_study_takes_exactly_as_many_as_its_plan_allows(desk: Desk) -> None:
    plan = make_plan(most_sketches=5)
    study = await desk.publish(plan)
    devices = [Device(number) for number in range(12)]
    await desk.enrol(study, *devices)
    messages = [device.message(study, plan) for device in devices]
    answers = await asyncio.gather(*(desk.put(study, *message) for message in messages))
    statuses = sorted(answer.status_code for answer in answers)
    assert statuses[:5] == [201] * 5
    assert 201 not in statuses[5:]
    summary = await desk.read(f"/v1/studies/{study.hex()}")
    assert summary["n_sketches"] == 5


async def test_many_windows_of_many_devices_at_once_are_all_stored(desk: Desk) -> None:
    plan = make_plan()
    study = await desk.publish(plan)
    devices = [Device(number) for number in range(6)]
    await desk.enrol(study, *devices)
    messages = [device.message(study, plan, sequence=i) for i in range(5) for device in devices]
    answers = await asyncio.gather(*(desk.put(study, *message) for message in messages))
    assert {answer.status_code for answer in answers} == {201}
    listed = await desk.read(f"/v1/studies/{study.hex()}/devices")
    assert [item["n_sketches"] for item in listed["items"]] == [5] * 6


async def test_what_was_prepared_before_a_device_was_excluded_is_added_once_and_taken_out(
    desk: Desk, server: Server
) -> None:
    plan = make_plan()
    study = await desk.open(Device(1), Device(2), plan=plan)
    for device in (Device(1), Device(2)):
        await desk.send(study, device, plan)
    layout = Layout.of(plan)
    async with server.store.begin() as transaction:
        prepared = await prepare_merge(transaction, study, most=10, layout=layout)
    assert prepared is not None
    await server.services.roster.exclude(Device(1).device_id, reason="lies", actor="test")
    async with server.store.begin(write=True) as transaction:
        assert await apply_merge(transaction, prepared) == 2
        totals = await sum_sketches(transaction, study, Selection(), layout=layout)
        assert totals.n_sketches == 1
    assert await server.services.merger.merge_all() == 1
    async with server.store.begin(write=True) as transaction:
        # Not twice either.
        assert await apply_merge(transaction, prepared) == 0
    async with server.store.begin() as transaction:
        assert await check_sums(transaction, study, layout=layout) == []
        totals = await sum_sketches(transaction, study, Selection(), layout=layout)
    assert totals.n_sketches == 1
