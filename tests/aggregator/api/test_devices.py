import json

import httpx
import pytest

from tests.aggregator.fleet import SLOT, Desk, Device, assert_problem, describe_gaps, make_plan
from tests.aggregator.serving import Server

pytestmark = pytest.mark.anyio


async def read_all(desk: Desk, url: str, limit: int) -> list[str]:
    """Return the identities of a list, page by page."""
    found: list[str] = []
    page = await desk.read(url, params={"limit": limit})
    while True:
        found += [item["device_id"] for item in page["items"]]
        if page["next_page"] is None:
            return found
        page = await desk.read(url, params={"limit": limit, "page": page["next_page"]})


async def test_devices_are_listed_in_pages_by_study_and_all_together(server: Server) -> None:
    desk, by_study = server.desk, []
    for number, name in enumerate(("pumps", "other")):
        study = await desk.publish(make_plan(), name=name)
        devices = [Device(10 * number + i) for i in range(5)]
        for device in devices:
            server.clock.seconds += 1
            await desk.enrol(study, device)
        by_study.append([device.device_id.hex() for device in devices])
        assert await read_all(desk, f"/v1/studies/{study.hex()}/devices", 2) == by_study[-1]
    assert await read_all(desk, "/v1/devices", 3) == by_study[0] + by_study[1]


async def test_a_page_goes_on_where_it_ended_whoever_enrols_meanwhile(server: Server) -> None:
    desk = server.desk
    study = await desk.publish(make_plan())
    url = f"/v1/studies/{study.hex()}/devices"
    # All at one time, so that the order is by identity and newcomers fall anywhere.
    devices = [Device(i) for i in range(6)]
    await desk.enrol(study, *devices)
    first = await desk.read(url, params={"limit": 3})
    await desk.enrol(study, *(Device(100 + i) for i in range(6)))
    page = {"limit": 1000, "page": first["next_page"]}
    rest = await desk.read(url, params=page)
    found = [item["device_id"] for item in first["items"] + rest["items"]]
    assert len(set(found)) == len(found)
    assert {device.device_id.hex() for device in devices} <= set(found)
    assert "enrolled" not in str(first["next_page"])
    answer = await desk.http.get(url, params={"page": "e30="}, headers=desk.analyst)
    assert_problem(answer, "request-invalid", 422, "page")


async def test_a_device_is_shown_with_its_streams_its_state_and_its_key(server: Server) -> None:
    desk, plan, device = server.desk, make_plan(), Device(1)
    study = await desk.open(device, Device(2), plan=plan)
    for stream, sequence in (("b", 0), ("a", 0), ("a", 3)):
        slot = SLOT + sequence
        await desk.send(study, device, plan, stream=stream, sequence=sequence, slots=(slot, slot))
    url = f"/v1/devices/{device.device_id.hex()}"
    found = await desk.read(url)
    listed = {d["device_id"]: d for d in (await desk.read("/v1/devices"))["items"]}
    assert listed[device.device_id.hex()] == {
        name: found[name] for name in listed[found["device_id"]]
    }
    assert found["streams"] == [
        {"stream": "a", "last_sequence": 3, "last_slot": SLOT + 3} | describe_gaps({0, 3}, 3),
        {"stream": "b", "last_sequence": 0, "last_slot": SLOT} | describe_gaps({0}, 0),
    ]
    assert listed[Device(2).device_id.hex()]["streams"] == []
    assert (found["state"], found["n_sketches"], found["study_id"]) == ("enrolled", 3, study.hex())
    assert found["enrolled"] == "2026-03-01T12:00:00.000000Z"
    (key,) = found["keys"]
    assert (key["public_key"], key["state"]) == (device.public_key.hex(), "present")
    reason = {"reason": "tampered with"}
    await desk.operate("POST", f"{url}/exclude", reason)
    excluded = await desk.read(url)
    assert (excluded["state"], excluded["reason"]) == ("excluded", "tampered with")
    assert "private" not in json.dumps(excluded)


async def test_devices_of_a_withdrawn_study_are_not_listed(desk: Desk) -> None:
    study = await desk.open(Device(1))
    await desk.withdraw(study)
    assert (await desk.read("/v1/devices"))["items"] == []
    url = f"/v1/devices/{Device(1).device_id.hex()}"
    assert_problem(await desk.http.get(url, headers=desk.analyst), "study-withdrawn", 410, "study")


