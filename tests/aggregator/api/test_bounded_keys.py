"""Keys that expire, and keys of one study, at every call of the catalogue."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, get_args

import pytest

from sfumato.aggregator.database.references import IDENTIFIED
from sfumato.aggregator.resources.batches.record import BatchRecord
from sfumato.aggregator.resources.keys.record import KeyScope
from sfumato.shared.errors import AccessError
from sfumato.shared.structure import read_hints
from sfumato.shared.wire.calls.call import Call
from sfumato.shared.wire.objects.declaration import Hex
from tests.aggregator.api.test_calls import DECLARED
from tests.aggregator.fleet import Desk, Device, assert_problem, make_plan
from tests.aggregator.records import SNAPSHOT, make_analysis, name
from tests.aggregator.serving import Server

pytestmark = pytest.mark.anyio

DAY = 86400.0
ABSENT = "ab" * 32
KEYED = [each for each in DECLARED.values() if each.scope not in ("public", "device")]
OF_STUDIES = [
    each for each in KEYED if set(each.references) & set(IDENTIFIED) and not each.spans_studies
]
OF_NONE = [each for each in KEYED if each not in OF_STUDIES]
OWN = {"list_studies", "list_all_devices", "find_reference", "get_own_key"}
"""Calls about no study in particular that a key of one study may make: they show that study."""
NO_REFERENCES = {"public_key", "key_id", "study_id"}
"""Members of bodies that are no references to what belongs to a study: keys, and `create_key`'s."""


async def make_key(server: Server, scope: KeyScope, **bounds: Any) -> dict[str, str]:
    """Create a key and return its headers."""
    secret, _ = await server.services.keys.create(name="bo", scope=scope, **bounds)
    return {"Authorization": f"Bearer {secret}"}


@dataclass
class World:
    """A study that has one of everything, and a study that has nothing."""

    server: Server
    full: bytes
    bare: bytes
    ids: dict[str, str]

    async def call(
        self, call: Call[Any, Any], headers: dict[str, str], ids: dict[str, str], **more: Any
    ) -> Any:
        """Make a call about objects, with a body that may be wrong."""
        places = {"first_slot": "5", "key": "ab" * 8} | ids
        path = re.sub(r"\{(\w+)\}", lambda found: places[found[1]], call.path)
        body = more or {}
        return await self.server.desk.http.request(
            call.method, path, headers=headers, json=body if call.has_body else None
        )


async def fill(server: Server) -> World:
    """Make the studies."""
    desk, device = server.desk, Device(1)
    full = await desk.open(device)
    bare = await desk.publish(make_plan(seed="00" * 32), name="valves")
    study = f"/v1/studies/{full.hex()}"
    tokens = (await desk.operate("GET", f"{study}/tokens")).json()["items"]
    asked = {"kind": "decode", "n_clusters": 3, "every_s": 3600}
    schedule = (await desk.operate("POST", f"{study}/schedules", asked)).json()
    alarm = (await desk.operate("POST", f"{study}/alarms", {"url": "http://127.0.0.1:9/x"})).json()
    await desk.send(full, device)
    snapshot = (await desk.post(f"{study}/snapshots", {})).json()["snapshot_id"]
    asked = {"n_clusters": 2, "snapshot_id": snapshot}
    decode = (await desk.post(f"{study}/decodes", asked)).json()["decode_id"]
    analysis = make_analysis(1, study_id=full, inputs=[])
    batch = BatchRecord(
        batch_id=name("batch"),
        study_id=full,
        slot=1,
        labels={},
        part=0,
        number=0,
        created=1.0,
        closes=2.0,
        expires=3.0,
        least_reports=2,
        most_reports=3,
    )
    async with server.store.begin(write=True) as transaction:
        for record in (analysis, batch):
            await transaction.add(record)
    ids = {
        "study": full.hex(),
        "device": device.device_id.hex(),
        "batch": batch.batch_id.hex(),
        "snapshot": snapshot,
        "decode": decode,
        "analysis": analysis.analysis_id.hex(),
        "schedule": schedule["schedule_id"],
        "alarm": alarm["alarm_id"],
        "token": tokens[0]["token_id"],
    }
    assert tuple(ids) == IDENTIFIED
    return World(server, full, bare, ids)


# One study


async def test_a_key_of_another_study_gets_the_answer_that_there_is_no_such_object(
    server: Server,
) -> None:
    """An object that exists elsewhere and one that does not exist are told apart by nothing."""
    world = await fill(server)
    key = await make_key(server, "operator", study_id=world.bare)
    for call in OF_STUDIES:
        for digits in (64, 10):
            ids = {kind: found[:digits] for kind, found in world.ids.items()}
            answer = await world.call(call, key, ids)
            assert_problem(answer, "not-found", 404, call.references[0])
            same = await world.call(call, key, dict.fromkeys(IDENTIFIED, ABSENT[:digits]))
            found = ids[call.references[0]]
            assert answer.text.replace(found, ABSENT[:digits]) == same.text, call.name
    by_name = await world.call(DECLARED["get_study"], key, {"study": "pumps"})
    assert_problem(by_name, "not-found", 404, "study")


