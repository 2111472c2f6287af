"""What a server does not take: too large, too much at once, too often, of another type."""

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from sfumato.aggregator.base.store import Store
from sfumato.aggregator.base.transaction import Transaction
from sfumato.shared.wire import sign_request
from tests.aggregator.databases import open_as
from tests.aggregator.fleet import SKETCH, Desk, Device, assert_problem, change_bytes, make_plan
from tests.aggregator.serving import open_server

pytestmark = pytest.mark.anyio

JSON = {"Content-Type": "application/json"}
BOMB = gzip.compress(bytes(1 << 24))


@pytest.mark.parametrize("coding", ["gzip", "br", "identity, gzip", "GZIP"])
async def test_a_compressed_body_is_refused_unread(desk: Desk, coding: str) -> None:
    study = await desk.publish(make_plan())
    upload = f"/v1/studies/{study.hex()}/sketches/{'cd' * 32}"
    for method, url, kind in (("PUT", upload, SKETCH), ("POST", "/v1/enrolments", JSON)):
        headers = {**kind, "Content-Encoding": coding}
        answer = await desk.http.request(method, url, content=BOMB, headers=headers)
        assert_problem(answer, "media-type-unsupported", 415, "Content-Encoding")
        assert answer.headers["accept-encoding"] == "identity"
        assert answer.headers["connection"] == "close"
    refusals = await desk.read(f"/v1/studies/{study.hex()}/refusals")
    assert refusals["items"] == [{"problem": "media-type-unsupported", "count": 1}]


async def test_a_body_that_says_it_is_not_compressed_is_read(desk: Desk) -> None:
    headers = {**JSON, "Content-Encoding": "identity"}
    answer = await desk.http.post("/v1/enrolments", content=b"{}", headers=headers)
    assert_problem(answer, "request-invalid", 422, "study_id")


async def test_a_body_of_another_media_type_is_refused_by_every_call(desk: Desk) -> None:
    described = (await desk.http.get("/openapi.json")).json()["paths"]
    n_calls = 0
    for path, calls in described.items():
        for method in (method for method, call in calls.items() if "requestBody" in call):
            url = path.replace("{study}", "ab" * 32).replace("{sketch}", "cd" * 32)
            for kind in (None, "text/plain", "application/xml", "application/cbor"):
                headers = {} if kind is None else {"Content-Type": kind}
                answer = await desk.http.request(method, url, content=b"{}", headers=headers)
                assert_problem(answer, "media-type-unsupported", 415, "Content-Type")
            n_calls += 1
    assert n_calls >= 8


async def test_parameters_of_a_media_type_do_not_matter(desk: Desk) -> None:
    headers = {"Content-Type": "Application/JSON; charset=utf-8"}
    answer = await desk.http.post("/v1/enrolments", content=b"{}", headers=headers)
    assert_problem(answer, "request-invalid", 422, "study_id")


class HeldStore(Store):
    """A store whose transactions wait until they are let go."""

    def __init__(self, engine: AsyncEngine) -> None:
        super().__init__(engine)
        self.go = asyncio.Event()
        self.go.set()

    @asynccontextmanager
    async def begin(self, *, write: bool = False) -> AsyncIterator[Transaction]:
        await self.go.wait()
        async with super().begin(write=write) as transaction:
            yield transaction


async def settle() -> None:
    """Let every task run until it waits."""
    for _ in range(50):
        await asyncio.sleep(0)


async def test_a_full_queue_answers_429_and_empties_by_itself(tmp_path: Path) -> None:
    async with (
        open_as(HeldStore, tmp_path / "aggregator.db") as store,
        open_server(store, most_running=2, most_waiting=3) as server,
    ):
        http, headers = server.desk.http, server.desk.analyst
        store.go.clear()
        inside = [asyncio.create_task(http.get("/v1/studies", headers=headers)) for _ in range(5)]
        await settle()
        answer = await http.get("/v1/studies", headers=headers)
        assert_problem(answer, "too-many-requests", 429, "server")
        assert int(answer.headers["retry-after"]) > 0
        assert (await http.get("/healthz")).status_code == 200
        store.go.set()
        assert [answer.status_code for answer in await asyncio.gather(*inside)] == [200] * 5
        assert (await http.get("/v1/studies", headers=headers)).status_code == 200


