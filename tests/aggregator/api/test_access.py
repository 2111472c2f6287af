import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator

import httpx
import pytest

from sfumato.shared.plan import plan_to_json
from sfumato.shared.plan.statement import list_public_facts
from sfumato.shared.wire import PayloadForm
from tests.aggregator.fleet import Desk, Device, assert_problem, make_plan
from tests.aggregator.serving import Server
from tests.walking import Walk

pytestmark = pytest.mark.anyio

STUDY = "ab" * 32
CALLS = {
    "operator": """
        POST /v1/studies
        PATCH DELETE /v1/studies/{study}
        PUT /v1/studies/{study}/campaign
        POST /v1/studies/{study}/campaign/next
        POST GET /v1/studies/{study}/tokens
        DELETE /v1/tokens/{token}
        POST GET /v1/keys
        DELETE /v1/keys/{key}
        GET /v1/audit
        POST /v1/identity/rotate
        POST GET /v1/studies/{study}/alarms
        GET PATCH DELETE /v1/alarms/{alarm}
        POST /v1/alarms/{alarm}/test
        GET /v1/alarms/{alarm}/deliveries
        POST /v1/studies/{study}/batches/{batch}/open
        POST /v1/studies/{study}/batches/{batch}/admit
        POST /v1/studies/{study}/batches/{batch}/set-aside
        POST /v1/studies/{study}/batches/{batch}/give-up
        POST /v1/devices/{device}/exclude
        POST /v1/devices/{device}/revoke
        GET /metrics
    """,
    "analyst": """
        POST /v1/advice
        GET /v1/studies/{study}/devices
        GET /v1/devices
        GET /v1/devices/{device}
        GET /v1/studies/{study}/sketches
        GET /v1/studies/{study}/batches/suspects
        POST /v1/studies/{study}/snapshots
        POST /v1/studies/{study}/decodes
        DELETE /v1/decodes/{decode}
        POST /v1/decodes/{decode}/look
        POST /v1/studies/{study}/schedules
        PATCH DELETE /v1/schedules/{schedule}
        POST /v1/studies/{study}/published
        POST /v1/studies/{study}/analyses
        POST /v1/studies/{study}/accepted-changes
        DELETE /v1/studies/{study}/accepted-changes/{first_slot}
        DELETE /v1/analyses/{analysis}
    """,
    "viewer": """
        GET /v1/studies
        GET /v1/studies/{study}
        GET /v1/references
        GET /v1/keys/own
        DELETE /v1/sign-in
        GET /v1/studies/{study}/refusals
        GET /v1/studies/{study}/batches
        GET /v1/studies/{study}/batches/{batch}
        GET /v1/studies/{study}/utility
        GET /v1/studies/{study}/campaign
        GET /v1/snapshots/{snapshot}
        GET /v1/snapshots/{snapshot}/histogram
        GET /v1/snapshots/{snapshot}/moments
        GET /v1/snapshots/{snapshot}/clusters
        GET /v1/snapshots/{snapshot}/calibration
        GET /v1/studies/{study}/decodes
        GET /v1/decodes/{decode}
        GET /v1/decodes/{decode}/events
        POST /v1/decodes/{decode}/questions
        POST /v1/decodes/{decode}/records
        GET /v1/studies/{study}/schedules
        GET /v1/schedules/{schedule}
        GET /v1/studies/{study}/published
        GET /v1/studies/{study}/publications
        GET /v1/studies/{study}/analyses
        GET /v1/studies/{study}/accepted-changes
        GET /v1/analyses/{analysis}
        GET /v1/analyses/{analysis}/events
    """,
    "none": """
        GET /v1/studies/{study}/privacy
        GET /v1/studies/{study}/plan
        GET /v1/studies/{study}/frequencies
        POST /v1/enrolments
        GET /v1/devices/me
        PUT /v1/devices/me/heartbeat
        POST /v1/devices/me/keys
        PUT /v1/studies/{study}/sketches/{sketch}
        GET /v1/identity
        GET POST /v1/sign-in
        GET /healthz
        GET /readyz
        GET /problems
        GET /problems/{slug}
    """,
}
"""By the least scope that may make them; devices and the public need no key."""


