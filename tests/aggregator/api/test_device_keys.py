import asyncio
import json
from typing import Any

import httpx
import pytest

from sfumato.aggregator.resources.devices.service.keys import MOST_RETIRED, key_id_of
from sfumato.shared.plan import SketchPlan
from tests.aggregator.fleet import SLOT, Desk, Device, assert_problem, make_plan
from tests.aggregator.serving import Server

pytestmark = pytest.mark.anyio

PATH = "/v1/devices/me/keys"


def message(study: bytes, plan: SketchPlan, device: Device, sequence: int) -> tuple[str, bytes]:
    """Return the sketch with a number, the same whichever key signs it."""
    slot = SLOT + sequence
    sums = Device(device.seed).release(plan, noise_seed=sequence)
    return device.message(study, plan, sums=sums, sequence=sequence, slots=(slot, slot))


async def change(
    server: Server, old: Device, new: Device, body: bytes | None = None, **last: int
) -> httpx.Response:
    body = body or old.rotation(new, **last)
    headers = old.sign("POST", PATH, now=server.clock.now(), body=body)
    headers["Content-Type"] = "application/json"
    return await server.desk.http.post(PATH, content=body, headers=headers)


async def revoke(desk: Desk, device: Device, key: Device | None = None) -> Any:
    body = {"reason": "stolen", "key_id": key and key_id_of(key.public_key).hex()}
    url = f"/v1/devices/{device.device_id.hex()}/revoke"
    answer = await desk.operate("POST", url, body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def ask(server: Server, device: Device) -> httpx.Response:
    headers = device.sign("GET", "/v1/devices/me", now=server.clock.now())
    return await server.desk.http.get("/v1/devices/me", headers=headers)


async def test_a_device_signs_with_its_new_key_and_keeps_its_identity(server: Server) -> None:
    desk, plan, old = server.desk, make_plan(), Device(1)
    study, new = await desk.publish(plan), old.with_key(101)
    await desk.enrol(study, old)
    await desk.put(study, *message(study, plan, old, 0))
    answer = await change(server, old, new, main=0)
    assert (answer.status_code, answer.json()) == (
        201,
        {"device_id": old.device_id.hex(), "key_id": key_id_of(new.public_key).hex()},
    )
    assert (await desk.put(study, *message(study, plan, new, 1))).status_code == 201
    status = (await ask(server, new)).json()
    assert status["device_id"] == old.device_id.hex()
    assert status["streams"][0]["last_sequence"] == 1
    assert_problem(await ask(server, old), "request-signature-invalid", 401, "Signature")


async def test_a_retired_key_verifies_what_it_signed_and_nothing_after(server: Server) -> None:
    desk, plan, old = server.desk, make_plan(), Device(1)
    study, new = await desk.publish(plan), old.with_key(101)
    await desk.enrol(study, old)
    await desk.put(study, *message(study, plan, old, 0))
    await change(server, old, new, main=1)
    # Signed before the change, and on its way since; and the replay of what is stored.
    assert (await desk.put(study, *message(study, plan, old, 1))).status_code == 201
    for sequence in (0, 1):
        assert (await desk.put(study, *message(study, plan, old, sequence))).status_code == 200
        assert (await desk.put(study, *message(study, plan, new, sequence))).status_code == 200
    stolen = await desk.put(study, *message(study, plan, old, 2))
    assert_problem(stolen, "signature-invalid", 422, "signature")
    sketch, body = old.message(study, plan, stream="other")
    assert_problem(await desk.put(study, sketch, body), "signature-invalid", 422, "signature")
    assert (await desk.put(study, *message(study, plan, new, 2))).status_code == 201


async def test_a_change_whose_answer_was_lost_is_sent_again(server: Server) -> None:
    desk, plan, old = server.desk, make_plan(), Device(1)
    study, new = await desk.publish(plan), old.with_key(101)
    await desk.enrol(study, old)
    assert (await change(server, old, new, main=0)).status_code == 201
    # The device has signed once more with the key that it took for the present one.
    again = await change(server, old, new, main=1)
    assert (again.status_code, again.json()["key_id"]) == (200, key_id_of(new.public_key).hex())
    assert (await change(server, old, new, main=0)).status_code == 200
    assert (await desk.put(study, *message(study, plan, old, 1))).status_code == 201
    other = await change(server, old, old.with_key(102), main=9)
    assert_problem(other, "request-signature-invalid", 401, "Signature")
    details = await desk.read(f"/v1/devices/{old.device_id.hex()}")
    assert [(key["state"], key["last_sequences"]) for key in details["keys"]] == [
        ("present", None),
        ("retired", {"main": 1}),
    ]


async def test_the_next_key_proves_that_it_is_possessed_for_this_change(server: Server) -> None:
    desk, old = server.desk, Device(1)
    study, new = await desk.publish(make_plan()), old.with_key(101)
    await desk.enrol(study, old, Device(2))
    body = json.loads(old.rotation(new, main=0))
    for altered in (
        body | {"last_sequences": {"main": 1 << 40}},
        body | {"public_key": old.with_key(102).public_key.hex()},
        json.loads(Device(2).rotation(new, main=0)),
    ):
        answer = await change(server, old, new, body=json.dumps(altered).encode())
        assert_problem(answer, "signature-invalid", 422, "proof")
    unsigned = await desk.http.post(PATH, json=body)
    assert_problem(unsigned, "request-signature-invalid", 401, "Signature")
    assert (await ask(server, old)).status_code == 200


async def test_no_key_is_used_twice(server: Server) -> None:
    desk, first, neighbour = server.desk, Device(1), Device(2)
    await desk.open(first, neighbour)
    second = first.with_key(101)
    await change(server, first, second)
    for used in (first, second, first.with_key(2)):
        answer = await change(server, second, used)
        assert_problem(answer, "request-invalid", 422, "public_key")


async def test_a_device_that_replaces_keys_without_end_is_stopped(server: Server) -> None:
    desk, device = server.desk, Device(1)
    await desk.enrol(await desk.publish(make_plan()), device)
    for seed in range(MOST_RETIRED):
        successor = device.with_key(1000 + seed)
        assert (await change(server, device, successor)).status_code == 201
        device = successor
    answer = await change(server, device, device.with_key(9999))
    assert_problem(answer, "store-conflict", 409, "device")


async def test_two_changes_at_once_leave_one_key(server: Server) -> None:
    desk, old = server.desk, Device(1)
    await desk.enrol(await desk.publish(make_plan()), old)
    new = [old.with_key(101 + i) for i in range(4)]
    answers = await asyncio.gather(*(change(server, old, key) for key in new))
    assert sorted(answer.status_code for answer in answers)[0] == 201
    # 401 where the signing key was replaced before the request was looked at.
    assert {answer.status_code for answer in answers} <= {201, 401, 409, 422}
    assert [answer.status_code for answer in answers].count(201) == 1
    statuses = [(await ask(server, key)).status_code for key in new]
    assert statuses.count(200) == 1


async def test_a_revoked_key_brings_nothing_new_and_what_it_brought_is_known(
    server: Server,
) -> None:
    desk, plan, old = server.desk, make_plan(), Device(1)
    study, new = await desk.publish(plan), old.with_key(101)
    await desk.enrol(study, old)
    await desk.put(study, *message(study, plan, old, 0))
    await change(server, old, new, main=1)
    for _ in range(2):
        details = await revoke(desk, old, old)
        assert [key["state"] for key in details["keys"]] == ["present", "revoked"]
        assert details["state"] == "enrolled"
    assert (await desk.put(study, *message(study, plan, old, 0))).status_code == 200
    late = await desk.put(study, *message(study, plan, old, 1))
    assert_problem(late, "access-denied", 401, "device")
    assert_problem(await change(server, old, new, main=1), "access-denied", 401, "device")
    assert (await desk.put(study, *message(study, plan, new, 1))).status_code == 201


async def test_a_revoked_device_brings_nothing_new_and_stays_in_the_sums(server: Server) -> None:
    desk, plan, device = server.desk, make_plan(), Device(1)
    study = await desk.open(device, plan=plan)
    await desk.put(study, *message(study, plan, device, 0))
    assert (await revoke(desk, device))["state"] == "revoked"
    assert (await desk.put(study, *message(study, plan, device, 0))).status_code == 200
    new = await desk.put(study, *message(study, plan, device, 1))
    assert_problem(new, "access-denied", 401, "device")
    assert_problem(await ask(server, device), "access-denied", 401, "device")
    changed = await change(server, device, device.with_key(101), main=0)
    assert_problem(changed, "access-denied", 401, "device")
    assert (await desk.read(f"/v1/studies/{study.hex()}"))["n_sketches"] == 1


async def test_a_key_that_is_none_of_the_device_is_not_found(desk: Desk) -> None:
    device = Device(1)
    await desk.enrol(await desk.publish(make_plan()), device)
    url = f"/v1/devices/{device.device_id.hex()}/revoke"
    body = {"reason": "stolen", "key_id": "ab" * 32}
    answer = await desk.operate("POST", url, body)
    assert_problem(answer, "not-found", 404, "key_id")