async def test_a_slow_body_holds_up_nobody_and_is_ended() -> None:
    stalled, rest = asyncio.Event(), asyncio.Event()

    async def trickle() -> AsyncIterator[bytes]:
        yield b"{"
        stalled.set()
        await rest.wait()
        yield b"}"

    async with open_server(most_running=1, body_timeout_s=600.0) as server:
        http = server.desk.http
        slow = asyncio.create_task(http.post("/v1/enrolments", content=trickle(), headers=JSON))
        await stalled.wait()
        answer = await http.get("/v1/studies", headers=server.desk.analyst)
        assert answer.status_code == 200
        assert not slow.done()
        rest.set()
        assert (await slow).status_code == 422
    rest.clear()
    async with open_server(body_timeout_s=0.1) as server:
        answer = await server.desk.http.post("/v1/enrolments", content=trickle(), headers=JSON)
        assert_problem(answer, "request-timeout", 408, "body")
        assert answer.headers["connection"] == "close"


async def test_a_device_that_sends_too_often_is_told_when_to_come_again() -> None:
    plan = make_plan()
    async with open_server(device_burst=2, device_rate=0.001) as server:
        desk = server.desk
        study = await desk.open(Device(1), Device(2, {"site": "south"}), plan=plan)
        sketch, body = Device(1).message(study, plan)
        # Whoever cannot sign for a device cannot use up its rate either.
        for _ in range(5):
            answer = await desk.put(study, sketch, change_bytes(body, len(body) - 1))
            assert_problem(answer, "signature-invalid", 422, "payload")
        assert (await desk.put(study, sketch, body)).status_code == 201
        assert (await desk.put(study, sketch, body)).status_code == 200
        answer = await desk.put(study, sketch, body)
        assert_problem(answer, "too-many-requests", 429, "device")
        assert 0 < int(answer.headers["retry-after"]) <= 1000
        await desk.send(study, Device(2, {"site": "south"}), plan)


async def test_a_key_that_asks_too_often_is_told_when_to_come_again() -> None:
    async with open_server(key_burst=2, key_rate=0.001) as server:
        http, desk = server.desk.http, server.desk
        for _ in range(2):
            assert (await http.get("/v1/studies", headers=desk.analyst)).status_code == 200
        answer = await http.get("/v1/studies", headers=desk.analyst)
        assert_problem(answer, "too-many-requests", 429, "Authorization")
        assert (await http.get("/v1/studies", headers=desk.operator)).status_code == 200


class CountingStore(Store):
    """A store that counts transactions that may write."""

    n_writes = 0

    @asynccontextmanager
    async def begin(self, *, write: bool = False) -> AsyncIterator[Transaction]:
        self.n_writes += write
        async with super().begin(write=write) as transaction:
            yield transaction


async def refused_requests(desk: Desk, study: bytes) -> list[httpx.Response]:
    """Send what nobody has signed or has a token for."""
    plan, device, stranger = make_plan(), Device(1), Device(9)
    sketch, body = device.message(study, plan)
    status = sign_request(
        method="GET",
        path="/v1/devices/me",
        body=b"",
        device=device.device_id,
        created=1_772_366_400,
        sign=stranger.key.sign,
    )
    return [
        await desk.put(study, sketch, b"\x00"),
        await desk.put(study, sketch, change_bytes(body, len(body) - 1)),
        await desk.put(study, *stranger.message(study, plan)),
        await desk.put(b"\x00" * 32, sketch, body),
        await desk.put(study, "00" * 32, body),
        await desk.put(study, sketch, bytes(plan.payload_bytes + 4096)),
        await desk.http.post("/v1/enrolments", json=stranger.enrolment("sfe_none", study)),
        await desk.http.get("/v1/devices/me", headers=status),
        await desk.http.post("/v1/keys", json={"name": "me", "scope": "operator"}),
    ]


async def test_no_write_transaction_is_opened_for_who_has_not_proved_who_it_is(
    tmp_path: Path,
) -> None:
    async with (
        open_as(CountingStore, tmp_path / "aggregator.db") as store,
        open_server(store) as server,
    ):
        study = await server.desk.open(Device(1))
        before = store.n_writes
        answers = await refused_requests(server.desk, study)
        assert {answer.status_code for answer in answers} <= {400, 401, 404, 413, 422}
        assert store.n_writes == before
        # And yet every refusal of a sketch for the study is counted, together and once.
        await server.services.tallies.flush()
        assert store.n_writes == before + 1
        refusals = await server.desk.read(f"/v1/studies/{study.hex()}/refusals")
        assert sum(item["count"] for item in refusals["items"]) == 5


async def test_every_window_of_a_device_that_was_away_fits_its_burst() -> None:
    plan = make_plan()
    async with open_server() as server:
        study = await server.desk.open(Device(1), plan=plan)
        for i in range(50):
            await server.desk.send(study, Device(1), plan, sequence=i)
