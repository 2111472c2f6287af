"""Schedules, and alarms by webhook: on both databases, with a receiver that listens for real."""

import asyncio
import base64
import hashlib
import hmac
import json
import re
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from sfumato.aggregator.resources.alarms.record import ScheduleRecord
from sfumato.aggregator.resources.alarms.service.delivery import KEEP_S, MOST_FAILURES, PAUSES_S
from sfumato.aggregator.resources.alarms.service.events import (
    describe_return,
    describe_window,
    find_events,
)
from sfumato.aggregator.resources.alarms.service.outbox import queue_events
from sfumato.aggregator.resources.alarms.service.scheduler import find_first_slot, find_next
from sfumato.aggregator.resources.alarms.service.webhooks import (
    Sender,
    read_secret,
    require_webhook,
    show_secret,
    sign_message,
)
from sfumato.aggregator.resources.alarms.store import list_running_schedules
from sfumato.aggregator.resources.jobs.record import DecodeRecord, JobRecord
from sfumato.aggregator.resources.jobs.store import finish_job
from sfumato.aggregator.resources.studies.record import StudyRecord
from sfumato.shared.core import SketchAccumulator
from sfumato.shared.errors import ConfigError, NotFoundError
from sfumato.shared.hosts import HostList
from sfumato.shared.privacy.testing import SeededSource
from tests.aggregator.fleet import Desk, Device, assert_problem, draw_records, make_plan
from tests.aggregator.serving import Server, open_server
from tests.walking import Walk

pytestmark = pytest.mark.anyio

ON_BOTH = pytest.mark.parametrize("server", ["sqlite", "postgres"], indirect=True)
"""Run on both databases where a statement of their own decides."""
PLAN = make_plan()
DAY = 86_400.0
SECRET = show_secret(b"s" * 32)
LOOPBACK = HostList("127.0.0.1")


@dataclass
class Receiver:
    """A webhook: notes what comes, and answers with the next status."""

    url: str = ""
    statuses: list[int] = field(default_factory=list)
    messages: list[tuple[dict[str, str], str]] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def types(self) -> list[str]:
        return [json.loads(body)["type"] for _, body in self.messages]


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            receiver.messages.append(({k.lower(): v for k, v in self.headers.items()}, body))
            self.send_response(receiver.statuses.pop(0) if receiver.statuses else 204)
            for name, value in receiver.headers.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{http.server_address[1]}/hook"
    Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield receiver
    finally:
        await asyncio.to_thread(http.shutdown)
        http.server_close()


async def fill(desk: Desk) -> bytes:
    study = await desk.open(Device(1), plan=PLAN)
    await desk.send(study, Device(1), PLAN)
    return study


async def schedule(desk: Desk, study: bytes, **changes: Any) -> dict[str, Any]:
    body = {"n_clusters": 2, "every_s": DAY, "settings": {"n_replicates": 1}} | changes
    answer = await desk.post(f"/v1/studies/{study.hex()}/schedules", body)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def create_alarm(desk: Desk, study: bytes, url: str, **more: Any) -> dict[str, Any]:
    answer = await desk.operate("POST", f"/v1/studies/{study.hex()}/alarms", {"url": url, **more})
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def send_due(server: Server) -> int:
    async with Sender(LOOPBACK) as sender:
        return await server.services.deliverer.send_due(sender)


async def end_job(server: Server, result: dict[str, Any] | None) -> None:
    """End the job that waits for a worker, with a result or a failure."""
    job = await server.services.jobs.take(lease_s=60.0)
    assert job is not None
    async with server.store.begin(write=True) as transaction:
        await finish_job(
            transaction,
            type(job.record),
            job.record.job_id,
            job.token,
            state="succeeded" if result else "failed",
            now=server.clock.now(),
            result=result,
            problem=None
            if result
            else {
                "title": "no",
                "rule": "failed",
                "status": 422,
                "type": "/problems/decoding-invalid",
                "detail": "failed",
            },
        )


