from typing import Any

import httpx
import pytest

from tests.aggregator.fleet import BEAT, Desk, Device, assert_problem, make_plan
from tests.aggregator.serving import Server
from tests.walking import Walk

pytestmark = pytest.mark.anyio

BODY: dict[str, Any] = {"agent": "0.1.0", "engine": "avx2", "waiting_sketches": 2}


async def send(server: Server, device: Device, body: Any) -> httpx.Response:
    return await server.desk.http.put(BEAT, **device.beat(now=server.clock.now(), **body))


async def ask(server: Server, device: Device, study: bytes, etag: str = "") -> httpx.Response:
    path = f"/v1/studies/{study.hex()}"
    headers = device.sign("GET", path, now=server.clock.now())
    return await server.desk.http.get(path, headers=headers | {"If-None-Match": etag})


def refusal(study: bytes, rule: str) -> dict[str, str]:
    return {"study": study.hex(), "rule": rule, "detail": "epsilon is 10, and 4 is allowed"}


async def test_the_last_heartbeat_is_shown_with_the_servers_time(server: Server) -> None:
    desk, device = server.desk, Device(1)
    study = await desk.open(device, Device(2))
    first = await send(server, device, BODY)
    assert first.status_code == 200, first.text
    assert first.json()["server_time"] == server.clock.seconds
    assert len(bytes.fromhex(first.json()["generation"])) == 16
    server.clock.seconds += 60
    await send(server, device, BODY | {"waiting_sketches": 0})
    listed = (await desk.read(f"/v1/studies/{study.hex()}/devices"))["items"]
    by_id = {item["device_id"]: item for item in listed}
    said = by_id[device.device_id.hex()]
    assert said["heartbeat"] == BODY | {
        "waiting_sketches": 0,
        "plan_refusals": [],
        "acknowledged": {},
        "name": None,
        "received": "2026-03-01T12:01:00.000000Z",
    }
    assert said["last_seen"] == "2026-03-01T12:01:00.000000Z"
    assert by_id[Device(2).device_id.hex()]["heartbeat"] is None


async def test_devices_that_refuse_the_plan_are_counted_by_rule_until_they_no_longer_do(
    server: Server,
) -> None:
    desk, devices = server.desk, [Device(i) for i in range(3)]
    study = await desk.open(*devices)
    epsilon, mechanism = refusal(study, "policy.max_epsilon"), refusal(study, "policy.mechanisms")
    for device in devices:
        answer = await send(server, device, BODY | {"plan_refusals": [epsilon, epsilon]})
        assert answer.status_code == 200
    await send(server, devices[0], BODY | {"plan_refusals": [mechanism]})
    await send(server, devices[1], BODY)
    url = f"/v1/studies/{study.hex()}/refusals"
    assert (await desk.read(url))["plan_refusals"] == [
        {"rule": "policy.max_epsilon", "n_devices": 1},
        {"rule": "policy.mechanisms", "n_devices": 1},
    ]


async def test_a_name_stands_with_its_device_and_two_of_a_name_are_told_apart(
    server: Server,
) -> None:
    desk, devices = server.desk, [Device(i) for i in range(3)]
    study = await desk.open(*devices)
    ids = [device.device_id.hex() for device in devices]
    for device, name in zip(devices, ("Küche", "hall", "hall"), strict=True):
        await send(server, device, BODY | {"name": name})

    listed = (await desk.read(f"/v1/studies/{study.hex()}/devices"))["items"]
    assert {item["device_id"]: item["name"] for item in listed}[ids[1]] == "hall"
    # A name is no label, so it makes no group and no sum of its own.
    assert all(item["labels"] == {"site": "north"} for item in listed)
    find = "/v1/references?kind=device&reference="
    assert (await desk.read(f"{find}Küche"))["identity"] == ids[0]
    both = await desk.operate("GET", f"{find}hall")
    assert_problem(both, "request-invalid", 422, "device")
    assert all(f"{each[:12]} (hall of pumps)" in both.json()["detail"] for each in ids[1:])
    # Who names a device by the digits of another makes them ambiguous, and never takes its place.
    await send(server, devices[2], BODY | {"name": ids[1][:8]})
    assert_problem(await desk.operate("GET", find + ids[1][:8]), "request-invalid", 422, "device")
    assert (await desk.read(f"{find}hall"))["identity"] == ids[1]
    await send(server, devices[1], BODY)
    assert_problem(await desk.operate("GET", f"{find}hall"), "not-found", 404, "device")


