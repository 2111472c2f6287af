"""An ``Idempotency-Key``: the same request again makes nothing and gets the same answer."""

import asyncio
import signal
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import func, select

from sfumato.aggregator.base.clock import SystemClock
from sfumato.aggregator.base.store import Store
from sfumato.aggregator.base.tables import METADATA
from sfumato.aggregator.resources.keys.service.idempotency import KEPT_S
from sfumato.aggregator.services import Services
from sfumato.shared.plan import plan_to_json
from sfumato.shared.wire.access import list_declared
from tests.aggregator.api.test_campaigns import DAY, START, begin
from tests.aggregator.api.test_publications import decode
from tests.aggregator.databases import find_address, open_kind
from tests.aggregator.fleet import SLOT, Desk, Device, assert_problem, make_plan
from tests.aggregator.processes import read_announcement, start
from tests.aggregator.serving import Server, open_server

pytestmark = pytest.mark.anyio

ON_BOTH = pytest.mark.parametrize("server", ["sqlite", "postgres"], indirect=True)
OWN = "idempotency_keys"
KEYS = "/v1/keys"
NEW_KEY = {"name": "ana", "scope": "analyst"}


async def post(
    desk: Desk, url: str, body: Any, key: str | None, *, caller: dict[str, str] | None = None
) -> httpx.Response:
    named = {} if key is None else {"Idempotency-Key": key}
    headers = (caller or desk.operator) | named
    # Bodies are compared as they are sent.
    return await desk.http.post(url, json=body, headers=headers)


async def count_rows(store: Store) -> dict[str, int]:
    async with store.begin() as transaction:
        return {
            name: await transaction.scalar(select(func.count()).select_from(table))
            for name, table in METADATA.tables.items()
        }


def same(first: httpx.Response, second: httpx.Response) -> bool:
    """Compare answers, without what every answer has of its own."""
    own = {"x-request-id", "date"}
    headers = [{k: v for k, v in a.headers.items() if k not in own} for a in (first, second)]
    return (first.status_code, first.content, headers[0]) == (
        second.status_code,
        second.content,
        headers[1],
    )


@ON_BOTH
async def test_every_call_that_makes_something_makes_it_once_for_each_key(server: Server) -> None:
    desk, plan = server.desk, make_plan()
    study = await desk.open(Device(1), plan=plan)
    for number in range(2):
        await desk.send(study, Device(1), plan, sequence=number)
    decode_id = await decode(server, study)
    campaign = await begin(server)
    server.clock.seconds = START + DAY + 60.0
    await campaign.send()
    of_study, of_campaign = (f"/v1/studies/{each.hex()}" for each in (study, campaign.first))
    alarm = {"url": "http://127.0.0.1:9/hook"}
    bodies: dict[str, tuple[str, Any]] = {
        "create_study": (
            "/v1/studies",
            {"name": "fans", "plan": plan_to_json(make_plan(n_frequencies=50))},
        ),
        "create_token": (f"{of_study}/tokens", {}),
        "create_key": (KEYS, NEW_KEY),
        "create_alarm": (f"{of_study}/alarms", alarm),
        "create_schedule": (
            f"{of_study}/schedules",
            {"kind": "decode", "n_clusters": 2, "every_s": 3600},
        ),
        "create_snapshot": (f"{of_study}/snapshots", {"last_slot": SLOT}),
        "create_decode": (f"{of_study}/decodes", {"n_clusters": 4}),
        "create_analysis": (f"{of_study}/analyses", {"kind": "timeline", "n_clusters": 2}),
        "accept_change": (f"{of_study}/accepted-changes", {"first_slot": SLOT + 1}),
        "publish_result": (f"{of_study}/published", {"decode_id": decode_id}),
        "rotate_identity": ("/v1/identity/rotate", {"endorse": True}),
        "next_phase": (f"{of_campaign}/campaign/next", {"anyway": True}),
    }
    made = await post(desk, f"{of_study}/alarms", alarm, None)
    bodies["test_alarm"] = (f"/v1/alarms/{made.json()['alarm_id']}/test", None)
    assert bodies.keys() == {call.name for call in list_declared() if call.makes}
    for name, (url, body) in bodies.items():
        before = await count_rows(server.store)
        first = await post(desk, url, body, name)
        assert first.status_code in (201, 202), (name, first.text)
        after = await count_rows(server.store)
        assert any(n > before[table] for table, n in after.items() if table != OWN), name
        server.clock.seconds += 60.0
        again = await post(desk, url, body, name)
        assert same(first, again), (name, first.text, again.text)
        assert await count_rows(server.store) == after, name


