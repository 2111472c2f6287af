import sqlite3
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import event, text
from sqlalchemy.exc import DBAPIError
from structlog.testing import capture_logs

from sfumato.aggregator.resources.keys.record import KeyRecord
from sfumato.aggregator.resources.keys.service.keys import hash_secret
from tests.aggregator.databases import open_kind
from tests.aggregator.fleet import Desk, Device, assert_problem, make_plan
from tests.aggregator.serving import Server, open_server

pytestmark = pytest.mark.anyio


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


async def make_key(desk: Desk, scope: str, name: str = "ana") -> dict[str, Any]:
    answer = await desk.operate("POST", "/v1/keys", {"name": name, "scope": scope})
    assert answer.status_code == 201, answer.text
    assert answer.headers["location"] == f"/v1/keys/{answer.json()['key_id']}"
    return dict(answer.json())


async def list_keys(desk: Desk) -> dict[str, dict[str, Any]]:
    answer = await desk.operate("GET", "/v1/keys")
    assert answer.status_code == 200, answer.text
    return {key["key_id"]: key for key in answer.json()["items"]}


async def test_a_key_is_shown_once_and_stored_as_a_hash(server: Server) -> None:
    made = await make_key(server.desk, "analyst")
    assert made["key"].startswith(f"sfk_{made['key_id']}_")
    listed = await server.desk.operate("GET", "/v1/keys")
    assert made["key_id"] in listed.text
    assert made["key"] not in listed.text
    async with server.store.begin() as transaction:
        stored = await transaction.get(KeyRecord, made["key_id"])
    assert stored is not None
    assert stored.key_hash == hash_secret(made["key"])
    assert made["key"] not in repr(stored)


async def test_a_key_that_is_revoked_is_refused_at_once(desk: Desk) -> None:
    made = await make_key(desk, "analyst")
    assert (await desk.http.get("/v1/studies", headers=bearer(made["key"]))).status_code == 200
    url = f"/v1/keys/{made['key_id']}"
    answer = await desk.operate("DELETE", url)
    assert answer.json()["revoked"] is not None
    refused = await desk.http.get("/v1/studies", headers=bearer(made["key"]))
    assert_problem(refused, "access-denied", 401, "Authorization")
    again = await desk.operate("DELETE", url)
    assert_problem(again, "not-found", 404, "key_id")
    assert (await list_keys(desk))[made["key_id"]]["revoked"] is not None


@pytest.mark.parametrize(
    ("scope", "may_operate", "may_analyse", "may_view", "may_enrol"),
    [
        ("operator", True, True, True, True),
        ("analyst", False, True, True, False),
        ("viewer", False, False, True, False),
        ("enrol", False, False, False, True),
    ],
)
async def test_a_scope_allows_what_it_names_and_no_more(
    desk: Desk, scope: str, may_operate: bool, may_analyse: bool, may_view: bool, may_enrol: bool
) -> None:
    study = (await desk.publish(make_plan())).hex()
    headers = bearer((await make_key(desk, scope))["key"])
    for allowed, calls in (
        (may_operate, [("PATCH", f"/v1/studies/{study}"), ("GET", "/v1/audit")]),
        (may_operate, [("GET", "/v1/keys"), ("POST", "/v1/keys")]),
        (may_operate, [("GET", f"/v1/studies/{study}/tokens"), ("DELETE", f"/v1/tokens/{study}")]),
        (may_analyse, [("GET", f"/v1/studies/{study}/devices"), ("POST", "/v1/advice")]),
        (may_view, [("GET", f"/v1/studies/{study}"), ("GET", f"/v1/studies/{study}/decodes")]),
        (may_enrol, [("POST", f"/v1/studies/{study}/tokens")]),
    ):
        for method, url in calls:
            body: dict[str, str] | None = None if method == "GET" else {}
            answer = await desk.http.request(method, url, json=body, headers=headers)
            assert (answer.status_code != 403) == allowed, (scope, method, url)


async def test_an_enrol_key_lets_devices_enrol(desk: Desk) -> None:
    study = await desk.publish(make_plan())
    headers = bearer((await make_key(desk, "enrol"))["key"])
    answer = await desk.http.post(f"/v1/studies/{study.hex()}/tokens", json={}, headers=headers)
    enrolment = Device(1).enrolment(answer.json()["token"], study)
    assert (await desk.http.post("/v1/enrolments", json=enrolment)).status_code == 201


async def test_the_last_use_of_a_key_is_listed_to_the_minute(server: Server) -> None:
    desk, clock = server.desk, server.clock
    made = await make_key(desk, "analyst")
    assert (await list_keys(desk))[made["key_id"]]["last_used"] is None
    for seconds, seen in ((0, "12:00:00"), (30, "12:00:00"), (40, "12:01:10")):
        clock.seconds += seconds
        await desk.http.get("/v1/studies", headers=bearer(made["key"]))
        last_used = (await list_keys(desk))[made["key_id"]]["last_used"]
        assert last_used == f"2026-03-01T{seen}.000000Z"


