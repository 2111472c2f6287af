import asyncio
import json
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import pytest

from sfumato.shared.wire import sign_request
from tests.aggregator.fleet import SLOT, Desk, Device, assert_problem, describe_gaps, make_plan
from tests.aggregator.serving import Server

pytestmark = pytest.mark.anyio

JSON = "application/json"
VECTORS = Path(__file__).parents[2] / "vectors" / "public_keys.json"
SMALL_ORDER: list[str] = [
    vector["key"]
    for vector in json.loads(VECTORS.read_text())
    if vector["what"].startswith("order")
]


async def enrol(desk: Desk, body: dict[str, Any]) -> httpx.Response:
    return await desk.http.post("/v1/enrolments", json=body)


async def count_devices(desk: Desk, study: bytes) -> int:
    return len((await desk.read(f"/v1/studies/{study.hex()}/devices"))["items"])


async def test_a_device_enrols_and_the_same_again_uses_no_token(desk: Desk) -> None:
    study, device = await desk.publish(make_plan()), Device(1)
    token = await desk.make_token(study)
    body = device.enrolment(token, study)
    first, second = await enrol(desk, body), await enrol(desk, body)
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json() == second.json()
    assert first.json() == {
        "device_id": device.device_id.hex(),
        "study_id": study.hex(),
        "labels": {"site": "north"},
    }
    assert await count_devices(desk, study) == 1


async def test_a_token_is_used_up(desk: Desk) -> None:
    study = await desk.publish(make_plan())
    token = await desk.make_token(study, max_uses=2)
    answers = [await enrol(desk, Device(i).enrolment(token, study)) for i in range(3)]
    assert [answer.status_code for answer in answers] == [201, 201, 401]
    assert_problem(answers[2], "access-denied", 401, "token")
    assert await count_devices(desk, study) == 2


async def test_one_of_many_that_come_at_once_is_refused_by_itself(desk: Desk) -> None:
    """They share a transaction; the refused one uses no token, and hinders no other."""
    study, other = await desk.publish(make_plan()), await desk.publish(make_plan(), "fans")
    token, elsewhere = await desk.make_token(study, max_uses=9), await desk.make_token(other)
    bodies = [Device(i).enrolment(token, study) for i in range(6)]
    bodies[2] = Device(2, {"site": "nowhere"}).enrolment(token, study)
    bodies[4] = Device(4).enrolment(elsewhere, other)

    answers = await asyncio.gather(*(enrol(desk, body) for body in bodies))

    assert [answer.status_code for answer in answers] == [201, 201, 422, 201, 201, 201]
    assert (await count_devices(desk, study), await count_devices(desk, other)) == (4, 1)
    (listed,) = (await desk.operate("GET", f"/v1/studies/{study.hex()}/tokens")).json()["items"]
    assert listed["uses_left"] == 5


async def test_a_token_is_used_once_however_many_come_at_once(desk: Desk) -> None:
    study = await desk.publish(make_plan())
    token = await desk.make_token(study)
    bodies = [Device(i).enrolment(token, study) for i in range(6)]
    answers = await asyncio.gather(*(enrol(desk, body) for body in bodies))
    assert sorted(answer.status_code for answer in answers) == [201] + [401] * 5
    assert await count_devices(desk, study) == 1


async def test_an_unknown_token_is_refused(desk: Desk) -> None:
    study = await desk.publish(make_plan())
    answer = await enrol(desk, Device(1).enrolment("sfe_nobody", study))
    assert_problem(answer, "access-denied", 401, "token")
    assert await count_devices(desk, study) == 0


async def test_a_token_of_another_study_is_refused(desk: Desk) -> None:
    study = await desk.publish(make_plan())
    other = await desk.publish(make_plan(), name="other")
    token = await desk.make_token(other)
    assert_problem(
        await enrol(desk, Device(1).enrolment(token, study)), "access-denied", 401, "token"
    )
    assert await count_devices(desk, study) == 0