@pytest.mark.parametrize("server", ["sqlite", "postgres"], indirect=True)
async def test_a_key_of_a_study_may_do_there_what_a_key_of_all_may(server: Server) -> None:
    world = await fill(server)
    bound = await make_key(server, "operator", study_id=world.full)
    changed = []
    for call in sorted(OF_STUDIES, key=lambda each: each.method != "GET"):
        if call.method == "DELETE" or call.media == "text/event-stream":
            continue
        whole, own = [
            await world.call(call, key, world.ids) for key in (server.desk.operator, bound)
        ]
        if whole.status_code != own.status_code:
            changed.append((call.name, whole.status_code, own.status_code, own.text))
    assert changed == []
    for ids in ({"study": "pumps"}, {"study": world.full.hex()[:6]}):
        assert (await world.call(DECLARED["get_study"], bound, ids)).status_code == 200


async def test_calls_about_no_study_in_particular_are_forbidden_or_show_that_of_the_key(
    server: Server,
) -> None:
    world = await fill(server)
    key = await make_key(server, "operator", study_id=world.bare)
    assert {each.name for each in OF_NONE if each.keeps_to_study} == OWN
    for call in OF_NONE:
        answer = await world.call(call, key, world.ids)
        if call.name not in OWN:
            assert_problem(answer, "forbidden", 403, "Authorization")
    http = server.desk.http
    listed = (await http.get("/v1/studies", headers=key)).json()["items"]
    assert [each["name"] for each in listed] == ["valves"]
    assert (await http.get("/v1/devices", headers=key)).json()["items"] == []
    own = (await http.get("/v1/keys/own", headers=key)).json()
    assert (own["scope"], own["study_id"]) == ("operator", world.bare.hex())
    for kind, found in world.ids.items():
        for reference in {found, found[:10], "pumps" if kind == "study" else found}:
            params = {"kind": kind, "reference": reference}
            answer = await http.get("/v1/references", params=params, headers=key)
            assert_problem(answer, "not-found", 404, kind)
            assert "pumps" not in answer.text.replace(reference, "")


async def test_a_key_of_one_phase_acts_on_no_other_of_its_campaign(server: Server) -> None:
    """The next phase would be a study of its own, and what a campaign waits for are all."""
    world = await fill(server)
    key = await make_key(server, "operator", study_id=world.full)
    spanning = [each for each in KEYED if each.spans_studies]
    assert [each.name for each in spanning] == ["begin_campaign", "get_campaign", "next_phase"]
    for call in spanning:
        answer = await world.call(call, key, world.ids)
        assert_problem(answer, "forbidden", 403, "Authorization")
        assert answer.json()["rule"].endswith("this request is about all of a campaign")


async def test_a_body_cannot_name_objects_of_another_study(server: Server) -> None:
    world = await fill(server)
    foreign = replace(SNAPSHOT, study_id=world.bare)
    async with server.store.begin(write=True) as transaction:
        await transaction.add(foreign)
    own = await make_key(server, "viewer", study_id=world.full)
    for call in (DECLARED["ask_questions"], DECLARED["draw_synthetic_records"]):
        assert call.names == "histogram=snapshot"
        named = {"histogram": foreign.snapshot_id.hex()}
        answer = await world.call(call, own, world.ids, **named)
        assert_problem(answer, "not-found", 404, "snapshot")
    key = await make_key(server, "analyst", study_id=world.bare)
    ids = {"study": world.bare.hex()}
    for call in OF_STUDIES:
        for member, kind in (each.split("=") for each in call.names.split()):
            if call.references == ("decode",):
                continue
            for found in (world.ids[kind], ABSENT):
                for stated in (found, [found]):
                    answer = await world.call(call, key, ids, **{member: stated})
                    assert_problem(answer, "not-found", 404, kind)


@pytest.mark.parametrize("content", [b"{", b"[1", b"\xff", b"", b"nul", b"[" * 60_000])
async def test_a_body_that_is_no_json_is_refused_as_any_other(
    server: Server, content: bytes
) -> None:
    world = await fill(server)
    key = await make_key(server, "analyst", study_id=world.full)
    for headers in (key, key | {"Idempotency-Key": "once"}):
        answer = await server.desk.http.post(
            f"/v1/studies/{world.full.hex()}/decodes",
            headers=headers | {"Content-Type": "application/json"},
            content=content,
        )
        assert_problem(answer, "request-invalid", 422, "body")


