"""The loop of a worker, inside the test's process."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from sfumato.aggregator.resources.jobs.record import DecodeRecord
from sfumato.aggregator.resources.jobs.service.decodes import DecodeWork
from sfumato.aggregator.resources.jobs.service.jobs import MAX_ATTEMPTS
from sfumato.aggregator.resources.jobs.store import finish_job
from sfumato.aggregator.worker import Worker
from sfumato.learning.decoding.solution import Solution
from sfumato.shared.errors import DecodingError, StoreError
from tests.aggregator.fleet import Device, make_plan
from tests.aggregator.serving import Server

pytestmark = pytest.mark.anyio


def make_worker(server: Server) -> Worker:
    return Worker(server.services.jobs, lease_s=60.0, poll_s=0.01)


async def ask(
    server: Server, settings: Mapping[str, Any] | None = None, decoder: str | None = None
) -> bytes:
    """Upload a sketch and ask for a decode of it."""
    desk, plan = server.desk, make_plan()
    study = await desk.open(Device(1), plan=plan)
    await desk.put(study, *Device(1).message(study, plan))
    body: dict[str, Any] = {"n_clusters": 3, "settings": settings or {"n_replicates": 1}}
    if decoder is not None:
        body["decoder"] = decoder
    answer = await desk.post(f"/v1/studies/{study.hex()}/decodes", body)
    assert answer.status_code == 202, answer.text
    return bytes.fromhex(answer.json()["decode_id"])


async def read(server: Server, decode_id: bytes) -> DecodeRecord:
    return await server.services.decodes.get(decode_id)


async def test_a_worker_without_work_says_so(server: Server) -> None:
    assert not await make_worker(server).run_once(asyncio.Event())


async def test_the_same_decode_has_the_same_answer_in_any_store(server: Server) -> None:
    decode_id = await ask(server)
    assert await make_worker(server).run_once(asyncio.Event())
    decode = await read(server, decode_id)
    assert decode.state == "succeeded"
    assert decode.result is not None
    job_free = {name: value for name, value in decode.result.items() if name != "seconds"}
    assert job_free["n_replicates"] == 1
    assert (decode.lease_token, decode.attempts) == (None, 1)


@pytest.mark.parametrize(
    ("error", "slug"),
    [(DecodingError("nothing found"), "decoding-invalid"), (RuntimeError("secret"), "internal")],
)
async def test_a_solver_that_fails_leaves_a_problem(
    server: Server, monkeypatch: pytest.MonkeyPatch, error: Exception, slug: str
) -> None:
    def fail(_work: DecodeWork, **_callbacks: Any) -> Solution:
        raise error

    monkeypatch.setattr(DecodeWork, "solve", fail)
    decode_id = await ask(server)
    assert await make_worker(server).run_once(asyncio.Event())
    decode = await read(server, decode_id)
    assert decode.state == "failed"
    assert decode.problem is not None
    assert decode.problem["type"] == f"/problems/{slug}"
    assert "secret" not in str(decode.problem)
    shown = await server.desk.read(f"/v1/decodes/{decode_id.hex()}")
    assert shown["problem"] == {"field": None, "fix": None, **decode.problem}


async def test_an_answer_that_cannot_be_completed_is_stored_as_it_is(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_work: DecodeWork, _store: object, _answer: Solution) -> Solution:
        raise StoreError("a sum could leave 64 bits")

    monkeypatch.setattr(DecodeWork, "complete", fail)
    decode_id = await ask(server)
    assert await make_worker(server).run_once(asyncio.Event())
    decode = await read(server, decode_id)
    assert (decode.state, decode.problem) == ("succeeded", None)
    assert decode.result


async def test_an_answer_that_comes_after_the_lease_was_lost_is_dropped(server: Server) -> None:
    decode_id = await ask(server)
    slow = await server.services.jobs.take(lease_s=5.0)
    assert slow is not None
    server.clock.seconds += 6.0
    quick = await server.services.jobs.take(lease_s=5.0)
    assert quick is not None
    assert quick.record.job_id == decode_id
    work = await server.services.jobs.prepare(quick)
    solution = work.solve(progress=lambda _: None, cancelled=lambda: False)
    assert not await server.services.jobs.renew(slow, lease_s=5.0, progress=0.9)
    assert not await server.services.jobs.succeed(slow, work, solution)
    assert (await read(server, decode_id)).state == "running"
    assert await server.services.jobs.succeed(quick, work, solution)
    assert not await server.services.jobs.succeed(quick, work, solution)
    assert (await read(server, decode_id)).state == "succeeded"


async def test_a_decode_that_ends_its_workers_fails_in_the_end(server: Server) -> None:
    decode_id = await ask(server)
    for _ in range(MAX_ATTEMPTS):
        assert await server.services.jobs.take(lease_s=5.0) is not None
        server.clock.seconds += 6.0
    assert await server.services.jobs.take(lease_s=5.0) is None
    decode = await read(server, decode_id)
    assert decode.state == "failed"
    assert decode.problem is not None
    assert decode.problem["type"] == "/problems/decoding-invalid"


async def test_a_worker_that_must_stop_gives_the_decode_back(server: Server) -> None:
    # The reference takes long with so many runs.
    decode_id = await ask(server, {"n_replicates": 1000}, decoder="cl-ompr")
    stop = asyncio.Event()
    working = asyncio.create_task(make_worker(server).run(stop))
    while (await read(server, decode_id)).state != "running":
        await asyncio.sleep(0.01)
    stop.set()
    await working
    decode = await read(server, decode_id)
    assert (decode.state, decode.attempts) == ("queued", 0)


async def test_an_answer_stored_by_an_earlier_release_is_still_shown(server: Server) -> None:
    decode_id = await ask(server, decoder="cl-ompr")
    job = await server.services.jobs.take(lease_s=5.0)
    assert job is not None
    work = await server.services.jobs.prepare(job)
    solution = work.solve(progress=lambda _: None, cancelled=lambda: False)
    result = work.describe(solution, seconds=1.0)
    # What results of the first release had.
    for name in ("spreads", "mixture", "at_noise_floor", "agreement", "band"):
        del result[name]
    async with server.store.begin(write=True) as transaction:
        await finish_job(
            transaction,
            DecodeRecord,
            decode_id,
            job.token,
            state="succeeded",
            now=server.clock.now(),
            result=result,
        )
    shown = await server.desk.read(f"/v1/decodes/{decode_id.hex()}")
    assert shown["result"]["mixture"] is None
    assert shown["result"]["centroids"] == result["centroids"]


async def read_presence(server: Server) -> list[int]:
    """Return what readiness and metrics say of the workers."""
    ready = await server.desk.http.get("/readyz")
    metrics = (await server.desk.operate("GET", "/metrics")).text
    (line,) = [line for line in metrics.splitlines() if line.startswith("sfumato_workers ")]
    return [ready.json()["n_workers"], int(float(line.split()[1]))]


async def test_a_decode_that_waits_says_whether_there_is_a_worker(server: Server) -> None:
    decode = f"/v1/decodes/{(await ask(server)).hex()}"
    assert await read_presence(server) == [0, 0]
    assert (await server.desk.read(decode))["n_workers"] == 0
    # Two workers that have shown themselves; one falls silent.
    for name in (b"one", b"two"):
        await server.services.jobs.note_worker(name)
        server.clock.seconds += 10.0
    assert await read_presence(server) == [1, 1]
    assert (await server.desk.read(decode))["n_workers"] == 1
    server.clock.seconds += 10.0
    assert await read_presence(server) == [0, 0]


async def test_a_worker_is_there_while_it_works_and_gone_when_it_ends(server: Server) -> None:
    decode = f"/v1/decodes/{(await ask(server)).hex()}"
    stop = asyncio.Event()
    running = asyncio.create_task(make_worker(server).run(stop))
    while (await server.desk.read(decode))["state"] != "succeeded":
        await asyncio.sleep(0.01)
    assert await read_presence(server) == [1, 1]
    assert (await server.desk.read(decode))["n_workers"] is None
    stop.set()
    await running
    assert await read_presence(server) == [0, 0]