RESULT: dict[str, Any] = {
    "dimensions": [{"name": "x", "unit": ""}, {"name": "y", "unit": ""}],
    "centroids": [[0.0, 1.0], [2.0, 3.0]],
    "weights": [0.6, 0.4],
    "spreads": None,
}


def verdict(word: str) -> dict[str, Any]:
    return {"verdict": {"word": word, "sentence": f"it is {word}"}}


async def show(server: Server, made: dict[str, Any]) -> Any:
    return await server.desk.read(f"/v1/schedules/{made['schedule_id']}")


async def test_a_schedule_starts_at_once_and_then_in_step(server: Server) -> None:
    study = await fill(server.desk)
    made = await schedule(server.desk, study)
    run = server.services.scheduler.run_due
    assert [await run(), await run()] == [1, 0]
    shown = await show(server, made)
    assert shown["job_id"] is not None
    await end_job(server, verdict("rough"))
    await run()
    shown = await show(server, made)
    assert (shown["job_id"], shown["n_runs"], shown["last_verdict"]) == (None, 1, "rough")
    server.clock.seconds += DAY - 1.0
    assert await run() == 0
    server.clock.seconds += 1.0
    assert await run() == 1


async def test_starts_that_were_missed_are_made_up_by_one(server: Server) -> None:
    study = await fill(server.desk)
    made = await schedule(server.desk, study)
    run = server.services.scheduler.run_due
    await run()
    await end_job(server, verdict("rough"))
    server.clock.seconds += 10.25 * DAY
    # The same sketches give the same decode, which has its result: no work is left.
    assert [await run(), await run()] == [1, 0]
    shown = await show(server, made)
    assert shown["n_runs"] == 2
    async with server.store.begin() as transaction:
        record = await transaction.get(ScheduleRecord, bytes.fromhex(made["schedule_id"]))
    assert record is not None
    assert record.next_at - server.clock.now() == 0.75 * DAY


async def test_a_clock_that_was_ahead_stops_no_schedule(server: Server) -> None:
    study = await fill(server.desk)
    await schedule(server.desk, study)
    run = server.services.scheduler.run_due
    server.clock.seconds += 1000 * DAY
    assert await run() == 1
    await end_job(server, verdict("rough"))
    server.clock.seconds -= 1000 * DAY
    assert await run() == 1
    await run()
    assert await run() == 0


@ON_BOTH
async def test_of_two_servers_one_starts_a_schedule(server: Server) -> None:
    study = await fill(server.desk)
    await schedule(server.desk, study)
    async with open_server(server.store, server.clock) as other:
        both = (server.services.scheduler, other.services.scheduler)
        started = await asyncio.gather(*(scheduler.run_due() for scheduler in both))
    assert sum(started) == 1


@ON_BOTH
async def test_a_server_that_was_killed_while_it_held_a_schedule_delays_it_by_its_lease(
    server: Server,
) -> None:
    study = await fill(server.desk)
    await schedule(server.desk, study)
    assert await server.services.scheduler._take() is not None
    run = server.services.scheduler.run_due
    assert await run() == 0
    server.clock.seconds += 61.0
    assert await run() == 1


@ON_BOTH
async def test_a_schedule_is_paused_resumed_and_removed(server: Server) -> None:
    study = await fill(server.desk)
    made = await schedule(server.desk, study)
    url, desk = f"/v1/schedules/{made['schedule_id']}", server.desk
    run = server.services.scheduler.run_due

    async def change(state: str) -> None:
        answer = await desk.http.patch(url, json={"state": state}, headers=desk.analyst)
        assert answer.json()["state"] == state

    await change("paused")
    assert await run() == 0
    await change("active")
    assert await run() == 1
    assert (await desk.http.delete(url, headers=desk.analyst)).status_code == 200
    assert_problem(await desk.http.get(url, headers=desk.analyst), "not-found", 404, "schedule")
    assert await run() == 0