async def test_an_unknown_key_and_a_wrong_secret_are_refused_by_the_same_work(
    tmp_path: Path,
) -> None:
    """Nothing but the hash of what was sent reaches the database, and nothing is compared here."""
    async with open_kind("sqlite", tmp_path) as store, open_server(store) as server:
        made = await make_key(server.desk, "analyst")
        run: list[tuple[str, Any]] = []
        event.listen(
            store.engine.sync_engine,
            "before_cursor_execute",
            lambda _c, _k, statement, values, _x, _m: run.append((statement, values)),
        )
        wrong = made["key"][:-1] + ("A" if made["key"][-1] != "A" else "B")
        unknown = "sfk_" + "0" * 16 + made["key"][20:]
        work = []
        for secret in (wrong, unknown):
            run.clear()
            answer = await server.desk.http.get("/v1/studies", headers=bearer(secret))
            assert answer.status_code == 401
            assert [values for _, values in run if values] == [(hash_secret(secret),)]
            work.append([statement for statement, _ in run])
        assert work[0] == work[1]
        answer = await server.desk.http.get("/v1/studies", headers=bearer(made["key"]))
        assert answer.status_code == 200


async def test_a_key_differing_in_any_one_character_is_refused(desk: Desk) -> None:
    secret = (await make_key(desk, "analyst"))["key"]
    for i in range(len(secret)):
        other = "0" if secret[i] != "0" else "1"
        changed = secret[:i] + other + secret[i + 1 :]
        answer = await desk.http.get("/v1/studies", headers=bearer(changed))
        assert answer.status_code == 401, i


# The audit log


async def read_audit(desk: Desk, **options: Any) -> dict[str, Any]:
    answer = await desk.http.get("/v1/audit", headers=desk.operator, **options)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def operate(desk: Desk) -> list[httpx.Response]:
    """Do everything that changes something and needs an operator; one answer for each action."""
    published = await desk.publish(make_plan())
    study = published.hex()
    headers, device = desk.operator, Device(1)
    key = await desk.http.post("/v1/keys", json={"name": "n", "scope": "enrol"}, headers=headers)
    url = f"/v1/studies/{study}"
    token = await desk.http.post(f"{url}/tokens", json={"max_uses": 2}, headers=headers)
    enrolment = device.enrolment(token.json()["token"], bytes.fromhex(study))
    await desk.http.post("/v1/enrolments", json=enrolment)
    url = f"/v1/devices/{device.device_id.hex()}"
    return [
        key,
        token,
        await desk.http.post(f"{url}/exclude", json={"reason": "withdrawn"}, headers=headers),
        await desk.http.post(f"{url}/revoke", json={"reason": "stolen"}, headers=headers),
        await desk.http.delete(f"/v1/keys/{key.json()['key_id']}", headers=headers),
        await desk.http.delete(f"/v1/tokens/{token.json()['token_id']}", headers=headers),
        await desk.change(published, "closed"),
        await desk.change(published, "open"),
        await desk.change(published, None, search_box={"flow": [-1, 1]}),
        await desk.withdraw(published),
    ]


async def test_every_action_of_an_operator_is_in_the_audit_log(server: Server) -> None:
    desk = server.desk
    operator = next(key for key in (await list_keys(desk)).values() if key["name"] == "op")
    answers = await operate(desk)
    assert all(answer.is_success for answer in answers)
    entries = [e for e in (await read_audit(desk))["items"] if e["actor"] != "local"]
    assert sorted(entry["action"] for entry in entries) == [
        "device.exclude",
        "device.revoke",
        "key.create",
        "key.revoke",
        "study.close",
        "study.create",
        "study.open",
        "study.search",
        "study.withdraw",
        "token.create",
        "token.revoke",
    ]
    assert {entry["actor"] for entry in entries} == {operator["key_id"]}
    assert all(entry["time"] == "2026-03-01T12:00:00.000000Z" for entry in entries)
    token = next(entry for entry in entries if entry["action"] == "token.create")
    assert token["details"]["max_uses"] == 2
    revoked = next(entry for entry in entries if entry["action"] == "token.revoke")
    assert revoked["target"] == token["target"]


