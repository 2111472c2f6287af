import dataclasses
from typing import Any

import httpx
import pytest

from sfumato.aggregator.resources.jobs.store import find_last_publication
from sfumato.shared.errors import SignatureError
from sfumato.shared.wire import compute_key_id, decode_published, verify_endorsement
from tests.aggregator.fleet import Desk, Device, assert_problem, make_plan
from tests.aggregator.serving import Server

pytestmark = pytest.mark.anyio

ON_BOTH = pytest.mark.parametrize("server", ["sqlite", "postgres"], indirect=True)
"""Run on both databases where a statement of their own decides."""
PLAN = make_plan()


async def fill(desk: Desk) -> bytes:
    """Publish a study with a device and one sketch."""
    study = await desk.open(Device(1), plan=PLAN)
    await desk.send(study, Device(1), PLAN)
    return study


async def decode(server: Server, study: bytes, **changes: Any) -> str:
    """Decode a study; ``changes`` replace members of the verdict."""
    request = {"n_clusters": 3, "settings": {"n_replicates": 1}}
    made = await server.desk.post(f"/v1/studies/{study.hex()}/decodes", request)
    job = await server.services.jobs.take(lease_s=60.0)
    assert job is not None
    work = await server.services.jobs.prepare(job)
    solution = work.solve(progress=lambda _: None, cancelled=lambda: False)
    assert solution.verdict is not None
    verdict = dataclasses.replace(solution.verdict, **changes)
    changed = dataclasses.replace(solution, verdict=verdict)
    assert await server.services.jobs.succeed(job, work, changed)
    return str(made.json()["decode_id"])


async def publish(desk: Desk, study: bytes, decode_id: str, **more: Any) -> httpx.Response:
    return await desk.post(f"/v1/studies/{study.hex()}/published", {"decode_id": decode_id, **more})


async def fetch(server: Server, study: bytes, device: Device | None = None) -> httpx.Response:
    path = f"/v1/studies/{study.hex()}/published"
    device = device or Device(1)
    return await server.desk.http.get(
        path, headers=device.sign("GET", path, now=server.clock.now())
    )


async def test_a_device_gets_the_result_as_it_was_decoded_signed_by_the_key_that_is_shown(
    server: Server,
) -> None:
    study = await fill(server.desk)
    decode_id = await decode(server, study)
    made = await publish(server.desk, study, decode_id, name="winter")
    assert made.status_code == 201
    signed = decode_published((await fetch(server, study)).content)
    (key,) = (await server.desk.http.get("/v1/identity")).json()["keys"]
    assert signed.key_id.hex() == key["key_id"] == made.json()["key_id"]
    signed.verify(bytes.fromhex(key["public_key"]))
    shown = (await server.desk.read(f"/v1/decodes/{decode_id}"))["result"]
    result = signed.result
    assert [list(row) for row in result.centroids] == shown["centroids"]
    assert list(result.weights) == shown["weights"]
    assert [list(row) for row in result.spreads or ()] == shown["spreads"]
    assert result.verdict == (shown["verdict"]["word"], shown["verdict"]["sentence"])
    assert result.dimensions == (("pressure", "bar"), ("flow", "l/s"))
    assert (result.study, result.decode.hex(), result.name) == (study, decode_id, "winter")
    with pytest.raises(SignatureError):
        signed.verify(Device(1).public_key)


async def test_every_reader_gets_the_same_bytes(server: Server) -> None:
    study = await fill(server.desk)
    await publish(server.desk, study, await decode(server, study))
    path = f"/v1/studies/{study.hex()}/published"
    by_analyst = await server.desk.http.get(path, headers=server.desk.analyst)
    assert by_analyst.content == (await fetch(server, study)).content


