"""Bodies that are made to hurt, messages of releases to come, and clocks that are wrong."""

from __future__ import annotations

import json
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, get_args

import cbor2
import pytest
from pydantic import TypeAdapter

from sfumato.shared.cbor import encode_deterministic
from sfumato.shared.core.text import PLAIN_TEXT_RULE
from sfumato.shared.plan import plan_to_json
from sfumato.shared.structure import read_hints
from sfumato.shared.wire import (
    DeviceAction,
    error_from_problem,
    objects,
    problem_type_of,
    sign_request,
)
from tests.aggregator.fleet import Desk, Device, assert_problem, make_plan
from tests.aggregator.serving import Server
from tests.walking import Walk

pytestmark = pytest.mark.anyio

JSON = {"Content-Type": "application/json"}
DEPTH = 20_000


async def list_json_calls(desk: Desk) -> list[tuple[str, str]]:
    """Return every call that takes JSON, as method and address."""
    described = (await desk.http.get("/openapi.json")).json()["paths"]
    return [
        (method, path.replace("{study}", "ab" * 32).replace("{device}", "cd" * 32))
        for path, calls in described.items()
        for method, call in calls.items()
        if "application/json" in call.get("requestBody", {}).get("content", {})
    ]


NESTED = {
    "lists": b"[" * DEPTH + b"]" * DEPTH,
    "objects": b'{"a":' * DEPTH + b"0" + b"}" * DEPTH,
    "in a field": b'{"name":"x","plan":' + b"[" * DEPTH + b"]" * DEPTH + b"}",
    "never closed": b"[" * DEPTH,
}
ODD = {
    "no JSON": b"\xff\xfe",
    "half a surrogate": b'{"name":"\\ud800","plan":{}}',
    "a huge number": b'{"max_uses":1' + b"0" * 5000 + b"}",
    "a number that is none": b'{"max_uses":NaN}',
    "a number beyond floats": b'{"max_uses":1e999}',
    "zero bytes": b'{"name":"a\\u0000b","token":"a\\u0000b","reason":"a\\u0000b","plan":{}}',
    "a field twice": b'{"max_uses":1,"max_uses":0}',
}


async def test_no_body_of_json_makes_a_call_fail(desk: Desk) -> None:
    with Walk() as walk:
        for body in (NESTED | ODD).values():
            with walk.cell(body):
                for method, url in await list_json_calls(desk):
                    answer = await desk.http.request(
                        method, url, content=body, headers=desk.operator | JSON
                    )
                    assert 400 <= answer.status_code < 500, (method, url, answer.text)
                    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    "character",
    ["\0", "\x1b", "\n", "\x9b", "\u2028", "\u202e", "\u2066", "\u200b", "\U000e0041", "e\u0301"],
)
async def test_a_character_that_is_not_seen_is_refused_in_every_name(
    desk: Desk, character: str
) -> None:
    plan, name = make_plan(), f"a{character}b"
    study = (await desk.publish(plan)).hex()
    device = "ab" * 32
    for url, body, field in (
        ("/v1/studies", {"name": name, "plan": plan_to_json(plan)}, "name"),
        ("/v1/keys", {"name": name, "scope": "analyst"}, "name"),
        (f"/v1/studies/{study}/snapshots", {"labels": {"site": name}}, "labels.site"),
        (f"/v1/devices/{device}/exclude", {"reason": name}, "reason"),
        (f"/v1/devices/{device}/revoke", {"reason": name}, "reason"),
    ):
        answer = await desk.operate("POST", url, body)
        assert_problem(answer, "request-invalid", 422, field)
        assert answer.json()["rule"] == PLAIN_TEXT_RULE
    unseen = plan_to_json(plan)
    unseen["dimensions"][0]["name"] = name
    body = {"name": "other", "plan": unseen}
    answer = await desk.operate("POST", "/v1/studies", body)
    assert answer.status_code == 422
    assert PLAIN_TEXT_RULE in answer.json()["rule"]
    await desk.enrol(bytes.fromhex(study), Device(1))
    message = Device(1).message(bytes.fromhex(study), plan, stream=name)
    answer = await desk.put(bytes.fromhex(study), *message)
    assert_problem(answer, "malformed-message", 400, "stream")
    heartbeat = {"agent": name, "engine": "x", "waiting_sketches": 0}
    url, content = "/v1/devices/me/heartbeat", json.dumps(heartbeat).encode()
    signed = Device(1).sign("PUT", url, now=1_772_366_400.0, body=content)
    answer = await desk.http.put(url, content=content, headers=signed | JSON)
    assert_problem(answer, "request-invalid", 422, "agent")


