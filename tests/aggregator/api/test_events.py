import json
import signal
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from sfumato.aggregator.base.clock import SystemClock
from sfumato.aggregator.base.store import open_store
from sfumato.aggregator.services import Services
from sfumato.aggregator.settings import Settings
from tests.aggregator.fleet import Desk, Device, assert_problem, make_plan
from tests.aggregator.processes import read_announcement, start
from tests.aggregator.serving import Server

pytestmark = pytest.mark.anyio


@dataclass
class Replica:
    """A server in another process, and services of this one over the same database."""

    process: subprocess.Popen[str]
    services: Services
    desk: Desk


@pytest.fixture
async def replica(tmp_path: Path) -> AsyncIterator[Replica]:
    path = str(tmp_path / "aggregator.db")
    process = start("--no-worker", "--database", path, stderr=subprocess.DEVNULL)
    address, _ = read_announcement(process)
    store = open_store(Settings(database_url=path).database_url)
    services = Services(store, SystemClock())
    operator, _ = await services.keys.create(name="op", scope="operator")
    analyst, _ = await services.keys.create(name="ana", scope="analyst")
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=address, timeout=None, limits=limits) as http:
        yield Replica(process, services, Desk(http, operator, analyst))
    process.send_signal(signal.SIGTERM)
    process.communicate()
    await store.close()
    assert process.returncode == 0


async def queue(desk: Desk) -> tuple[bytes, str]:
    """Publish a study with a sketch and ask for a decode; return both identities."""
    plan, device = make_plan(), Device(1)
    study = await desk.open(device, plan=plan)
    await desk.send(study, device, plan)
    answer = await desk.post(f"/v1/studies/{study.hex()}/decodes", {"n_clusters": 2})
    assert answer.status_code == 202, answer.text
    return study, f"/v1/decodes/{answer.json()['decode_id']}"


async def read_events(lines: AsyncIterator[str]) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    name = ""
    async for line in lines:
        field, _, value = line.partition(": ")
        if field == "event":
            name = value
        elif field == "data":
            yield name, json.loads(value)


async def test_a_stream_tells_of_a_decode_in_another_process_until_its_result(
    replica: Replica,
) -> None:
    desk, jobs = replica.desk, replica.services.jobs
    _, url = await queue(desk)
    told = []
    async with desk.http.stream("GET", f"{url}/events", headers=desk.analyst) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = read_events(answer.aiter_lines())
        told.append(await anext(events))
        job = await jobs.take(lease_s=600.0)
        assert job is not None
        told.append(await anext(events))
        assert await jobs.renew(job, lease_s=600.0, progress=0.4)
        told.append(await anext(events))
        work = await jobs.prepare(job)
        solution = work.solve(progress=lambda _: None, cancelled=lambda: False)
        assert await jobs.succeed(job, work, solution)
        told += [event async for event in events]
    assert told[:3] == [
        ("state", {"state": "queued", "progress": 0.0, "n_workers": 0}),
        ("state", {"state": "running", "progress": 0.0, "n_workers": None}),
        ("progress", {"state": "running", "progress": 0.4, "n_workers": None}),
    ]
    assert told[3] == ("state", {"state": "succeeded", "progress": 1.0, "n_workers": None})
    assert told[4] == ("result", await desk.read(url))
    assert len(told[4][1]["result"]["centroids"]) == 2
    assert len(told) == 5


async def test_a_key_has_only_so_many_streams_and_those_left_behind_are_free_again(
    replica: Replica,
) -> None:
    """As many as a dashboard on every wall needs; other requests are not held up by them."""
    desk, (_, url) = replica.desk, await queue(replica.desk)
    headers = desk.analyst | {"Connection": "close"}

    async def open_one() -> httpx.Response:
        request = desk.http.build_request("GET", f"{url}/events", headers=headers)
        return await desk.http.send(request, stream=True)

    streams = [await open_one() for _ in range(256)]
    assert {stream.status_code for stream in streams} == {200}
    refused = await open_one()
    await refused.aread()
    assert_problem(refused, "too-many-requests", 429, "Authorization")
    assert int(refused.headers["retry-after"]) > 0
    # Another key is not concerned, and other requests find a turn.
    other = await desk.http.get(f"{url}/events", params={"seconds": 0}, headers=desk.operator)
    assert other.status_code == 200
    for stream in streams:
        await stream.aclose()
    again = refused
    while again.status_code == 429:
        again = await open_one()
        await again.aclose()
    assert again.status_code == 200


async def test_open_streams_end_when_the_server_stops(replica: Replica) -> None:
    desk, (_, url) = replica.desk, await queue(replica.desk)
    async with desk.http.stream("GET", f"{url}/events", headers=desk.analyst) as answer:
        events = read_events(answer.aiter_lines())
        assert (await anext(events))[0] == "state"
        replica.process.send_signal(signal.SIGTERM)
        # A connection that is cut would be an error here.
        assert [event async for event in events] == []