async def test_a_start_that_fails_is_shown_and_the_next_one_comes(server: Server) -> None:
    study = await server.desk.publish(PLAN)
    made = await schedule(server.desk, study, last_s=7200.0)
    assert await server.services.scheduler.run_due() == 1
    shown = await show(server, made)
    assert shown["problem"]["fix"]
    assert (shown["n_runs"], shown["state"]) == (1, "active")


async def test_a_schedule_publishes_each_new_result_once_unless_it_should_not_be_used(
    server: Server,
) -> None:
    study = await fill(server.desk)
    await schedule(server.desk, study, publish=True)
    run = server.services.scheduler.run_due
    latest = server.services.publishing.get_latest
    await run()
    await end_job(server, RESULT | verdict("sound"))
    # As if this server, or another, were killed before the schedule was settled.
    schedules = server.services.scheduler
    async with server.store.begin() as transaction:
        (running,) = await list_running_schedules(transaction)
        job = await transaction.get(DecodeRecord, running.job_id or b"")
    await schedules._publish(running, job)
    published = await latest(study)
    await run()
    assert await latest(study) == published
    assert published.decode_id == running.job_id
    # The same sketches again are the same decode, and no news.
    server.clock.seconds += DAY
    await run()
    await run()
    assert await latest(study) == published
    # More sketches make another decode, whose verdict is not to use it.
    await server.desk.enrol(study, Device(2))
    await server.desk.send(study, Device(2), PLAN)
    server.clock.seconds += DAY
    await run()
    await end_job(server, RESULT | verdict("do not use"))
    await run()
    assert await latest(study) == published


async def test_a_schedule_that_was_not_told_to_publish_does_not(server: Server) -> None:
    study = await fill(server.desk)
    await schedule(server.desk, study)
    await server.services.scheduler.run_due()
    await end_job(server, RESULT | verdict("sound"))
    await server.services.scheduler.run_due()
    with pytest.raises(NotFoundError):
        await server.services.publishing.get_latest(study)


async def test_only_the_last_days_count_where_that_is_asked_for(server: Server) -> None:
    study = await fill(server.desk)
    made = await schedule(server.desk, study, last_s=3 * DAY, labels={"site": "north"})
    # The sketch is of slot 480, and the first slot that counts lies three days back.
    server.clock.seconds = (480 + 72) * 3600.0
    await server.services.scheduler.run_due()
    shown = await show(server, made)
    decode = await server.desk.read(f"/v1/decodes/{shown['job_id']}")
    snapshot = await server.desk.read(f"/v1/snapshots/{decode['snapshot_id']}")
    assert snapshot["selection"] == {
        "first_slot": 480,
        "last_slot": None,
        "labels": {"site": "north"},
    }


def test_windows_of_several_slots_lie_alike_at_every_start() -> None:
    """By their first slot an alarm is known: windows that moved would be alarms again and again."""
    record = ScheduleRecord(
        schedule_id=b"i" * 32,
        study_id=b"t" * 32,
        kind="timeline",
        request={"slots_per_window": 24},
        every_s=3600.0,
        last_s=3 * DAY,
        created=0.0,
        next_at=0.0,
    )
    starts = [find_first_slot(record, PLAN.window, now=3600.0 * hour) for hour in range(96, 144)]
    assert starts == [24] * 24 + [48] * 24


async def test_a_schedule_that_could_never_run_is_refused(server: Server) -> None:
    study = await fill(server.desk)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"n_clusters": 0}, "n_clusters"),
        ({"every_s": 1.0}, "every_s"),
        ({"labels": {"site": "west"}}, "labels.site"),
        ({"settings": {"magic": 1}}, "settings"),
        ({"last_s": 61.0}, "last_s"),
        ({"kind": "groups"}, "kind"),
    ]
    with Walk() as walk:
        for changes, field_name in cases:
            with walk.cell(changes, field_name):
                body = {"n_clusters": 2, "every_s": DAY} | changes
                answer = await server.desk.post(f"/v1/studies/{study.hex()}/schedules", body)
                assert answer.status_code == 422
                assert answer.json()["field"].startswith(field_name)