def list_calls(scope: str) -> Iterator[tuple[str, str]]:
    """Yield method and path of each call of a scope."""
    for line in CALLS[scope].split("\n"):
        *methods, path = line.split() or [""]
        yield from ((method, path) for method in methods)


async def request(desk: Desk, method: str, path: str, headers: dict[str, str]) -> httpx.Response:
    """Make a call about things that are not there."""
    places = {"first_slot": "5", "key": "ab" * 8}
    url = re.sub(r"\{(\w+)\}", lambda found: places.get(found[1], STUDY), path)
    body: dict[str, str] | None = {} if method in ("POST", "PATCH", "PUT") else None
    return await desk.http.request(method, url, headers=headers, json=body)


async def test_a_call_is_refused_without_a_known_key_of_its_scope(server: Server) -> None:
    desk = server.desk
    secret, _ = await server.services.keys.create(name="vi", scope="viewer")
    viewer = {"Authorization": f"Bearer {secret}"}
    unknown = (
        {},
        *({"Authorization": each} for each in ("Bearer sfk_unknown", "Basic b3A6", "Bearer")),
    )
    walk = [
        *(
            (call, headers, 401, "access-denied")
            for headers in unknown
            for scope in ("operator", "analyst", "viewer")
            for call in list_calls(scope)
        ),
        *((call, desk.analyst, 403, "forbidden") for call in list_calls("operator")),
        *(
            (call, viewer, 403, "forbidden")
            for scope in ("operator", "analyst")
            for call in list_calls(scope)
        ),
    ]
    wrong = []
    for (method, path), headers, status, slug in walk:
        answer = await request(desk, method, path, headers)
        try:
            assert_problem(answer, slug, status, "Authorization")
            assert status == 403 or answer.headers["www-authenticate"].startswith("Bearer")
        except AssertionError:
            wrong.append((method, path, headers, answer.status_code, answer.text))
    assert wrong == []


def list_keys(document: object) -> set[str]:
    """Return the keys of all objects in a document of JSON."""
    if isinstance(document, dict):
        return set(document).union(*map(list_keys, document.values()))
    return set().union(*map(list_keys, document)) if isinstance(document, list) else set()


async def test_scopes_see_the_public_facts_that_name_them_and_nobody_sees_a_payload(
    server: Server,
) -> None:
    desk, device, plan = server.desk, Device(1), make_plan()
    study = await desk.open(device, plan=plan)
    sums = device.release(plan, noise_seed=1)
    await desk.send(study, device, plan, sums)
    payload = PayloadForm.of(plan).encode(sums)
    spelt = (payload, payload.hex().encode(), b64encode(payload), urlsafe_b64encode(payload))
    refusal = {"study": study.hex(), "rule": "policy.max_epsilon", "detail": "4 is allowed"}
    said = {"agent": "0.1", "engine": "avx2", "waiting_sketches": 2, "plan_refusals": [refusal]}
    content = json.dumps(said).encode()
    path = "/v1/devices/me/heartbeat"
    headers = device.sign("PUT", path, now=server.clock.now(), body=content)
    headers |= {"Content-Type": "application/json"}
    assert (await desk.http.put(path, content=content, headers=headers)).status_code == 200
    made = await desk.post(f"/v1/studies/{study.hex()}/snapshots", {})
    excluded = {"reason": "broken"}
    await desk.operate("POST", f"/v1/devices/{device.device_id.hex()}/exclude", excluded)
    places = {
        "study": study.hex(),
        "device": device.device_id.hex(),
        "snapshot": made.json()["snapshot_id"],
    }
    seen: dict[str, set[str]] = {"viewer": set(), "analyst": set(), "operator": set()}
    secret, _ = await server.services.keys.create(name="vi", scope="viewer")
    calls: list[tuple[str, str]] = []
    for scope, credentials in (
        ("viewer", {"Authorization": f"Bearer {secret}"}),
        ("analyst", desk.analyst),
        ("operator", desk.operator),
    ):
        calls += list_calls(scope)
        for method, call in calls:
            if method != "GET" or set(re.findall(r"\{(\w+)\}", call)) - places.keys():
                continue
            answer = await desk.http.get(call.format(**places), headers=credentials)
            assert not any(each in answer.content for each in spelt), call
            assert scope != "viewer" or device.device_id.hex() not in answer.text, call
            if "json" in answer.headers["content-type"]:
                seen[scope] |= list_keys(answer.json())
    facts = list_public_facts(hides_presence=False, by_time=True)
    assert {"agent", "waiting_sketches", "plan_refusals"} <= seen["analyst"]
    with Walk() as walk:
        for fact in facts:
            with walk.cell(fact.what):
                if seen["analyst"] & set(fact.fields):
                    assert "analysts" in fact.seen_by
                elif seen["operator"] & set(fact.fields):
                    assert fact.seen_by == "operators"


