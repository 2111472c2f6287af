import asyncio
import hashlib
from typing import Any

import pytest

from sfumato.aggregator.base.sums.layout import Layout
from sfumato.aggregator.base.sums.selection import Selection
from sfumato.aggregator.resources.devices.record import DeviceRecord
from sfumato.aggregator.resources.jobs.record import DecodeRecord
from sfumato.aggregator.resources.sketches.record import SketchRecord
from sfumato.aggregator.resources.sketches.store.cells import sum_sketches
from sfumato.aggregator.resources.sketches.store.merge import list_unmerged
from sfumato.aggregator.resources.snapshots.record import SnapshotRecord
from sfumato.shared.plan import plan_to_json
from tests.aggregator.fleet import Desk, Device, assert_problem, make_plan
from tests.aggregator.serving import Server

pytestmark = pytest.mark.anyio


async def fill(desk: Desk, name: str, *devices: Device) -> dict[str, Any]:
    """Publish a study that holds a sketch of each device, a snapshot and a decode."""
    plan = make_plan()
    study = await desk.publish(plan, name=name)
    token = await desk.make_token(study)
    await desk.enrol(study, *devices)
    for device in devices:
        await desk.send(study, device, plan)
    url = f"/v1/studies/{study.hex()}"
    snapshot = (await desk.post(f"{url}/snapshots", {})).json()["snapshot_id"]
    decode = (await desk.post(f"{url}/decodes", {"n_clusters": 2})).json()["decode_id"]
    return {"study": study, "token": token, "snapshot": snapshot, "decode": decode}


async def test_every_call_on_a_withdrawn_study_says_that_it_was_withdrawn(server: Server) -> None:
    desk, device = server.desk, Device(1)
    known = await fill(desk, "pumps", device)
    study = known["study"]
    url = f"/v1/studies/{study.hex()}"
    answer = await desk.withdraw(study)
    assert answer.json() == {"study_id": study.hex(), "name": "pumps", "state": "withdrawn"}
    for path in ("", "/plan", "/privacy", "/devices", "/sketches", "/refusals", "/utility"):
        answer = await desk.http.get(url + path, headers=desk.analyst)
        assert_problem(answer, "study-withdrawn", 410, "study")
    for path in (f"/v1/snapshots/{known['snapshot']}", f"/v1/decodes/{known['decode']}"):
        answer = await desk.http.get(path, headers=desk.analyst)
        assert_problem(answer, "study-withdrawn", 410, "study")
    token_id = hashlib.sha256(known["token"].encode()).hexdigest()
    for answer in (
        await desk.operate("GET", f"{url}/tokens"),
        await desk.operate("DELETE", f"/v1/tokens/{token_id}"),
    ):
        assert_problem(answer, "study-withdrawn", 410, "study")
    for path, body in (("snapshots", {}), ("decodes", {"n_clusters": 2}), ("tokens", {})):
        answer = await desk.operate("POST", f"{url}/{path}", body)
        assert_problem(answer, "study-withdrawn", 410, "study")
    exclusion = f"/v1/devices/{device.device_id.hex()}/exclude"
    for answer in (
        await desk.change(study, "open"),
        await desk.withdraw(study),
        await desk.operate("POST", exclusion, {"reason": "late"}),
        await desk.http.post("/v1/enrolments", json=Device(2).enrolment(known["token"], study)),
    ):
        assert_problem(answer, "study-withdrawn", 410, "study")
    assert (await desk.read("/v1/studies"))["items"] == []


async def test_a_withdrawn_study_stays_withdrawn_while_another_has_its_plan(desk: Desk) -> None:
    plan = make_plan()
    await desk.publish(plan, name="fans")
    study = await desk.publish(plan, name="pumps")
    assert (await desk.withdraw(study)).status_code == 200
    for more in ({}, {"allow_same_plan": True}):
        body = {"name": "pumps", "plan": plan_to_json(plan)} | more
        answer = await desk.operate("POST", "/v1/studies", body)
        assert_problem(answer, "study-withdrawn", 410, "study")