async def test_a_verdict_that_falls_is_sent_once_and_signed(server: Server) -> None:
    async with receiving() as receiver:
        study = await fill(server.desk)
        await create_alarm(server.desk, study, receiver.url, secret=SECRET)
        await schedule(server.desk, study)
        for i, word in enumerate(("rough", "sound", "doubtful", "doubtful", "rough")):
            await server.desk.send(study, Device(1), PLAN, sequence=i + 1, slots=(481 + i, 481 + i))
            await server.services.scheduler.run_due()
            await end_job(server, verdict(word))
            await server.services.scheduler.run_due()
            await send_due(server)
            server.clock.seconds += DAY
        assert receiver.types == ["decode.verdict_fell"]
        headers, body = receiver.messages[0]
        data = json.loads(body)["data"]
        assert (data["before"], data["verdict"]) == ("sound", "doubtful")
        assert data["words"] == ["pumps: it is doubtful"]
        told = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.{body}".encode()
        digest = hmac.new(b"s" * 32, told, hashlib.sha256).digest()
        assert headers["webhook-signature"] == "v1," + base64.b64encode(digest).decode()
        assert headers["content-type"] == "application/json"


@ON_BOTH
async def test_a_message_is_repeated_under_the_same_identity_until_it_is_taken(
    server: Server,
) -> None:
    async with receiving() as receiver:
        receiver.statuses = [500, 302, 200]
        receiver.headers = {"Location": receiver.url}
        study = await fill(server.desk)
        made = await create_alarm(server.desk, study, receiver.url)
        url = f"/v1/alarms/{made['alarm_id']}"
        await server.desk.operate("POST", f"{url}/test")
        for pause in (0.0, PAUSES_S[0], PAUSES_S[1]):
            assert await send_due(server) == (pause == 0.0)
            server.clock.seconds += 1.2 * pause
            await send_due(server)
        assert len({headers["webhook-id"] for headers, _ in receiver.messages}) == 1
        times = [int(headers["webhook-timestamp"]) for headers, _ in receiver.messages]
        assert len(times) == 3
        assert times == sorted(set(times))
        listed = await server.desk.operate("GET", f"{url}/deliveries")
        (entry,) = listed.json()["items"]
        assert (entry["state"], entry["status"], entry["attempts"]) == ("delivered", 200, 3)


async def test_a_webhook_that_takes_nothing_is_disabled_and_says_why(server: Server) -> None:
    study = await fill(server.desk)
    made = await create_alarm(server.desk, study, "http://127.0.0.1:9/hook")
    url, desk = f"/v1/alarms/{made['alarm_id']}", server.desk
    for _ in range(MOST_FAILURES):
        await desk.operate("POST", f"{url}/test")
    for pause in (0.0, *PAUSES_S):
        server.clock.seconds += 1.2 * pause
        await send_due(server)
    shown = (await desk.operate("GET", url)).json()
    assert shown["state"] == "disabled"
    assert "no answer" in shown["problem"]
    refused = await desk.operate("POST", f"{url}/test")
    assert_problem(refused, "store-conflict", 409, "alarm")
    entries = await server.services.audit.list_page(after=None, limit=100)
    assert "alarm.disable" in {entry.action for entry in entries}
    enabled = await desk.operate("PATCH", url, {"state": "active"})
    assert (enabled.json()["state"], enabled.json()["n_failures"]) == ("active", 0)
    server.clock.seconds += 2 * KEEP_S
    await server.services.deliverer._drop_now_and_then()
    listed = await desk.operate("GET", f"{url}/deliveries")
    assert listed.json()["items"] == []