async def test_a_token_expires(server: Server) -> None:
    desk = server.desk
    study = await desk.publish(make_plan())
    token = await desk.make_token(study)
    server.clock.seconds += server.settings.token_days * 86400 + 1
    answer = await enrol(desk, Device(1).enrolment(token, study))
    assert_problem(answer, "access-denied", 401, "token")


@pytest.mark.parametrize(
    ("labels", "field"),
    [
        ({}, "labels.site"),
        ({"site": "west"}, "labels.site"),
        ({"site": "north", "floor": "2"}, "labels.floor"),
    ],
)
async def test_labels_that_the_plan_does_not_declare_are_refused(
    desk: Desk, labels: dict[str, str], field: str
) -> None:
    study = await desk.publish(make_plan())
    token = await desk.make_token(study)
    answer = await enrol(desk, Device(1, labels).enrolment(token, study))
    assert_problem(answer, "request-invalid", 422, field)
    assert await count_devices(desk, study) == 0
    # The refused attempt used nothing up.
    assert (await enrol(desk, Device(1).enrolment(token, study))).status_code == 201


async def test_a_token_can_force_a_label(desk: Desk) -> None:
    study = await desk.publish(make_plan())
    token = await desk.make_token(study, labels={"site": "south"})
    answer = await enrol(desk, Device(1).enrolment(token, study))
    assert_problem(answer, "request-invalid", 422, "labels.site")
    answer = await enrol(desk, Device(1, {"site": "south"}).enrolment(token, study))
    assert answer.status_code == 201


async def test_a_token_for_an_undeclared_label_is_refused(desk: Desk) -> None:
    study = await desk.publish(make_plan())
    url = f"/v1/studies/{study.hex()}/tokens"
    answer = await desk.operate("POST", url, {"labels": {"a": "b"}})
    assert_problem(answer, "request-invalid", 422, "labels.a")


@pytest.mark.parametrize("max_uses", [0, -1, 1.5, "2", True])
async def test_a_token_has_a_whole_number_of_uses(desk: Desk, max_uses: Any) -> None:
    study = await desk.publish(make_plan())
    url = f"/v1/studies/{study.hex()}/tokens"
    answer = await desk.operate("POST", url, {"max_uses": max_uses})
    assert_problem(answer, "request-invalid", 422, "max_uses")


async def test_other_labels_need_another_proof_and_another_key(desk: Desk) -> None:
    study = await desk.publish(make_plan())
    token = await desk.make_token(study, max_uses=5)
    body = Device(1).enrolment(token, study)
    altered = body | {"labels": {"site": "south"}}
    assert_problem(await enrol(desk, altered), "signature-invalid", 422, "proof")
    assert (await enrol(desk, body)).status_code == 201
    again = Device(1, {"site": "south"}).enrolment(token, study)
    assert_problem(await enrol(desk, again), "store-conflict", 409, "labels")


async def test_one_key_enrols_in_one_study(desk: Desk) -> None:
    study = await desk.publish(make_plan())
    other = await desk.publish(make_plan(), name="other")
    await desk.enrol(study, Device(1))
    token = await desk.make_token(other)
    answer = await enrol(desk, Device(1).enrolment(token, other))
    assert_problem(answer, "store-conflict", 409, "public_key")
    assert await count_devices(desk, other) == 0


async def test_a_closed_study_enrols_nobody(desk: Desk) -> None:
    study = await desk.publish(make_plan())
    token = await desk.make_token(study)
    await desk.change(study, "closed")
    answer = await enrol(desk, Device(1).enrolment(token, study))
    assert_problem(answer, "study-closed", 403, "study_id")
    assert "whether it opens again" in answer.json()["fix"]