async def test_an_analyst_creates_no_study(desk: Desk) -> None:
    body = {"name": "pumps", "plan": plan_to_json(make_plan())}
    answer = await desk.post("/v1/studies", body)
    assert_problem(answer, "forbidden", 403, "Authorization")
    assert (await desk.read("/v1/studies"))["items"] == []


async def test_a_key_is_checked_before_a_name_in_the_path_is_looked_up(desk: Desk) -> None:
    path = "/v1/studies/no such study?confirm=x"
    answer = await desk.http.delete(path, headers=desk.analyst)
    assert_problem(answer, "forbidden", 403, "Authorization")


async def test_a_scope_may_do_what_those_below_it_may(server: Server) -> None:
    desk = server.desk
    secret, _ = await server.services.keys.create(name="vi", scope="viewer")
    viewer, below = {"Authorization": f"Bearer {secret}"}, [*list_calls("viewer")]
    walk = [(viewer, call) for call in below]
    walk += [(key, call) for key in (desk.analyst, desk.operator) for call in below]
    walk += [(key, call) for key in (desk.analyst, desk.operator) for call in list_calls("analyst")]
    assert [
        (call, found.status_code)
        for key, call in walk
        if (found := await request(desk, *call, key)).status_code not in (200, 404, 422)
    ] == []


async def test_a_revoked_key_is_refused_at_once(server: Server) -> None:
    secret, key = await server.services.keys.create(name="leaver", scope="analyst")
    headers = {"Authorization": f"Bearer {secret}"}
    assert (await server.desk.http.get("/v1/studies", headers=headers)).status_code == 200
    await server.services.keys.revoke(key.key_id)
    answer = await server.desk.http.get("/v1/studies", headers=headers)
    assert_problem(answer, "access-denied", 401, "Authorization")


async def test_every_call_of_the_interface_has_a_scope(desk: Desk) -> None:
    described = (await desk.http.get("/openapi.json")).json()["paths"]
    calls = [(method.upper(), path) for path in described for method in described[path]]
    assert sorted(calls) == sorted(call for scope in CALLS for call in list_calls(scope))


async def test_every_call_is_described_with_an_example(desk: Desk) -> None:
    document = (await desk.http.get("/openapi.json")).json()
    schemas = document["components"]["schemas"]

    def has_example(content: dict[str, dict[str, object]]) -> bool:
        for kind, media in content.items():
            schema = media.get("schema", {})
            assert isinstance(schema, dict)
            name = str(schema.get("$ref", "")).rpartition("/")[2]
            either = [
                str(part["$ref"]).rpartition("/")[2]
                for part in schema.get("anyOf") or schema.get("oneOf") or ()
            ]
            if either and all("example" in schemas[part] for part in either):
                return True
            if kind == "text/html" or {"example", "examples"} & {*media, *schemas.get(name, {})}:
                return True
            items = schemas.get(name, {}).get("properties", {}).get("items", {}).get("items", {})
            if "example" in schemas.get(str(items.get("$ref", "")).rpartition("/")[2], {}):
                return True
        return False

    for path, calls in document["paths"].items():
        for method, call in calls.items():
            success = min(status for status in call["responses"] if status.startswith("2"))
            assert has_example(call["responses"][success]["content"]), (method, path)
            if "requestBody" in call:
                assert has_example(call["requestBody"]["content"]), (method, path)