@ON_BOTH
async def test_numbers_grow_even_where_the_clock_goes_back(server: Server) -> None:
    study = await fill(server.desk)
    decode_id = await decode(server, study)
    numbers = []
    for step in (0.0, 0.0, 10.0, -1000.0):
        server.clock.seconds += step
        numbers.append((await publish(server.desk, study, decode_id)).json()["sequence"])
    assert numbers == sorted(set(numbers))
    url = f"/v1/studies/{study.hex()}/publications"
    listed = await server.desk.read(url, params={"limit": "3"})
    rest = await server.desk.read(url, params={"page": listed["next_page"]})
    assert [item["sequence"] for item in listed["items"] + rest["items"]] == numbers


async def test_a_result_that_is_not_to_be_used_is_published_only_on_demand(server: Server) -> None:
    study = await fill(server.desk)
    decode_id = await decode(server, study, word="do not use")
    refused = await publish(server.desk, study, decode_id)
    assert_problem(refused, "decoding-invalid", 422, "decode")
    assert_problem(await fetch(server, study), "not-found", 404, "study")
    assert (await publish(server.desk, study, decode_id, allow_unusable=True)).status_code == 201
    result = decode_published((await fetch(server, study)).content).result
    assert not result.is_usable


async def test_a_decode_without_a_result_or_of_another_study_is_not_published(
    server: Server,
) -> None:
    study = await fill(server.desk)
    url = f"/v1/studies/{study.hex()}/decodes"
    queued = (await server.desk.post(url, {"n_clusters": 2})).json()["decode_id"]
    assert_problem(await publish(server.desk, study, queued), "store-conflict", 409, "decode")
    other = await server.desk.publish(PLAN, "others")
    assert_problem(await publish(server.desk, other, queued), "not-found", 404, "decode")


async def test_a_device_of_another_study_gets_nothing(server: Server) -> None:
    study = await fill(server.desk)
    await server.desk.open(Device(2), plan=PLAN, name="others")
    answer = await fetch(server, study, Device(2))
    assert_problem(answer, "forbidden", 403, "device")


@ON_BOTH
async def test_a_key_that_is_replaced_names_its_successor_unless_it_was_stolen(
    server: Server,
) -> None:
    http, headers = server.desk.http, server.desk.operator
    assert (await http.get("/v1/identity")).json()["keys"] == []
    study = await fill(server.desk)
    assert len((await http.get("/v1/identity")).json()["keys"]) == 1
    for endorse in (True, False):
        answer = await http.post("/v1/identity/rotate", json={"endorse": endorse}, headers=headers)
        assert answer.status_code == 201
    first, second, third = (await http.get("/v1/identity")).json()["keys"]
    verify_endorsement(
        bytes.fromhex(first["public_key"]),
        successor=bytes.fromhex(second["public_key"]),
        signature=bytes.fromhex(second["endorsement"]),
    )
    assert third["endorsement"] is None
    await publish(server.desk, study, await decode(server, study))
    signed = decode_published((await fetch(server, study)).content)
    assert signed.key_id == compute_key_id(bytes.fromhex(third["public_key"]))


async def test_publishing_and_replacing_the_key_are_in_the_audit_without_a_secret(
    server: Server,
) -> None:
    study = await fill(server.desk)
    await publish(server.desk, study, await decode(server, study))
    await server.services.publishing.rotate_key(endorse=True)
    entries = await server.services.audit.list_page(after=None, limit=100)
    assert {"result.publish", "identity.rotate"} <= {entry.action for entry in entries}
    keys = await server.services.publishing.list_keys()
    assert not any(key.private_key.hex() in str(entry) for key in keys for entry in entries)


@ON_BOTH
async def test_a_withdrawn_study_keeps_no_published_result(server: Server) -> None:
    study = await fill(server.desk)
    await publish(server.desk, study, await decode(server, study))
    assert (await server.desk.withdraw(study)).status_code == 200
    assert await server.services.studies.purge() > 0
    async with server.store.begin() as transaction:
        assert await find_last_publication(transaction, study) is None