@pytest.mark.parametrize("field", ["public_key", "proof", "study_id"])
async def test_a_part_of_another_length_is_refused(desk: Desk, field: str) -> None:
    study = await desk.publish(make_plan())
    body = Device(1).enrolment(await desk.make_token(study), study)
    answer = await enrol(desk, body | {field: "abcd"})
    assert_problem(answer, "request-invalid", 422, field)


def sign(server: Server, device: Device, *, path: str = "/v1/devices/me") -> dict[str, str]:
    return sign_request(
        method="GET",
        path=path,
        body=b"",
        device=device.device_id,
        created=int(server.clock.now()),
        sign=device.key.sign,
    )


async def test_a_device_learns_how_far_its_streams_have_come(server: Server) -> None:
    desk, device, plan = server.desk, Device(1), make_plan()
    study = await desk.open(device, plan=plan)
    for stream, sequence, slot in (("b", 0, SLOT), ("a", 0, SLOT), ("a", 4, SLOT + 2)):
        await desk.send(study, device, plan, stream=stream, sequence=sequence, slots=(slot, slot))
    server.clock.seconds += 60
    answer = await desk.http.get("/v1/devices/me", headers=sign(server, device))
    assert answer.status_code == 200, answer.text
    status = answer.json()
    assert status["device_id"] == device.device_id.hex()
    assert status["study_id"] == study.hex()
    assert status["streams"] == [
        {"stream": "a", "last_sequence": 4, "last_slot": SLOT + 2} | describe_gaps({0, 4}, 4),
        {"stream": "b", "last_sequence": 0, "last_slot": SLOT} | describe_gaps({0}, 0),
    ]
    assert status["server_time"] == server.clock.seconds
    assert len(bytes.fromhex(status["generation"])) == 16
    (listed,) = (await desk.read(f"/v1/studies/{study.hex()}/devices"))["items"]
    assert (listed["n_sketches"], listed["last_seen"]) == (3, "2026-03-01T12:01:00.000000Z")


async def test_a_request_that_is_not_signed_by_the_device_is_refused(server: Server) -> None:
    desk, device = server.desk, Device(1)
    await desk.open(device)
    unsigned = await desk.http.get("/v1/devices/me")
    assert_problem(unsigned, "request-signature-invalid", 401, "Signature")
    elsewhere = sign(server, device, path="/v1/devices/you")
    answer = await desk.http.get("/v1/devices/me", headers=elsewhere)
    assert_problem(answer, "request-signature-invalid", 401, "Signature")
    stranger = sign(server, Device(2))
    answer = await desk.http.get("/v1/devices/me", headers=stranger)
    assert_problem(answer, "access-denied", 401, "device")
    old = sign(server, device)
    server.clock.seconds += 301
    answer = await desk.http.get("/v1/devices/me", headers=old)
    assert_problem(answer, "request-signature-invalid", 401, "Signature")


async def test_nobody_enrols_with_a_point_of_small_order_and_without_a_private_key(
    server: Server,
) -> None:
    """One in eight of these proofs would pass the library's verification."""
    desk, device = server.desk, Device(1)
    study = await desk.open(device)
    body = Device(2).enrolment(await desk.make_token(study), study)
    for key, commitment in product(SMALL_ORDER, SMALL_ORDER[:8]):
        forged = {"public_key": key, "proof": commitment + "00" * 32}
        answer = await enrol(desk, body | forged)
        assert_problem(answer, "request-invalid", 422, "public_key")
        assert {"rule", "fix"} <= answer.json().keys()
    for key in SMALL_ORDER:
        change = json.dumps(
            {"public_key": key, "last_sequences": {}, "proof": SMALL_ORDER[0] + "00" * 32}
        ).encode()
        path = "/v1/devices/me/keys"
        headers = device.sign(
            "POST", path, now=server.clock.now(), body=change, **{"Content-Type": JSON}
        )
        answer = await desk.http.post(path, content=change, headers=headers)
        assert_problem(answer, "request-invalid", 422, "public_key")
    assert await count_devices(desk, study) == 1
