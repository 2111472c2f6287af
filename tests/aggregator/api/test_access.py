import pytest

from sfumato.shared.plan import plan_to_json
from tests.aggregator.fleet import Desk, assert_problem, make_plan
from tests.aggregator.serving import Server

pytestmark = pytest.mark.anyio

STUDY = "ab" * 32
KEY = "ab" * 8
OPERATOR_CALLS = [
    ("POST", "/v1/studies"),
    ("PATCH", f"/v1/studies/{STUDY}"),
    ("DELETE", f"/v1/studies/{STUDY}"),
    ("POST", f"/v1/studies/{STUDY}/tokens"),
    ("GET", f"/v1/studies/{STUDY}/tokens"),
    ("DELETE", f"/v1/tokens/{STUDY}"),
    ("POST", "/v1/keys"),
    ("GET", "/v1/keys"),
    ("DELETE", f"/v1/keys/{KEY}"),
    ("GET", "/v1/audit"),
    ("POST", "/v1/identity/rotate"),
    ("POST", f"/v1/studies/{STUDY}/alarms"),
    ("GET", f"/v1/studies/{STUDY}/alarms"),
    ("GET", f"/v1/alarms/{STUDY}"),
    ("PATCH", f"/v1/alarms/{STUDY}"),
    ("DELETE", f"/v1/alarms/{STUDY}"),
    ("POST", f"/v1/alarms/{STUDY}/test"),
    ("GET", f"/v1/alarms/{STUDY}/deliveries"),
    ("POST", f"/v1/studies/{STUDY}/batches/{STUDY}/open"),
    ("POST", f"/v1/studies/{STUDY}/batches/{STUDY}/admit"),
    ("POST", f"/v1/studies/{STUDY}/batches/{STUDY}/set-aside"),
    ("POST", f"/v1/studies/{STUDY}/batches/{STUDY}/give-up"),
    ("POST", f"/v1/devices/{STUDY}/exclude"),
    ("POST", f"/v1/devices/{STUDY}/revoke"),
]
ANALYST_CALLS = [
    ("GET", "/v1/studies"),
    ("GET", f"/v1/studies/{STUDY}"),
    ("POST", "/v1/advice"),
    ("GET", "/v1/references"),
    ("GET", f"/v1/studies/{STUDY}/devices"),
    ("GET", "/v1/devices"),
    ("GET", f"/v1/devices/{STUDY}"),
    ("GET", f"/v1/studies/{STUDY}/sketches"),
    ("GET", f"/v1/studies/{STUDY}/refusals"),
    ("GET", f"/v1/studies/{STUDY}/batches"),
    ("GET", f"/v1/studies/{STUDY}/batches/suspects"),
    ("GET", f"/v1/studies/{STUDY}/batches/{STUDY}"),
    ("GET", f"/v1/studies/{STUDY}/utility"),
    ("POST", f"/v1/studies/{STUDY}/snapshots"),
    ("GET", f"/v1/snapshots/{STUDY}"),
    ("GET", f"/v1/snapshots/{STUDY}/histogram"),
    ("GET", f"/v1/snapshots/{STUDY}/moments"),
    ("GET", f"/v1/snapshots/{STUDY}/calibration"),
    ("POST", f"/v1/studies/{STUDY}/decodes"),
    ("GET", f"/v1/decodes/{STUDY}"),
    ("GET", f"/v1/decodes/{STUDY}/events"),
    ("GET", f"/v1/studies/{STUDY}/decodes"),
    ("DELETE", f"/v1/decodes/{STUDY}"),
    ("POST", f"/v1/decodes/{STUDY}/questions"),
    ("POST", f"/v1/decodes/{STUDY}/records"),
    ("POST", f"/v1/studies/{STUDY}/schedules"),
    ("GET", f"/v1/studies/{STUDY}/schedules"),
    ("GET", f"/v1/schedules/{STUDY}"),
    ("PATCH", f"/v1/schedules/{STUDY}"),
    ("DELETE", f"/v1/schedules/{STUDY}"),
    ("POST", f"/v1/studies/{STUDY}/published"),
    ("GET", f"/v1/studies/{STUDY}/publications"),
    ("GET", f"/v1/studies/{STUDY}/published"),
    ("POST", f"/v1/studies/{STUDY}/analyses"),
    ("POST", f"/v1/studies/{STUDY}/accepted-changes"),
    ("GET", f"/v1/studies/{STUDY}/accepted-changes"),
    ("DELETE", f"/v1/studies/{STUDY}/accepted-changes/5"),
    ("GET", f"/v1/studies/{STUDY}/analyses"),
    ("GET", f"/v1/analyses/{STUDY}"),
    ("GET", f"/v1/analyses/{STUDY}/events"),
    ("DELETE", f"/v1/analyses/{STUDY}"),
]
PUBLIC_CALLS = [
    ("GET", f"/v1/studies/{STUDY}/privacy"),
    ("GET", f"/v1/studies/{STUDY}/plan"),
    ("GET", f"/v1/studies/{STUDY}/frequencies"),
    ("POST", "/v1/enrolments"),
    ("GET", "/v1/devices/me"),
    ("PUT", "/v1/devices/me/heartbeat"),
    ("POST", "/v1/devices/me/keys"),
    ("PUT", f"/v1/studies/{STUDY}/sketches/{STUDY}"),
    ("GET", "/v1/identity"),
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/metrics"),
    ("GET", "/problems"),
    ("GET", "/problems/{slug}"),
]