@ON_BOTH
async def test_a_key_is_of_one_request_and_of_one_caller(server: Server) -> None:
    desk = server.desk
    study = await desk.open(Device(1), plan=make_plan())
    url = f"/v1/studies/{study.hex()}/schedules"
    body = {"kind": "decode", "n_clusters": 2, "every_s": 3600}
    first = await post(desk, url, body, "one")
    other = await post(desk, url, body | {"every_s": 7200}, "one")
    assert_problem(other, "request-invalid", 422, "Idempotency-Key")
    assert "another request" in other.json()["rule"]
    assert "new key" in other.json()["fix"]
    elsewhere = await post(desk, KEYS, body, "one")
    assert_problem(elsewhere, "request-invalid", 422, "Idempotency-Key")
    # A key is secret to its caller: another one's is another key.
    mine = await post(desk, url, body, "one", caller=desk.analyst)
    assert (mine.status_code, mine.json() == first.json()) == (201, False)
    assert len((await desk.read(url))["items"]) == 2


async def test_without_a_key_a_request_is_another_one_each_time(desk: Desk) -> None:
    made = [(await post(desk, KEYS, NEW_KEY, None)).json()["key_id"] for _ in range(2)]
    assert len(set(made)) == 2


@pytest.mark.parametrize("key", ["", "a b", "\u00e9".encode().decode("latin-1"), 256 * "k"])
async def test_a_key_is_1_to_255_visible_characters(desk: Desk, key: str) -> None:
    headers = [("authorization", desk.operator["Authorization"])]
    sent = [*headers, (b"idempotency-key", key.encode("latin-1"))]
    refused = await desk.http.post(KEYS, json=NEW_KEY, headers=sent)  # type: ignore[arg-type]
    assert_problem(refused, "request-invalid", 422, "Idempotency-Key")
    assert refused.json()["rule"] == "must be 1 to 255 visible characters of ASCII"
    assert (await post(desk, KEYS, NEW_KEY, 255 * "~")).status_code == 201


async def test_a_revoked_caller_gets_no_answer_again(desk: Desk) -> None:
    made = (await post(desk, KEYS, {"name": "two", "scope": "operator"}, None)).json()
    caller = {"Authorization": f"Bearer {made['key']}"}
    assert (await post(desk, KEYS, NEW_KEY, "k", caller=caller)).status_code == 201
    await desk.operate("DELETE", f"{KEYS}/{made['key_id']}")
    assert_problem(
        await post(desk, KEYS, NEW_KEY, "k", caller=caller), "access-denied", 401, "Authorization"
    )


@ON_BOTH
async def test_a_refused_request_makes_nothing_and_may_be_repeated_with_its_key(
    server: Server,
) -> None:
    desk, plan = server.desk, make_plan()
    study = await desk.open(Device(1), plan=plan)
    url = f"/v1/studies/{study.hex()}/decodes"
    before = await count_rows(server.store)
    refused = await post(desk, url, {"n_clusters": 2}, "k")
    assert refused.status_code == 422
    assert await count_rows(server.store) == before
    await desk.send(study, Device(1), plan)
    assert (await post(desk, url, {"n_clusters": 2}, "k")).status_code == 202


async def test_a_request_that_is_being_answered_is_refused_until_it_is(server: Server) -> None:
    desk = server.desk
    async with server.store.begin(write=True):
        # It waits for this writer.
        first = asyncio.create_task(post(desk, KEYS, NEW_KEY, "k"))
        while not server.services.idempotency._claimed:
            await asyncio.sleep(0.01)
        second = await post(desk, KEYS, NEW_KEY, "k")
    assert_problem(second, "store-conflict", 409, "Idempotency-Key")
    assert int(second.headers["retry-after"]) >= 1
    assert same(await first, await post(desk, KEYS, NEW_KEY, "k"))


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_of_two_servers_one_makes_it(kind: str, tmp_path: Path) -> None:
    async with (
        open_kind(kind, tmp_path) as store,
        open_server(store) as one,
        open_server(store) as two,
    ):
        caller = one.desk.operator
        n_before = (await count_rows(store))["api_keys"]
        async with store.begin(write=True):
            # On SQLite both wait for this writer, and know of no answer yet.
            asked = [
                asyncio.create_task(post(each.desk, KEYS, NEW_KEY, "k", caller=caller))
                for each in (one, two)
            ]
            await asyncio.sleep(0.5)
        answers = await asyncio.gather(*asked)
        if store.has_one_writer:
            assert sorted(each.status_code for each in answers) == [201, 409]
        assert (await count_rows(store))["api_keys"] == n_before + 1
        final = await post(two.desk, KEYS, NEW_KEY, "k", caller=caller)
        assert final.status_code == 201
        for each in answers:
            if each.status_code == 201:
                assert same(each, final)
            else:
                assert_problem(each, "store-conflict", 409, "Idempotency-Key")