async def test_a_name_in_several_studies_is_answered_by_an_id_for_each_study(
    server: Server,
) -> None:
    desk, devices = server.desk, [Device(i) for i in range(3)]
    phases = ("heating", "heating sketch", "heating look")
    for device, name in zip(devices, phases, strict=True):
        await desk.enrol(await desk.publish(make_plan(), name), device)
        await send(server, device, BODY | {"name": "hall"})
    answer = await desk.operate("GET", "/v1/references?kind=device&reference=hall")
    assert_problem(answer, "request-invalid", 422, "device")
    fix = answer.json()["fix"]
    assert fix.startswith("use the id of one: ")
    for device, name in zip(devices, phases, strict=True):
        assert f"{device.device_id.hex()[:12]} (hall of {name})" in fix


async def test_a_device_has_no_say_in_another_study(server: Server) -> None:
    desk, device = server.desk, Device(1)
    study = await desk.publish(make_plan())
    other = await desk.publish(make_plan(), name="other")
    await desk.enrol(study, device)
    answer = await send(server, device, BODY | {"plan_refusals": [refusal(other, "policy.x")]})
    assert_problem(answer, "request-invalid", 422, "plan_refusals.study")
    assert (await desk.read(f"/v1/studies/{other.hex()}/refusals"))["plan_refusals"] == []
    assert_problem(await ask(server, device, other), "forbidden", 403, "device")


async def test_a_heartbeat_is_short_and_says_nothing_else(server: Server) -> None:
    desk, device = server.desk, Device(1)
    study = await desk.open(device)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"agent": ""}, "agent"),
        ({"agent": "x" * 101}, "agent"),
        ({"engine": 3}, "engine"),
        ({"waiting_sketches": -1}, "waiting_sketches"),
        ({"waiting_sketches": 1 << 53}, "waiting_sketches"),
        ({"waiting_sketches": True}, "waiting_sketches"),
        ({"n_records": 40}, "n_records"),
        ({"plan_refusals": [refusal(bytes(32), "a rule")]}, "plan_refusals.0.rule"),
        (
            {"plan_refusals": [refusal(bytes(32), "r") | {"detail": "x" * 501}]},
            "plan_refusals.0.detail",
        ),
        ({"plan_refusals": [refusal(bytes(32), "r")] * 17}, "plan_refusals"),
    ]
    with Walk() as walk:
        for changes, field in cases:
            with walk.cell(changes, field):
                answer = await send(server, device, BODY | changes)
                assert_problem(answer, "request-invalid", 422, field)
                (listed,) = (await desk.read(f"/v1/studies/{study.hex()}/devices"))["items"]
                assert listed["heartbeat"] is None


async def test_a_heartbeat_is_signed_by_the_device_with_its_body(server: Server) -> None:
    desk, device = server.desk, Device(1)
    study = await desk.open(device)
    unsigned = await desk.http.put(BEAT, json=BODY)
    assert_problem(unsigned, "request-signature-invalid", 401, "Signature")
    headers = device.sign("PUT", BEAT, now=server.clock.now(), body=b"{}")
    altered = await desk.http.put(BEAT, json=BODY, headers=headers)
    assert_problem(altered, "request-signature-invalid", 401, "Signature")
    stranger = await send(server, Device(2), BODY)
    assert_problem(stranger, "access-denied", 401, "device")
    (listed,) = (await desk.read(f"/v1/studies/{study.hex()}/devices"))["items"]
    assert listed["heartbeat"] is None