async def test_a_receiver_that_says_gone_is_sent_no_more(server: Server) -> None:
    async with receiving() as receiver:
        receiver.statuses = [410]
        study = await fill(server.desk)
        made = await create_alarm(server.desk, study, receiver.url)
        url = f"/v1/alarms/{made['alarm_id']}"
        await server.desk.operate("POST", f"{url}/test")
        await send_due(server)
        shown = await server.desk.operate("GET", url)
        assert "status 410" in shown.json()["problem"]


@ON_BOTH
async def test_of_two_servers_one_sends_a_message(server: Server) -> None:
    async with receiving() as receiver:
        study = await fill(server.desk)
        made = await create_alarm(server.desk, study, receiver.url)
        url = f"/v1/alarms/{made['alarm_id']}/test"
        for _ in range(5):
            await server.desk.operate("POST", url)
        async with open_server(server.store, server.clock) as other:
            await asyncio.gather(send_due(server), send_due(other))
        assert len(receiver.messages) == 5
        assert len({headers["webhook-id"] for headers, _ in receiver.messages}) == 5


@ON_BOTH
async def test_a_removed_webhook_and_a_withdrawn_study_get_nothing(server: Server) -> None:
    async with receiving() as receiver:
        desk, study = server.desk, await fill(server.desk)
        made = [await create_alarm(desk, study, receiver.url) for _ in range(2)]
        for each in made:
            await desk.operate("POST", f"/v1/alarms/{each['alarm_id']}/test")
        await desk.operate("DELETE", f"/v1/alarms/{made[0]['alarm_id']}")
        await schedule(desk, study)
        await desk.withdraw(study)
        await server.services.studies.purge()
        assert await send_due(server) == 0
        assert await server.services.scheduler.run_due() == 0
        assert receiver.messages == []


async def test_the_secret_is_shown_once(server: Server) -> None:
    study = await fill(server.desk)
    made = await create_alarm(server.desk, study, "https://example.org/hook")
    assert len(read_secret(made["secret"])) == 32
    url = f"/v1/studies/{study.hex()}/alarms"
    listed = await server.desk.operate("GET", url)
    entries = await server.services.audit.list_page(after=None, limit=100)
    for text in (listed.text, str(entries)):
        assert made["secret"] not in text
        assert read_secret(made["secret"]).hex() not in text


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/",
        "ftp://example.org/",
        "https://",
        "https://user:word@example.org/",
        "https://example.org/#part",
        "https://example.org:port/",
        "http://localhost.example.org/",
        "https://exam ple.org/",
        "https://xn--a/",
    ],
)
def test_an_address_that_others_could_read_or_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="url"):
        require_webhook(url, LOOPBACK)


@pytest.mark.parametrize("url", ["https://xn--a/", "https://a..b/", f"https://{'a' * 70}/"])
async def test_a_name_that_cannot_be_looked_up_is_no_answer(url: str) -> None:
    async with Sender(LOOPBACK) as sender:
        attempt = await sender.send(url, b"s" * 32, message_id="msg_1", body="{}", now=0.0)
    assert attempt.status is None
    assert attempt.problem


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_!!!", "whsec_c2hvcnQ=", SECRET[6:]])
def test_a_secret_of_another_form_is_refused(secret: str) -> None:
    with pytest.raises(ConfigError, match="secret"):
        read_secret(secret)


def test_a_message_is_signed_as_standard_webhooks_specifies() -> None:
    # The example of the specification's libraries.
    secret = read_secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    signature = sign_message(
        secret,
        message_id="msg_p5jXN8AQM9LWM0D4loKWxJek",
        timestamp=1614265330,
        body='{"test": 2432232314}',
    )
    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize(
    ("due", "now", "found"),
    [(100.0, 100.0, 200.0), (100.0, 150.0, 200.0), (100.0, 1234.0, 1300.0), (9e9, 50.0, 150.0)],
)
def test_the_next_start_is_in_step_and_in_the_future(due: float, now: float, found: float) -> None:
    assert find_next(due, 100.0, now=now) == found