async def test_a_rule_of_this_server_reads_as_such(desk: Desk) -> None:
    study = await desk.publish(make_plan())
    answer = await desk.change(study, "closed", accept_until="1969-12-31T00:00:00Z")
    assert_problem(answer, "request-invalid", 422, "accept_until")
    assert answer.json()["rule"] == "must be in the years 1970 to 9000"


async def test_nested_messages_are_refused_and_counted(desk: Desk) -> None:
    study = await desk.publish(make_plan())
    with Walk() as walk:
        for depth in [15, 17, 400, DEPTH]:
            for opening in [b"\x81", b"\xd2", b"\xa1\x00"]:
                with walk.cell(depth, opening):
                    # Within the limit of a message of this plan, so that it is parsed at all.
                    body = (opening * depth)[:2400] + b"\x00"
                    answer = await desk.put(study, "cd" * 32, body)
                    assert_problem(answer, "malformed-message", 400, "message")


async def test_cbor_bombs_are_refused_by_the_service(server: Server) -> None:
    desk = server.desk
    study = await desk.publish(make_plan())
    value: list[Any] = []
    for _ in range(40):
        value = [value, value]
    bombs = [
        cbor2.dumps(value, value_sharing=True),
        cbor2.dumps(["x" * 100] * 500, string_referencing=True),
        b"\x82\x5b" + ((1 << 63) - 1).to_bytes(8, "big"),
        b"\x9b" + ((1 << 64) - 1).to_bytes(8, "big"),
    ]
    for bomb in bombs:
        answer = await desk.put(study, "cd" * 32, bomb)
        assert_problem(answer, "malformed-message", 400, "message")
    await server.services.tallies.flush()
    refusals = await desk.read(f"/v1/studies/{study.hex()}/refusals")
    assert refusals["items"] == [{"problem": "malformed-message", "count": len(bombs)}]


async def test_a_plan_of_a_version_to_come_is_refused_by_its_version(desk: Desk) -> None:
    document = plan_to_json(make_plan()) | {"format_version": 2, "a field to come": True}
    body = {"name": "pumps", "plan": document}
    answer = await desk.operate("POST", "/v1/studies", body)
    assert_problem(answer, "unsupported-version", 422, "format_version")


@pytest.mark.parametrize(("field", "value"), [(1, 2), (2, "shares.v1"), (2, "local.v2")])
async def test_a_message_of_a_version_to_come_is_refused_and_shelved(
    desk: Desk, field: int, value: object
) -> None:
    plan, device = make_plan(), Device(1)
    study = await desk.open(device, plan=plan)
    sketch, body = device.message(study, plan)
    envelope, payload = cbor2.loads(body)
    protected, _, header_bytes, _ = envelope.value
    header = encode_deterministic(dict(cbor2.loads(header_bytes)) | {field: value})
    signature = device.key.sign(encode_deterministic(["Signature1", protected, b"", header]))
    changed = encode_deterministic([cbor2.CBORTag(18, [protected, {}, header, signature]), payload])
    answer = await desk.put(study, sketch, changed)
    assert_problem(answer, "unsupported-version", 422, "header")
    error = error_from_problem(answer.json(), answer.status_code)
    assert problem_type_of(type(error)).action is DeviceAction.SHELVE