async def test_the_secret_of_an_answer_is_in_no_byte_of_the_database(tmp_path: Path) -> None:
    async with open_kind("sqlite", tmp_path) as store, open_server(store) as server:
        made = await post(server.desk, KEYS, NEW_KEY, "k")
        (sealed,) = [name for name, n in (await count_rows(store)).items() if n and name == OWN]
    held = b"".join(each.read_bytes() for each in tmp_path.glob("aggregator.db*"))
    assert sealed.encode() in held
    for secret in (made.json()["key"], server.desk.operator_key):
        assert secret.encode() not in held
        # Nor its random part.
        assert secret[-40:].encode() not in held


async def test_a_key_is_forgotten_after_a_day(server: Server) -> None:
    url = KEYS
    first = await post(server.desk, url, NEW_KEY, "k")
    for moved, is_same in ((KEPT_S - 60.0, True), (120.0, False)):
        server.clock.seconds += moved
        await merge_once(server.services)
        assert same(first, await post(server.desk, url, NEW_KEY, "k")) is is_same


async def merge_once(services: Services) -> None:
    """Run the merger, which drops what was kept long enough."""
    assert await services.readiness.prepare()
    stop = asyncio.Event()
    running = asyncio.create_task(services.merger.run(stop))
    await asyncio.sleep(0.7)
    stop.set()
    await running


KILLED = """
import os, signal, sys
from sfumato.aggregator.resources.keys.service.idempotency import IdempotencyService as Service

def kill(*arguments):
    os.kill(os.getpid(), signal.SIGKILL)

async def kill_when_kept(service, claim, answer):
    await keep(service, claim, answer)
    kill()

moment = sys.argv.pop()
keep = Service.keep
if moment == "before the commit":
    Service.keep = kill_when_kept
else:
    Service.release = kill
from sfumato.shared.command import main
sys.exit(main(["serve", *sys.argv[1:]]))
"""
"""A server that is killed when a request is about to be answered."""


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_server_that_is_killed_before_it_answers_has_made_all_or_nothing(
    kind: str, tmp_path: Path
) -> None:
    async with open_kind(kind, tmp_path) as store:
        services = Services(store, SystemClock())
        key, _ = await services.keys.create(name="op", scope="operator")
        headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": "k"}
        options = ("--no-worker", "--database", find_address(store))

        async def ask(address: str) -> httpx.Response:
            async with httpx.AsyncClient(base_url=address, timeout=60.0) as http:
                return await http.post(KEYS, json=NEW_KEY, headers=headers)

        for n_made, moment in enumerate(["before the commit", "after it"]):
            with start(*options, moment, stderr=subprocess.DEVNULL, program=KILLED) as doomed:
                address, _ = await asyncio.to_thread(read_announcement, doomed)
                with pytest.raises(httpx.TransportError):
                    await ask(address)
                await asyncio.to_thread(doomed.communicate)
            assert doomed.returncode == -signal.SIGKILL
            counts = await count_rows(store)
            assert (counts["api_keys"], counts[OWN]) == (1 + n_made, n_made)
        with start(*options, stderr=subprocess.DEVNULL) as heir:
            address, _ = await asyncio.to_thread(read_announcement, heir)
            answers = [await ask(address) for _ in range(2)]
            heir.send_signal(signal.SIGTERM)
            await asyncio.to_thread(heir.communicate)
        assert same(*answers)
        assert (await count_rows(store))["api_keys"] == 2
        # Its secret is the one that works.
        secret = answers[0].json()["key"]
        assert (await services.keys.require(secret, "analyst")).name == "ana"
