from typing import Any

import httpx
import pytest

from sfumato.aggregator.resources.batches.store.exclusion import list_leaving
from sfumato.aggregator.resources.sketches.record import SketchRecord
from sfumato.aggregator.resources.sketches.store.retention import drop_payloads
from tests.aggregator.fleet import Desk, Device, assert_problem, make_plan
from tests.aggregator.serving import Server

pytestmark = pytest.mark.anyio

LIAR, HONEST = Device(1), Device(2, {"site": "south"})


async def fill(server: Server, *, merged: bool) -> bytes:
    """Two sketches of each device."""
    desk, plan = server.desk, make_plan()
    study = await desk.open(LIAR, HONEST, plan=plan)
    for device in (LIAR, HONEST):
        for i in range(2):
            await desk.send(study, device, plan, sequence=i)
    if merged:
        assert await server.services.merger.merge_all() == 4
    return study


async def exclude(desk: Desk, device: Device, reason: str = "tampered with") -> httpx.Response:
    return await desk.operate(
        "POST", f"/v1/devices/{device.device_id.hex()}/exclude", {"reason": reason}
    )


async def snapshot(desk: Desk, study: bytes) -> Any:
    answer = await desk.post(f"/v1/studies/{study.hex()}/snapshots", {})
    assert answer.status_code in (200, 201), answer.text
    return answer.json()


@pytest.mark.parametrize("merged", [False, True])
async def test_the_sketches_of_an_excluded_device_leave_every_sum(
    server: Server, merged: bool
) -> None:
    desk = server.desk
    study = await fill(server, merged=merged)
    before = await snapshot(desk, study)
    assert before["excluded_devices"] == []
    answer = await exclude(desk, LIAR)
    assert answer.status_code == 200, answer.text
    assert (answer.json()["n_subtracted"], answer.json()["n_kept"]) == (2, 0)
    after = await snapshot(desk, study)
    assert (after["n_sketches"], after["n_devices"], after["n_records"]) == (2, 1, 1000)
    assert after["excluded_devices"] == []
    shown = await desk.read(f"/v1/snapshots/{after['snapshot_id']}")
    plan = make_plan()
    own = HONEST.release(plan, noise_seed=HONEST.seed)
    assert shown["sums"] == (2 * own).tolist()
    old = await desk.read(f"/v1/snapshots/{before['snapshot_id']}")
    assert old["excluded_devices"] == [LIAR.device_id.hex()]
    assert await server.services.merger.check(study) == []
    held = await desk.read(f"/v1/studies/{study.hex()}")
    assert (held["n_sketches"], held["n_records"]) == (2, 1000)
    # Then they leave the running sums, and nobody can tell.
    assert await server.services.merger.merge_all() == (2 if merged else 4 + 2)
    assert await server.services.merger.merge_all() == 0
    assert await server.services.merger.check(study) == []
    assert await snapshot(desk, study) == after
    again = (await exclude(desk, LIAR)).json()
    assert again == answer.json()
    assert await desk.read(f"/v1/studies/{study.hex()}") == held


async def test_retention_keeps_what_is_to_be_taken_out_until_it_is_out(server: Server) -> None:
    desk = server.desk
    study = await fill(server, merged=True)
    answer = (await exclude(desk, LIAR)).json()
    after = await snapshot(desk, study)
    later = server.clock.now() + 1.0

    async def drop() -> int:
        async with server.store.begin(write=True) as transaction:
            return await drop_payloads(transaction, received_before=later, most=99)

    assert await drop() == 2
    assert await server.services.merger.merge_all() == 2
    assert await drop() == 2
    assert await snapshot(desk, study) == after
    assert (await exclude(desk, LIAR)).json() == answer
    assert (answer["n_subtracted"], answer["n_kept"]) == (2, 0)
    assert await server.services.merger.check(study) == []


async def test_a_study_that_is_withdrawn_while_sketches_leave_is_removed_whole(
    server: Server,
) -> None:
    desk = server.desk
    study = await fill(server, merged=True)
    await exclude(desk, LIAR)
    assert (await desk.withdraw(study)).status_code == 200
    async with server.store.begin() as transaction:
        assert await list_leaving(transaction) == []
    assert await server.services.merger.merge_all() == 0
    assert await server.services.studies.purge() > 0
    async with server.store.begin() as transaction:
        assert await transaction.list_page(SketchRecord, study_id=study, after=None, limit=9) == []


async def test_an_excluded_device_uploads_no_more_and_its_replays_are_known(
    server: Server,
) -> None:
    desk, plan = server.desk, make_plan()
    study = await fill(server, merged=True)
    await exclude(desk, LIAR)
    later = LIAR.message(study, plan, sequence=2)
    assert_problem(await desk.put(study, *later), "access-denied", 401, "device")
    replay = LIAR.message(study, plan, sequence=0)
    assert (await desk.put(study, *replay)).status_code == 200
    assert (await snapshot(desk, study))["n_sketches"] == 2


async def test_excluding_twice_answers_the_same_and_is_audited_once(server: Server) -> None:
    desk = server.desk
    await fill(server, merged=True)
    first = await exclude(desk, LIAR)
    second = await exclude(desk, LIAR, "another reason")
    assert first.json() == second.json()
    assert first.json()["reason"] == "tampered with"
    audit = (await desk.operate("GET", "/v1/audit")).json()["items"]
    entries = [entry for entry in audit if entry["action"] == "device.exclude"]
    assert [entry["target"] for entry in entries] == [LIAR.device_id.hex()]
    assert entries[0]["details"] == {"reason": "tampered with", "n_kept": 0}


async def test_only_an_operator_excludes_and_only_what_is_enrolled(server: Server) -> None:
    desk = server.desk
    await fill(server, merged=False)
    path = f"/v1/devices/{LIAR.device_id.hex()}/exclude"
    answer = await desk.post(path, {"reason": "x"})
    assert_problem(answer, "forbidden", 403, "Authorization")
    assert_problem(await exclude(desk, Device(3)), "not-found", 404, "device")


async def test_what_retention_dropped_is_said_to_stay(server: Server) -> None:
    desk, plan = server.desk, make_plan()
    study = await fill(server, merged=True)
    before = await snapshot(desk, study)
    async with server.store.begin(write=True) as transaction:
        later = server.clock.now() + 1.0
        assert await drop_payloads(transaction, received_before=later, most=99) == 4
    assert (await snapshot(desk, study))["digest"] == before["digest"]
    replay = LIAR.message(study, plan, sequence=0)
    assert (await desk.put(study, *replay)).status_code == 200
    other = LIAR.release(plan, noise_seed=77)
    changed = LIAR.message(study, plan, other, sequence=0)
    assert_problem(await desk.put(study, *changed), "duplicate-upload", 409, "sketch_id")
    answer = (await exclude(desk, LIAR)).json()
    assert (answer["n_subtracted"], answer["n_kept"]) == (0, 2)
    after = await snapshot(desk, study)
    assert after["n_sketches"] == 4
    assert after["excluded_devices"] == [LIAR.device_id.hex()]