def body_of(method: str) -> dict[str, str] | None:
    return {} if method in ("POST", "PATCH") else None


@pytest.mark.parametrize(("method", "url"), OPERATOR_CALLS + ANALYST_CALLS)
@pytest.mark.parametrize("header", [None, "Bearer sfk_unknown", "Basic b3A6", "Bearer"])
async def test_a_call_without_a_known_key_is_refused(
    desk: Desk, method: str, url: str, header: str | None
) -> None:
    headers = {"Authorization": header} if header else {}
    answer = await desk.http.request(method, url, headers=headers, json=body_of(method))
    assert_problem(answer, "access-denied", 401, "Authorization")
    assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize(("method", "url"), OPERATOR_CALLS)
async def test_an_analyst_may_not_do_what_an_operator_may(
    desk: Desk, method: str, url: str
) -> None:
    answer = await desk.http.request(method, url, headers=desk.analyst, json=body_of(method))
    assert_problem(answer, "forbidden", 403, "Authorization")


async def test_an_analyst_creates_no_study(desk: Desk) -> None:
    body = {"name": "pumps", "plan": plan_to_json(make_plan())}
    answer = await desk.post("/v1/studies", body)
    assert_problem(answer, "forbidden", 403, "Authorization")
    assert (await desk.read("/v1/studies"))["items"] == []


@pytest.mark.parametrize(("method", "url"), ANALYST_CALLS)
async def test_an_operator_may_do_what_an_analyst_may(desk: Desk, method: str, url: str) -> None:
    answer = await desk.http.request(method, url, headers=desk.operator, json=body_of(method))
    assert answer.status_code in (200, 404, 422)


async def test_a_revoked_key_is_refused_at_once(server: Server) -> None:
    secret, key = await server.services.keys.create(name="leaver", scope="analyst")
    headers = {"Authorization": f"Bearer {secret}"}
    assert (await server.desk.http.get("/v1/studies", headers=headers)).status_code == 200
    await server.services.keys.revoke(key.key_id)
    answer = await server.desk.http.get("/v1/studies", headers=headers)
    assert_problem(answer, "access-denied", 401, "Authorization")


async def test_every_call_of_the_interface_is_in_these_lists(desk: Desk) -> None:
    described = (await desk.http.get("/openapi.json")).json()["paths"]
    calls = {
        (method.upper(), path.replace("{study}", STUDY))
        for path in described
        for method in described[path]
    }
    listed = {(method, url) for method, url in OPERATOR_CALLS + ANALYST_CALLS + PUBLIC_CALLS}
    named = {
        (
            method,
            url.replace("{sketch}", STUDY)
            .replace("{snapshot}", STUDY)
            .replace("{decode}", STUDY)
            .replace("{analysis}", STUDY)
            .replace("{device}", STUDY)
            .replace("{schedule}", STUDY)
            .replace("{batch}", STUDY)
            .replace("{alarm}", STUDY)
            .replace("{token}", STUDY)
            .replace("{first_slot}", "5")
            .replace("{key}", KEY),
        )
        for method, url in calls
    }
    assert named == listed


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
            if kind == "text/html" or "example" in media or "example" in schemas.get(name, {}):
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