async def test_a_device_that_is_none_is_not_found(desk: Desk) -> None:
    url = f"/v1/devices/{'ab' * 32}"
    assert_problem(await desk.http.get(url, headers=desk.analyst), "not-found", 404, "device")
    answer = await desk.operate("POST", f"{url}/revoke", {"reason": "x"})
    assert_problem(answer, "not-found", 404, "device")


async def test_a_device_is_doubted_where_all_of_its_labels_fell_silent_and_it_fills_their_slots(
    server: Server,
) -> None:
    desk, plan = server.desk, make_plan()
    study = await desk.publish(plan)
    old, new, elsewhere = Device(1), Device(2), Device(3, {"site": "south"})
    for device, slots in ((old, (0, 1)), (elsewhere, (0,)), (new, (2, 1))):
        server.clock.seconds += 3600
        await desk.enrol(study, device)
        for sequence, slot in enumerate(slots):
            place = (SLOT + slot, SLOT + slot)
            if device is new and not sequence:
                # Behind what the old one has sent: a place that was taken over.
                await desk.send(study, device, plan, stream="later", slots=place)
                assert (await desk.read(f"/v1/devices/{new.device_id.hex()}"))["may_repeat"] == []
            else:
                await desk.send(study, device, plan, sequence=sequence, slots=place)
    listed = (await desk.read(f"/v1/studies/{study.hex()}/devices"))["items"]
    assert [each["may_repeat"] for each in listed] == [[], [], [old.device_id.hex()]]
    # One of the same labels that lives on explains shared slots.
    other = Device(4)
    server.clock.seconds += 1
    await desk.enrol(study, other)
    await desk.send(study, other, plan, slots=(SLOT, SLOT))
    found = await desk.read(f"/v1/devices/{other.device_id.hex()}")
    assert found["may_repeat"] == [old.device_id.hex()]
    server.clock.seconds += 1
    await desk.send(study, new, plan, sequence=2, slots=(SLOT + 3, SLOT + 3))
    assert (await desk.read(f"/v1/devices/{other.device_id.hex()}"))["may_repeat"] == []


@pytest.mark.parametrize("server", ["sqlite", "postgres"], indirect=True)
async def test_a_device_that_replaces_another_ends_it_and_sends_no_slot_of_its_own(
    server: Server,
) -> None:
    desk, plan = server.desk, make_plan()
    old, new, far = Device(1), Device(2), Device(3, {"site": "south"})
    study = await desk.open(old, far, plan=plan)
    before = await desk.make_token(study)
    server.clock.seconds += 1
    await desk.send(study, old, plan, sequence=4, slots=(SLOT + 4, SLOT + 4))
    server.clock.seconds += 1

    async def enrol(token: str, replaced: Device) -> httpx.Response:
        body = new.enrolment(token, study) | {"replaces": replaced.device_id.hex()}
        return await desk.http.post("/v1/enrolments", json=body)

    token = await desk.make_token(study)
    # It was alive when that token was made, so who has it may want to end a neighbour.
    assert_problem(await enrol(before, old), "request-invalid", 422, "replaces")
    assert_problem(await enrol(token, far), "request-invalid", 422, "replaces")
    assert_problem(await enrol(token, Device(9)), "request-invalid", 422, "replaces")
    assert [(await enrol(token, old)).status_code for _ in range(2)] == [201, 200]
    replaced = await desk.read(f"/v1/devices/{old.device_id.hex()}")
    assert replaced["state"] == "revoked"
    path = "/v1/devices/me"
    status = await desk.http.get(path, headers=new.sign("GET", path, now=server.clock.seconds))
    assert status.json()["begins"] == SLOT + 5
    answer = await desk.put(study, *new.message(study, plan, slots=(SLOT + 4, SLOT + 5)))
    assert_problem(answer, "implausible-sketch", 422, "slots")
    answer = await desk.put(study, *old.message(study, plan, sequence=5, slots=(SLOT + 5,) * 2))
    assert_problem(answer, "access-denied", 401, "device")
    await desk.send(study, new, plan, slots=(SLOT + 5, SLOT + 5))
    shown = await desk.read(f"/v1/devices/{new.device_id.hex()}")
    assert (shown["replaces"], shown["may_repeat"]) == (old.device_id.hex(), [])
    (entry,) = await desk.read_audit("device.revoke")
    assert entry["details"] == {"reason": "replaced", "by": new.device_id.hex()}