async def test_a_device_is_told_that_its_study_was_withdrawn_before_and_after_it_is_removed(
    server: Server,
) -> None:
    desk, device, plan = server.desk, Device(1), make_plan()
    study = (await fill(desk, "pumps", device))["study"]
    await desk.withdraw(study)
    late = device.message(study, plan, sequence=1)
    stored = device.message(study, plan)
    for _ in range(2):
        for message in (late, stored):
            assert_problem(await desk.put(study, *message), "study-withdrawn", 410, "study")
        for path in ("/v1/devices/me", f"/v1/studies/{study.hex()}"):
            headers = device.sign("GET", path, now=server.clock.now())
            answer = await desk.http.get(path, headers=headers)
            assert_problem(answer, "study-withdrawn", 410, "study")
        await server.services.studies.purge()


async def test_what_a_withdrawn_study_held_is_removed_and_nothing_of_another(
    server: Server,
) -> None:
    desk = server.desk
    known = await fill(desk, "pumps", Device(1), Device(2))
    kept = await fill(desk, "other", Device(3))
    await server.services.merger.merge_all()
    await desk.withdraw(known["study"])
    assert server.services.studies.is_purge_due
    assert await server.services.studies.purge() > 0
    assert await server.services.studies.purge() == 0
    study = known["study"]
    async with server.store.begin() as transaction:
        assert await transaction.list_page(SketchRecord, study_id=study, after=None, limit=9) == []
        assert await transaction.get(SnapshotRecord, bytes.fromhex(known["snapshot"])) is None
        assert await transaction.get(DecodeRecord, bytes.fromhex(known["decode"])) is None
        totals = await sum_sketches(
            transaction,
            study,
            selection=Selection(),
            layout=Layout.of(make_plan()),
        )
        assert totals.n_sketches == 0
        devices = [await transaction.get(DeviceRecord, Device(i).device_id) for i in (1, 2)]
        assert [device and dict(device.labels) for device in devices] == [{}, {}]
    assert (await desk.read(f"/v1/snapshots/{kept['snapshot']}"))["n_sketches"] == 1
    assert (await desk.read(f"/v1/studies/{kept['study'].hex()}"))["n_sketches"] == 1
    assert await server.services.merger.check(kept["study"]) == []


async def test_the_name_and_plan_of_a_withdrawn_study_make_no_study_again(desk: Desk) -> None:
    study = await desk.publish(make_plan())
    await desk.withdraw(study)
    body = {"name": "pumps", "plan": plan_to_json(make_plan())}
    answer = await desk.operate("POST", "/v1/studies", body)
    assert_problem(answer, "study-withdrawn", 410, "study")
    assert await desk.publish(make_plan(), name="pumps again") != study


@pytest.mark.parametrize("params", [{}, {"confirm": "pump"}, {"confirm": ""}, {"confirm": "PUMPS"}])
async def test_a_study_is_withdrawn_only_by_its_name(desk: Desk, params: dict[str, str]) -> None:
    study = await desk.publish(make_plan())
    url = f"/v1/studies/{study.hex()}"
    answer = await desk.http.delete(url, params=params, headers=desk.operator)
    assert_problem(answer, "request-invalid", 422, "confirm")
    assert (await desk.read(url))["state"] == "open"


async def test_of_uploads_and_a_withdrawal_at_once_nothing_is_left(server: Server) -> None:
    desk, plan = server.desk, make_plan()
    devices = [Device(i) for i in range(8)]
    study = await desk.open(*devices, plan=plan)
    answers = await asyncio.gather(
        *(desk.put(study, *device.message(study, plan)) for device in devices[:4]),
        desk.withdraw(study),
        *(desk.put(study, *device.message(study, plan)) for device in devices[4:]),
        server.services.merger.merge_all(),
        return_exceptions=True,
    )
    codes = {answer.status_code for answer in answers if hasattr(answer, "status_code")}
    assert codes <= {200, 201, 410}
    await server.services.studies.purge()
    async with server.store.begin() as transaction:
        assert await transaction.list_page(SketchRecord, study_id=study, after=None, limit=9) == []
        assert await list_unmerged(transaction) == []


async def test_the_server_removes_a_withdrawn_study_by_itself(server: Server) -> None:
    study = (await fill(server.desk, "pumps", Device(1)))["study"]
    stop = asyncio.Event()
    running = asyncio.create_task(server.services.merger.run(stop))
    await server.desk.withdraw(study)
    found: list[Any] = [None]
    while found:
        await asyncio.sleep(0.05)
        async with server.store.begin() as transaction:
            found = list(
                await transaction.list_page(SketchRecord, study_id=study, after=None, limit=9)
            )
    stop.set()
    await running