@pytest.mark.parametrize(
    ("skew_s", "is_taken"), [(-301, False), (-299, True), (299, True), (301, False)]
)
async def test_the_clock_of_a_device_may_be_wrong_by_minutes(
    server: Server, skew_s: int, is_taken: bool
) -> None:
    desk, device = server.desk, Device(1)
    await desk.open(device)
    headers = sign_request(
        method="GET",
        path="/v1/devices/me",
        body=b"",
        device=device.device_id,
        created=int(server.clock.now()) + skew_s,
        sign=device.key.sign,
    )
    answer = await desk.http.get("/v1/devices/me", headers=headers)
    if is_taken:
        # The device learns how wrong it is.
        assert answer.json()["server_time"] == server.clock.now()
        return
    assert_problem(answer, "request-signature-invalid", 401, "Signature")
    assert "clock" in json.dumps(answer.json())


async def test_a_server_whose_clock_is_put_back_counts_on(server: Server) -> None:
    desk, device, plan = server.desk, Device(1), make_plan()
    study = await desk.open(device, plan=plan)
    for sequence in range(4):
        message = device.message(study, plan, sequence=sequence)
        assert (await desk.put(study, *message)).status_code == 201
        assert (await desk.put(study, *message)).status_code == 200
        server.clock.seconds -= 86_400.0
        await server.services.merger.merge_all()
    seen: list[int] = []
    page: str | None = None
    while True:
        options = {"limit": 1} | ({"page": page} if page else {})
        listed = await desk.read(f"/v1/studies/{study.hex()}/sketches", params=options)
        seen += [item["sequence"] for item in listed["items"]]
        page = listed["next_page"]
        if page is None:
            break
    assert sorted(seen) == [0, 1, 2, 3]
    assert await server.services.merger.check(study) == []


def test_every_switch_of_a_request_is_true_or_false_and_nothing_like_it() -> None:
    """Pydantic would read 0 and "no" as false."""
    names = [each.name for each in iter_modules(objects.__path__, f"{objects.__name__}.")]
    requests = {
        each
        for name in names
        for each in vars(import_module(name)).values()
        if getattr(each, "__pydantic_config__", {}).get("extra") == "forbid"
    }
    lax = [
        (each.__name__, name)
        for each in requests
        for name, hint in read_hints(each).items()
        if get_args(hint)[:1] == (bool,) or hint is bool
        for value in (0, 1, "no")
        if TypeAdapter(hint).validator.isinstance_python(value)
    ]
    assert lax == []


async def test_a_switch_that_is_no_switch_rotates_no_key(desk: Desk) -> None:
    before = (await desk.http.get("/v1/identity")).json()
    answer = await desk.operate("POST", "/v1/identity/rotate", {"endorse": 0})
    assert_problem(answer, "request-invalid", 422, "endorse")
    assert (await desk.http.get("/v1/identity")).json() == before


@pytest.mark.parametrize(
    ("body", "name", "fix"),
    [
        ({"k": 5}, "k", "use: snapshot_id, selection, n_clusters, "),
        ({"n_cluster": 5}, "n_cluster", "did you mean n_clusters?"),
        ({"n_clusters": 5, "sed": 1}, "sed", "did you mean seed?"),
    ],
)
async def test_a_member_that_is_unknown_is_named_before_one_that_is_missing(
    desk: Desk, body: dict[str, int], name: str, fix: str
) -> None:
    answer = await desk.post(f"/v1/studies/{'ab' * 32}/decodes", body)
    assert_problem(answer, "request-invalid", 422, name)
    assert answer.json()["rule"] == "is unknown"
    assert answer.json()["fix"].startswith(fix)


async def test_a_member_that_an_analysis_of_its_kind_has_not_is_named(desk: Desk) -> None:
    study = await desk.publish(make_plan())
    body = {"kind": "groups", "n_cluster": 5}
    answer = await desk.post(f"/v1/studies/{study.hex()}/analyses", body)
    assert_problem(answer, "request-invalid", 422, "n_cluster")
    assert answer.json()["fix"] == "did you mean n_clusters?"