def timeline(
    alarms: Collection[int],
    changes: Collection[int] = (),
    *,
    last: int = 9,
    references: Mapping[int, int] | None = None,
    levels: Mapping[int, float] | None = None,
) -> dict[str, Any]:
    """Return the result of a timeline of windows from 0 on.

    Parameters
    ----------
    references
        By window, the first window that it is compared with; by default window 0.
    levels
        By window, the temperature, if it is another than 21 °C, which it was before.
    """
    temperature = {"name": "temperature", "unit": "°C", "error": 0.2, "p": 0.001}
    windows = [
        {
            "first_slot": slot,
            "start": f"2026-03-01T{slot:02}:00:00.000000Z",
            "end": f"2026-03-01T{slot + 1:02}:00:00.000000Z",
            "is_alarm": slot in alarms,
            "p": 0.001,
            "size": 0.3,
            "size_error": 0.05,
            "reference": (references or {}).get(slot, 0),
            "finding": f"temperature 21.0 -> 15.0 °C since {slot}",
            "columns": [
                temperature
                | {
                    "before": (levels or {}).get((references or {}).get(slot, 0), 21.0),
                    "after": (levels or {}).get(slot, 21.0),
                    "is_named": slot in alarms,
                }
            ],
        }
        for slot in range(last + 1)
    ]
    points = [
        {
            "window": slot,
            "start": windows[slot]["start"],
            "p": 0.0005,
            "size": 0.3,
            "size_error": 0.04,
            "words": "the records changed",
            "finding": "temperature 21.0 -> 15.0 °C",
            "changes": [{"words": "cluster 1 grew", "is_named": True}],
        }
        for slot in sorted(changes)
    ]
    return {"windows": windows, "change_points": points, "words": ["x" * 9000] * 50}


async def run_timelines(server: Server, *results: dict[str, Any]) -> list[tuple[str, str]]:
    """Judge timelines one after the other; return type and start of the events."""
    study = await fill(server.desk)
    async with server.store.begin() as transaction:
        record = await transaction.get(StudyRecord, study)
    assert record is not None
    known: Any = {}
    seen = []
    for result in results:
        plan = ScheduleRecord(
            schedule_id=b"s" * 32,
            study_id=study,
            kind="timeline",
            request={"slots_per_window": 1},
            every_s=DAY,
            last_s=None,
            created=0.0,
            next_at=0.0,
            known=known,
        )
        job: JobRecord = DecodeRecord(
            decode_id=b"j" * 32,
            study_id=study,
            snapshot_id=b"",
            n_clusters=1,
            decoder="",
            solver="",
            settings={},
            seed=0,
            created=0.0,
            state="succeeded",
            result=result,
        )
        found = find_events(plan, record, job)
        known = found.known
        assert all(len(json.dumps(event.data)) < 20_000 for event in found.events)
        seen += [(event.kind, event.data["start"][11:13]) for event in found.events]
    return seen


@pytest.mark.parametrize(
    ("p", "size", "words"),
    [
        (0.001, 0.3, "as if every record had moved by 0.30 scales (error 0.05), p = 0.001"),
        (1e-80, 7.0, "as if every record had moved by more than 1 scale, p < 0.0001"),
    ],
)
def test_a_message_states_no_figure_that_is_beyond_trust(p: float, size: float, words: str) -> None:
    devices = {"n_changed": 1, "n_unchanged": 5, "n_unclear": 0, "words": "in 1 of 6 devices"}
    window = timeline({5})["windows"][5] | {"p": p, "size": size, "devices": devices}
    data = describe_window(window, {"words": ["x", window["finding"]]})
    told = data["words"]
    assert data["devices"] == devices
    assert told[0] == "temperature 21.0 -> 15.0 °C since 5"
    assert told[1].endswith(words)
    assert told[2:] == ["x"]