async def test_a_stream_tells_when_its_study_is_withdrawn(replica: Replica) -> None:
    desk = replica.desk
    study, url = await queue(desk)
    async with desk.http.stream("GET", f"{url}/events", headers=desk.analyst) as answer:
        events = read_events(answer.aiter_lines())
        await anext(events)
        await desk.withdraw(study)
        ((name, problem),) = [event async for event in events]
    # Told as withdrawn, or as gone if all that it held was removed meanwhile.
    assert name == "problem"
    assert problem["type"] in ("/problems/study-withdrawn", "/problems/not-found")


async def test_a_stream_ends_when_its_key_is_revoked_and_says_so(replica: Replica) -> None:
    desk, jobs = replica.desk, replica.services.jobs
    _, url = await queue(desk)
    guest, record = await replica.services.keys.create(name="guest", scope="analyst")
    headers = {"Authorization": f"Bearer {guest}"}
    async with desk.http.stream("GET", f"{url}/events", headers=headers) as answer:
        events = read_events(answer.aiter_lines())
        await anext(events)
        await replica.services.keys.revoke(record.key_id)
        # What happens from now on is not for this key.
        assert await jobs.take(lease_s=600.0) is not None
        name, problem = await anext(events)
        assert [event async for event in events] == []
    assert name == "problem"
    assert (problem["type"], problem["status"]) == ("/problems/access-denied", 401)
    assert problem["field"] == "Authorization"
    assert "revoked" in problem["detail"]
    # Other keys are not concerned.
    other = await desk.http.get(f"{url}/events", params={"seconds": 0}, headers=desk.analyst)
    assert other.text.startswith("event: state")


async def test_a_decode_that_has_ended_is_told_at_once(desk: Desk) -> None:
    _, url = await queue(desk)
    await desk.http.delete(url, headers=desk.analyst)
    answer = await desk.http.get(f"{url}/events", headers=desk.analyst)
    assert answer.text.count("event: ") == 2
    assert f"event: result\ndata: {json.dumps(await desk.read(url))}" in (answer.text)


async def test_a_stream_ends_after_the_seconds_that_were_asked_for(server: Server) -> None:
    desk = server.desk
    _, url = await queue(desk)
    answer = await desk.http.get(f"{url}/events", params={"seconds": 0}, headers=desk.analyst)
    body = '{"state": "queued", "progress": 0.0, "n_workers": 0}'
    assert answer.text == f"event: state\ndata: {body}\n\n"
    assert server.app.state.streams.n_open == 0


async def test_a_decode_that_is_none_is_a_problem_and_no_stream(desk: Desk) -> None:
    url = f"/v1/decodes/{'ab' * 32}/events"
    answer = await desk.http.get(url, headers=desk.analyst)
    assert_problem(answer, "not-found", 404, "decode")
    assert_problem(await desk.http.get(url), "access-denied", 401, "Authorization")


async def test_what_never_changes_is_sent_once(server: Server) -> None:
    desk = server.desk
    study, decode = await queue(desk)
    snapshot = f"/v1/snapshots/{(await desk.read(decode))['snapshot_id']}"
    before = (await desk.http.get(decode, headers=desk.analyst)).headers["etag"]
    job = await server.services.jobs.take(lease_s=60.0)
    assert job is not None
    work = await server.services.jobs.prepare(job)
    solution = work.solve(progress=lambda _: None, cancelled=lambda: False)
    await server.services.jobs.succeed(job, work, solution)
    for url in (decode, snapshot):
        first = await desk.http.get(url, headers=desk.analyst | {"If-None-Match": before})
        assert first.status_code == 200
        headers = desk.analyst | {"If-None-Match": first.headers["etag"]}
        again = await desk.http.get(url, headers=headers)
        assert (again.status_code, again.content) == (304, b"")
    # What a reader must learn makes it another one.
    exclusion = f"/v1/devices/{Device(1).device_id.hex()}/exclude"
    await desk.operate("POST", exclusion, {"reason": "lies"})
    changed = await desk.http.get(snapshot, headers=headers)
    assert changed.status_code == 200
    assert changed.json()["excluded_devices"] == [Device(1).device_id.hex()]
    await desk.withdraw(study)
    gone = await desk.http.get(snapshot, headers=headers)
    assert_problem(gone, "study-withdrawn", 410, "study")


async def test_head_of_a_stream_is_refused_for_it_would_be_followed_to_its_end(desk: Desk) -> None:
    answer = await desk.http.head(f"/v1/decodes/{'ab' * 32}/events")
    assert answer.status_code == 405