async def test_no_call_of_an_operator_that_changes_something_is_left_out(desk: Desk) -> None:
    described = (await desk.http.get("/openapi.json")).json()["paths"]
    changing = {
        (method, path)
        for path, calls in described.items()
        for method in calls
        if method != "get"
        and not path.startswith(("/v1/decodes", "/v1/analyses", "/v1/enrolments", "/v1/devices/me"))
    }
    # Advice stores nothing.
    changing -= {("post", "/v1/advice")}
    # What analysts ask and devices do is not audited: snapshots, decodes, analyses, sketches.
    changing -= {
        ("post", "/v1/studies/{study}/snapshots"),
        ("post", "/v1/studies/{study}/decodes"),
        ("post", "/v1/studies/{study}/analyses"),
        ("put", "/v1/studies/{study}/sketches/{sketch}"),
    }
    assert changing == {
        ("post", "/v1/studies"),
        ("patch", "/v1/studies/{study}"),
        ("delete", "/v1/studies/{study}"),
        ("put", "/v1/studies/{study}/campaign"),
        # Its entry is that of the study that it creates.
        ("post", "/v1/studies/{study}/campaign/next"),
        ("post", "/v1/studies/{study}/tokens"),
        ("delete", "/v1/tokens/{token}"),
        ("post", "/v1/devices/{device}/exclude"),
        ("post", "/v1/devices/{device}/revoke"),
        ("post", "/v1/keys"),
        ("post", "/v1/sign-in"),
        ("delete", "/v1/sign-in"),
        ("delete", "/v1/keys/{key}"),
        # The tests of batches, publications and alarms find these in the log.
        ("post", "/v1/studies/{study}/batches/{batch}/open"),
        ("post", "/v1/studies/{study}/batches/{batch}/admit"),
        ("post", "/v1/studies/{study}/batches/{batch}/set-aside"),
        ("post", "/v1/studies/{study}/batches/{batch}/give-up"),
        ("post", "/v1/studies/{study}/published"),
        ("post", "/v1/identity/rotate"),
        ("post", "/v1/studies/{study}/accepted-changes"),
        ("delete", "/v1/studies/{study}/accepted-changes/{first_slot}"),
        ("post", "/v1/studies/{study}/schedules"),
        ("patch", "/v1/schedules/{schedule}"),
        ("delete", "/v1/schedules/{schedule}"),
        ("post", "/v1/studies/{study}/alarms"),
        ("patch", "/v1/alarms/{alarm}"),
        ("delete", "/v1/alarms/{alarm}"),
        ("post", "/v1/alarms/{alarm}/test"),
    }


async def test_the_audit_log_holds_no_secret(desk: Desk) -> None:
    secrets = [desk.operator_key, desk.analyst_key]
    for answer in await operate(desk):
        secrets += [str(answer.json()[name]) for name in ("key", "token") if name in answer.json()]
    log = str(await read_audit(desk))
    assert len(secrets) == 4
    assert not any(secret in log or secret[-30:] in log for secret in secrets)


async def test_what_is_refused_or_changes_nothing_is_not_in_the_audit_log(desk: Desk) -> None:
    study = await desk.publish(make_plan())
    before = await read_audit(desk)
    await desk.change(study, "open")
    await desk.change(study, "closed", if_match='"9.9.9"')
    await desk.withdraw(study, name="another")
    await desk.operate("DELETE", f"/v1/keys/{'ab' * 8}")
    await desk.operate("DELETE", f"/v1/tokens/{'ab' * 32}")
    assert await read_audit(desk) == before


async def fail(desk: Desk, key_id: str) -> list[httpx.Response]:
    return [
        await desk.operate("POST", "/v1/keys", {"name": "n", "scope": "enrol"}),
        await desk.operate("DELETE", f"/v1/keys/{key_id}"),
    ]


async def test_an_action_and_its_entry_are_stored_together_or_not_at_all(tmp_path: Path) -> None:
    async with open_kind("sqlite", tmp_path) as store, open_server(store) as server:
        with sqlite3.connect(tmp_path / "aggregator.db") as connection:
            connection.execute(
                "CREATE TRIGGER full BEFORE INSERT ON audit_entries "
                "BEGIN SELECT RAISE(ABORT, 'no'); END"
            )
        connection.close()
        before = await list_keys(server.desk)
        with capture_logs():  # of a failure that is meant
            answers = await fail(server.desk, next(iter(before)))
        assert [answer.status_code for answer in answers] == [500, 500]
        assert await list_keys(server.desk) == before


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.parametrize(
    "change", ["UPDATE audit_entries SET actor = 'x'", "DELETE FROM audit_entries"]
)
async def test_the_database_itself_refuses_to_change_the_audit_log(
    tmp_path: Path, kind: str, change: str
) -> None:
    async with open_kind(kind, tmp_path) as store, open_server(store) as server:
        before = await read_audit(server.desk)
        with pytest.raises(DBAPIError, match="append-only"):
            async with store.engine.begin() as connection:
                await connection.execute(text(change))
        assert await read_audit(server.desk) == before
        assert len(before["items"]) == 2


async def test_the_audit_log_is_listed_in_pages(desk: Desk) -> None:
    await operate(desk)
    whole = (await read_audit(desk))["items"]
    seen: list[dict[str, Any]] = []
    page: str | None = None
    while True:
        params = {"limit": "3"} | ({"page": page} if page else {})
        answer = await read_audit(desk, params=params)
        seen += answer["items"]
        page = answer["next_page"]
        if page is None:
            break
    assert seen == whole