async def test_each_alarm_of_a_timeline_is_an_event_once(server: Server) -> None:
    events = await run_timelines(
        server, timeline({2}), timeline({2}), timeline({2, 5}), timeline({5}), timeline({2, 5, 9})
    )
    assert events == [("timeline.alarm", "05"), ("timeline.alarm", "09")]


async def test_the_first_timeline_says_what_is_known_but_for_its_last_window(
    server: Server,
) -> None:
    assert await run_timelines(server, timeline({2, 9}, {3})) == [("timeline.alarm", "09")]


async def test_a_change_point_that_moves_a_little_is_the_same(server: Server) -> None:
    events = await run_timelines(
        server, timeline(set()), timeline((), {4}), timeline(set(), {6}), timeline(set(), {8, 5})
    )
    assert events == [("timeline.change_point", "04"), ("timeline.change_point", "08")]


async def test_an_old_window_beside_a_known_alarm_is_no_news(server: Server) -> None:
    """A later window may move the reference of earlier ones."""
    short = timeline({3})
    short["windows"] = short["windows"][:8]
    events = await run_timelines(server, short, timeline({3, 4, 7, 8}))
    # 08 is still what 07 was.
    assert events == [("timeline.alarm", "07"), ("timeline.return", "09")]


async def test_a_lasting_change_is_one_event_and_so_is_the_return(server: Server) -> None:
    """At first nobody knows whether it lasts, and then it is what later windows are like."""
    since = {5: 4, 6: 4, 7: 4, 8: 4}
    low = dict.fromkeys(range(4, 8), 15.0)
    runs = [
        timeline({4}, last=4, levels=low),
        timeline({4, 5}, last=5, levels=low),
        timeline({4}, {4}, last=6, references=since, levels=low),
        timeline({4}, {5}, last=7, references=since, levels=low),
        timeline({4, 8}, {4, 8}, last=8, references=since, levels=low),
        timeline({4, 8}, {4, 8}, last=9, references=since | {9: 8}, levels=low),
    ]
    events = await run_timelines(server, timeline({}, last=3), *runs)
    assert events == [("timeline.alarm", "04"), ("timeline.alarm", "08")]


@pytest.mark.parametrize("lasts", [1, 3])
async def test_what_passes_by_is_one_event_when_it_is_over(server: Server, lasts: int) -> None:
    runs = [timeline(set(range(4, min(last, 3 + lasts) + 1)), last=last) for last in range(3, 10)]
    events = await run_timelines(server, *runs)
    assert events == [("timeline.alarm", "04"), ("timeline.return", f"0{4 + lasts}")]


@pytest.mark.parametrize(("levels", "n_events"), [((18.0, 15.0), 1), ((15.0, 21.0), 2)])
async def test_a_step_in_two_windows_is_one_event_and_a_step_back_another(
    levels: tuple[float, float], n_events: int, server: Server
) -> None:
    events = await run_timelines(
        server,
        timeline({}, last=3),
        timeline({4}, {4}, last=4, levels={4: levels[0]}),
        timeline({4, 5}, {4}, last=5, references={5: 4}, levels=dict(enumerate(levels, 4))),
    )
    assert events == [("timeline.alarm", "04"), ("timeline.alarm", "05")][:n_events]


async def test_a_return_tells_where_the_columns_are(server: Server) -> None:
    window = timeline({4})["windows"]
    assert describe_return(window[5], window[4])["words"] == [
        "as before the alarm since Sunday 2026-03-01 05:00 UTC, temperature 21.0 °C (error 0.2)"
    ]


async def test_an_accepted_change_is_no_event(server: Server) -> None:
    accepted = timeline(set(), {6})
    accepted["windows"][6]["is_accepted"] = True
    assert await run_timelines(server, timeline(set()), accepted) == []