async def test_a_device_polls_its_study_and_learns_only_of_its_life_cycle(server: Server) -> None:
    desk, device = server.desk, Device(1)
    study = await desk.open(device)
    first = await ask(server, device, study)
    known = {"study_id", "name", "plan_digest", "state", "accept_until", "next_study"}
    assert set(first.json()) == known
    assert (first.json()["state"], first.json()["accept_until"]) == ("open", None)
    etag = first.headers["etag"]
    # What others send does not concern a device.
    await desk.enrol(study, Device(2))
    await desk.put(study, *device.message(study, make_plan()))
    assert (await ask(server, device, study, etag)).status_code == 304
    until = "2026-03-01T13:00:00.000000Z"
    await desk.change(study, "closed", accept_until=until)
    closed = await ask(server, device, study, etag)
    assert closed.status_code == 200
    assert (closed.json()["state"], closed.json()["accept_until"]) == ("closed", until)
    assert (await ask(server, device, study, closed.headers["etag"])).status_code == 304


async def test_a_plan_is_sent_once_in_each_form(server: Server) -> None:
    desk = server.desk
    url = f"/v1/studies/{(await desk.publish(make_plan())).hex()}/plan"
    etags = set()
    for accept in ("application/cbor", "application/json"):
        answer = await desk.http.get(url, headers={"Accept": accept})
        etag = answer.headers["etag"]
        headers = {"Accept": accept, "If-None-Match": f'"other", W/{etag}'}
        again = await desk.http.get(url, headers=headers)
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
        etags.add(etag)
    assert len(etags) == 2


async def test_whoever_knows_a_plan_learns_that_its_study_has_closed(server: Server) -> None:
    desk = server.desk
    study = await desk.publish(make_plan())
    url = f"/v1/studies/{study.hex()}/plan"
    known = {"If-None-Match": (await desk.http.get(url)).headers["etag"]}
    await desk.change(study, "closed")
    again = await desk.http.get(url, headers=known)
    assert (again.status_code, again.json()["state"]) == (200, "closed")


async def test_a_closed_study_takes_what_was_on_its_way_until_a_time(server: Server) -> None:
    desk, device, plan = server.desk, Device(1), make_plan()
    study = await desk.publish(plan)
    token = await desk.make_token(study)
    await desk.enrol(study, device)
    until = "2026-03-01T14:00:00+01:00"
    closed = await desk.change(study, "closed", accept_until=until)
    assert closed.json()["accept_until"] == "2026-03-01T13:00:00.000000Z"
    newcomer = await desk.http.post("/v1/enrolments", json=Device(2).enrolment(token, study))
    assert_problem(newcomer, "study-closed", 403, "study_id")
    await desk.send(study, device, plan)
    server.clock.seconds += 3600
    late = device.message(study, plan, sequence=1)
    assert_problem(await desk.put(study, *late), "study-closed", 403, "study")
    entries = (await desk.operate("GET", "/v1/audit")).json()["items"]
    (entry,) = (entry for entry in entries if entry["action"] == "study.close")
    assert entry["details"] == {"accept_until": server.clock.seconds}


@pytest.mark.parametrize(
    "body",
    [
        {"state": "open", "accept_until": "2026-03-01T13:00:00Z"},
        {"state": "closed", "accept_until": "2026-03-01T13:00:00"},
        {"state": "closed", "accept_until": "0001-01-01T00:00:00+23:59"},
        {"state": "closed", "accept_until": "9999-12-31T23:59:59-23:59"},
        {"state": "closed", "accept_until": "soon"},
    ],
)
async def test_a_time_that_makes_no_sense_is_refused(desk: Desk, body: dict[str, str]) -> None:
    study = await desk.publish(make_plan())
    assert_problem(await desk.change(study, **body), "request-invalid", 422, "accept_until")
    assert (await desk.read(f"/v1/studies/{study.hex()}"))["state"] == "open"
