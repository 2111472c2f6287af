"""Requests that come at the same time, over every store that there is."""

import asyncio

import pytest

from sfumato.shared.plan import SketchPlan
from tests.aggregator.fleet import SLOT, Desk, Device, make_plan

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("server", ["sqlite", "postgres"], indirect=True),
]


async def prepare(desk: Desk, *devices: Device, plan: SketchPlan | None = None) -> bytes:
    study = await desk.open(*(devices or (Device(1),)), plan=plan or make_plan())
    return study


async def count_stored(desk: Desk, study: bytes) -> int:
    listed = await desk.read(f"/v1/studies/{study.hex()}/sketches")
    summary = await desk.read(f"/v1/studies/{study.hex()}")
    assert summary["n_sketches"] == len(listed["items"])
    return len(listed["items"])


async def test_the_same_upload_many_times_at_once_stores_once(desk: Desk) -> None:
    study = await prepare(desk)
    sketch, body = Device(1).message(study, make_plan())
    answers = await asyncio.gather(*(desk.put(study, sketch, body) for _ in range(8)))
    assert sorted(answer.status_code for answer in answers) == [200] * 7 + [201]
    assert await count_stored(desk, study) == 1


async def test_two_payloads_under_one_identity_at_once_store_one(desk: Desk) -> None:
    plan, device = make_plan(), Device(1)
    study = await prepare(desk)
    messages = [
        device.message(study, plan, device.release(plan, noise_seed=seed)) for seed in range(6)
    ]
    answers = await asyncio.gather(*(desk.put(study, *message) for message in messages))
    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 5
    assert await count_stored(desk, study) == 1
    (item,) = (await desk.read(f"/v1/studies/{study.hex()}/sketches"))["items"]
    winner = [answer.status_code for answer in answers].index(201)
    again = await desk.put(study, *messages[winner])
    assert again.status_code == 200
    assert item["sketch_id"] == messages[winner][0]


async def test_two_sketches_of_one_window_at_once_store_one(desk: Desk) -> None:
    plan, device = make_plan(), Device(1)
    study = await prepare(desk)
    messages = [device.message(study, plan, sequence=i, slots=(SLOT, SLOT)) for i in range(4)]
    answers = await asyncio.gather(*(desk.put(study, *message) for message in messages))
    assert sorted(answer.status_code for answer in answers) == [201] + [422] * 3
    assert await count_stored(desk, study) == 1


async def test_many_devices_at_once_are_all_stored_and_counted(desk: Desk) -> None:
    plan, devices = make_plan(), [Device(i) for i in range(12)]
    study = await prepare(desk, *devices)
    messages = [device.message(study, plan, sequence=i) for device in devices for i in range(2)]
    answers = await asyncio.gather(*(desk.put(study, *message) for message in messages))
    assert {answer.status_code for answer in answers} == {201}
    assert await count_stored(desk, study) == len(messages)


async def test_a_study_is_never_filled_beyond_its_limit(desk: Desk) -> None:
    plan, devices = make_plan(most_sketches=3), [Device(i) for i in range(8)]
    study = await prepare(desk, *devices, plan=plan)
    answers = await asyncio.gather(
        *(desk.put(study, *device.message(study, plan)) for device in devices)
    )
    assert sorted(answer.status_code for answer in answers) == [201] * 3 + [403] * 5
    assert await count_stored(desk, study) == 3


async def test_one_key_that_enrols_many_times_at_once_is_one_device(desk: Desk) -> None:
    study = await desk.publish(make_plan())
    token = await desk.make_token(study)
    body = Device(1).enrolment(token, study)
    answers = await asyncio.gather(*(desk.http.post("/v1/enrolments", json=body) for _ in range(6)))
    assert sorted(answer.status_code for answer in answers) == [200] * 5 + [201]


async def test_the_same_study_snapshot_and_decode_at_once_are_one(desk: Desk) -> None:
    study = await prepare(desk)
    await desk.put(study, *Device(1).message(study, make_plan()))
    for path, body, new in (
        ("snapshots", {}, 201),
        ("decodes", {"n_clusters": 2}, 202),
    ):
        url = f"/v1/studies/{study.hex()}/{path}"
        answers = await asyncio.gather(*(desk.post(url, body) for _ in range(5)))
        assert sorted(answer.status_code for answer in answers) == [200] * 4 + [new]
        assert len({answer.headers["location"] for answer in answers}) == 1