@ON_BOTH
async def test_an_event_is_queued_once_whoever_finds_it(server: Server) -> None:
    study = await fill(server.desk)
    await create_alarm(server.desk, study, "https://example.org/hook")
    async with server.store.begin() as transaction:
        record = await transaction.get(StudyRecord, study)
    assert record is not None
    plan = ScheduleRecord(
        schedule_id=b"s" * 32,
        study_id=study,
        kind="timeline",
        request={},
        every_s=DAY,
        last_s=None,
        created=0.0,
        next_at=0.0,
        known={"alarms": [], "changes": []},
    )
    job = DecodeRecord(
        decode_id=b"j" * 32,
        study_id=study,
        snapshot_id=b"",
        n_clusters=1,
        decoder="",
        solver="",
        settings={},
        seed=0,
        created=0.0,
        state="succeeded",
        result=timeline({9}),
    )
    events = find_events(plan, record, job).events
    for expected in (1, 0):
        async with server.store.begin(write=True) as transaction:
            assert await queue_events(transaction, study, events, now=0.0) == expected


async def put_window(desk: Desk, study: bytes, number: int, *, shift: float = 0.0) -> None:
    """Upload the sketch of a window whose records are shifted."""
    device = Device(1)
    accumulator = SketchAccumulator(PLAN.statistic_of(device.device_id + b"main"))
    accumulator.add(draw_records(number) + shift)
    exact = PLAN.finish_sum(accumulator.sums, 500)
    sums = PLAN.mechanism.add_noise(exact, SeededSource(number))
    await desk.send(study, device, PLAN, sums, sequence=number, slots=(480 + number,) * 2)


async def test_a_window_that_differs_is_found_by_a_scheduled_timeline_and_sent(
    server: Server,
) -> None:
    # Everything is seeded, so this is one case and no statistic: it alarms or not for good.
    async with receiving() as receiver:
        desk, study = server.desk, await server.desk.publish(PLAN)
        await desk.enrol(study, Device(1))
        await create_alarm(desk, study, receiver.url)
        made = await schedule(desk, study, n_clusters=3, kind="timeline", settings={})
        for shifts in ((0.0,) * 6, (1.5,)):
            first = 0 if len(shifts) > 1 else 6
            for i, shift in enumerate(shifts):
                await put_window(desk, study, first + i, shift=shift)
            await server.services.scheduler.run_due()
            job = await server.services.jobs.take(lease_s=600.0)
            assert job is not None
            work = await server.services.jobs.prepare(job)
            answer = work.solve(progress=lambda _: None, cancelled=lambda: False)
            assert await server.services.jobs.succeed(job, work, answer)
            await server.services.scheduler.run_due()
            await send_due(server)
            found = [] if first == 0 else ["timeline.alarm"]
            assert sorted(receiver.types) == found
            server.clock.seconds += DAY
        bodies = [json.loads(body) for _, body in receiver.messages]
        (data,) = (body["data"] for body in bodies)
        result = (await desk.read(f"/v1/analyses/{data['job_id']}"))["result"]
        assert data["start"] == result["windows"][-1]["start"]
        assert data["schedule_id"] == made["schedule_id"]
        assert data["words"][0] == f"pumps: {result['windows'][-1]['finding']}"
        finding = (
            r"flow .* -> .* l/s \(error .*\), pressure .* bar .* since Wednesday 1970-01-21 06:00"
        )
        assert re.fullmatch(f"pumps: {finding} UTC", data["words"][0])
        assert "not yet compared with the same weekday" in " ".join(data["words"])
        assert data["page"] == f"/#studies/{study.hex()}/time/{data['job_id']}"
        (alarm,) = (await desk.operate("GET", f"/v1/studies/{study.hex()}/alarms")).json()["items"]
        log = await desk.operate("GET", f"/v1/alarms/{alarm['alarm_id']}/deliveries")
        assert log.json()["items"][0]["finding"] == data["words"][0]