def test_every_reference_in_a_body_is_declared() -> None:
    """Or a key of one study could name there what belongs to another."""
    for call in OF_STUDIES:
        declared = {each.partition("=")[0]: each.partition("=")[2] for each in call.names.split()}
        assert set(declared.values()) <= set(IDENTIFIED)
        bodies: Collection[Any] = get_args(call.request) or (call.request,)
        held = {name for body in bodies if is_dataclass(body) for name in list_ids(body)}
        assert held - NO_REFERENCES == set(declared), call.name


def list_ids(body: Any) -> set[str]:
    """Return the members of a body that hold ids."""
    hints = read_hints(body)
    return {each.name for each in fields(body) if holds_ids(hints[each.name])}


def holds_ids(hint: Any) -> bool:
    if isinstance(hint, type) and is_dataclass(hint):
        assert not list_ids(hint), "the check looks at the members of the body itself alone"
        return False
    return hint == Hex or any(holds_ids(part) for part in get_args(hint))


@pytest.mark.parametrize("scope", ["viewer", "analyst", "enrol"])
async def test_a_key_of_a_study_has_the_rights_of_its_scope_there_and_no_more(
    server: Server, scope: KeyScope
) -> None:
    world = await fill(server)
    whole, bound = await make_key(server, scope), await make_key(server, scope, study_id=world.full)
    for call in OF_STUDIES:
        if call.method != "GET" and call.name != "create_token":
            continue
        if call.media == "text/event-stream":
            continue
        given = [await world.call(call, key, world.ids) for key in (whole, bound)]
        assert given[0].status_code == given[1].status_code, (call.name, given[1].text)


async def test_a_key_is_made_for_a_study_that_exists(server: Server) -> None:
    desk = server.desk
    study = await desk.publish(make_plan())
    asked = {"name": "ana", "scope": "viewer", "study_id": study.hex()}
    made = await desk.operate("POST", "/v1/keys", asked)
    assert made.json()["study_id"] == study.hex()
    (entry,) = [e for e in await desk.read_audit("key.create") if e["actor"] != "local"]
    assert entry["details"] == {**asked, "expires": None}
    lost = await desk.operate("POST", "/v1/keys", {**asked, "study_id": ABSENT})
    assert_problem(lost, "not-found", 404, "study")
    await desk.withdraw(study)
    gone = await desk.operate("POST", "/v1/keys", asked)
    assert gone.json()["type"] == "/problems/study-withdrawn"
    await server.services.studies.purge()
    headers = {"Authorization": f"Bearer {made.json()['key']}"}
    later = await desk.http.get(f"/v1/studies/{study.hex()}", headers=headers)
    assert later.json()["type"] == "/problems/study-withdrawn"


# Expiry


async def make_expiring(desk: Desk, expires: str) -> Any:
    asked = {"name": "ana", "scope": "analyst", "expires": expires}
    return await desk.operate("POST", "/v1/keys", asked)


async def test_an_expired_key_is_refused_with_the_time_and_what_to_do(server: Server) -> None:
    desk, clock = server.desk, server.clock
    made = (await make_expiring(desk, "2026-03-02T13:00:00+01:00")).json()
    assert made["expires"] == "2026-03-02T12:00:00.000000Z"
    headers = {"Authorization": f"Bearer {made['key']}"}
    clock.seconds += DAY - 0.001
    assert (await desk.http.get("/v1/studies", headers=headers)).status_code == 200
    clock.seconds += 0.001
    refused = await desk.http.get("/v1/studies", headers=headers)
    assert_problem(refused, "access-denied", 401, "Authorization")
    assert refused.json()["rule"] == "carries a key that expired at 2026-03-02T12:00:00.000000Z"
    assert "sfumato key create" in refused.json()["fix"]
    listed = (await desk.operate("GET", "/v1/keys")).json()["items"]
    assert {each["expires"] for each in listed} == {None, made["expires"]}
    (entry,) = [e for e in await desk.read_audit("key.create") if e["actor"] != "local"]
    assert entry["details"]["expires"] == made["expires"]


@pytest.mark.parametrize(
    ("expires", "is_made"),
    [
        ("2026-03-01T12:00:00Z", False),
        ("2026-03-01T12:00:01Z", True),
        ("2036-03-01T12:00:00Z", True),
        ("2036-03-20T12:00:00Z", False),
        ("1999-01-01T00:00:00Z", False),
    ],
)
async def test_a_key_expires_in_the_future_and_within_ten_years(
    desk: Desk, expires: str, is_made: bool
) -> None:
    answer = await make_expiring(desk, expires)
    if is_made:
        assert answer.status_code == 201
    else:
        assert_problem(answer, "request-invalid", 422, "expires")


async def test_a_key_that_expires_during_a_stream_is_in_use_no_longer(server: Server) -> None:
    keys, expires = server.services.keys, server.clock.now() + DAY
    _, key = await keys.create(name="vi", scope="viewer", expires=expires)
    await keys.require_still(key)
    server.clock.seconds += DAY
    with pytest.raises(AccessError, match="expired at 2026-03-02"):
        await keys.require_still(key)
