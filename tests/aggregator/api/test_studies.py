from typing import Any

import pytest

from sfumato.shared.plan import compute_plan_digest, decode_plan, encode_plan, plan_to_json
from sfumato.shared.wire import compute_study_id
from sfumato.shared.wire.objects.declaration import to_rfc3339
from tests.aggregator.fleet import Desk, Device, assert_problem, make_plan
from tests.aggregator.serving import Server

pytestmark = pytest.mark.anyio


async def test_a_study_is_created_once_and_the_same_again_is_the_same(desk: Desk) -> None:
    plan = make_plan()
    body = {"name": "pumps", "plan": plan_to_json(plan)}
    first = await desk.operate("POST", "/v1/studies", body)
    second = await desk.operate("POST", "/v1/studies", body)
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json() == second.json()
    study = first.json()
    assert study["study_id"] == compute_study_id("pumps", plan).hex()
    assert study["plan_digest"] == compute_plan_digest(plan).hex()
    assert (study["state"], study["n_sketches"], study["n_devices"]) == ("open", 0, 0)
    assert first.headers["location"] == f"/v1/studies/{study['study_id']}"


async def test_a_plan_is_published_under_another_name_only_if_that_is_meant(desk: Desk) -> None:
    plan = make_plan()
    first = (await desk.publish(plan, "pumps")).hex()
    body: dict[str, Any] = {"name": "pumps, twice", "plan": plan_to_json(plan)}
    refused = await desk.operate("POST", "/v1/studies", body)
    assert_problem(refused, "store-conflict", 409, "plan")
    assert first in refused.json()["rule"]
    assert "'pumps'" in refused.json()["rule"]
    assert "allow_same_plan" in refused.json()["fix"]
    meant = body | {"allow_same_plan": True}
    made = await desk.operate("POST", "/v1/studies", meant)
    assert made.status_code == 201
    # There it is, so asking for it again is no other study.
    again = await desk.operate("POST", "/v1/studies", body)
    assert (again.status_code, again.json()) == (200, made.json())
    for name, study in (("pumps", first), ("pumps, twice", made.json()["study_id"])):
        await desk.withdraw(bytes.fromhex(study), name)
    third = {"name": "pumps, later", "plan": plan_to_json(plan)}
    answer = await desk.operate("POST", "/v1/studies", third)
    assert answer.status_code == 201


@pytest.mark.parametrize(
    ("path", "field", "known"),
    [
        ("/v1/studies/pumps/plan", "study", "sfumato study list"),
        ("/v1/studies/{short}/plan", "study", "send the whole id"),
        ("/v1/studies/{upper}/plan", "study", "64 lower-case hexadecimal digits"),
        ("/v1/devices/{upper}", "device", "sfumato device list"),
        ("/v1/devices/12345", "device", "its first 6 or more"),
        ("/v1/keys/me", "key", "sfumato key list"),
        ("/v1/snapshots/latest", "snapshot", "Copy it from a list"),
    ],
)
async def test_what_is_no_id_is_refused_in_words(
    desk: Desk, path: str, field: str, known: str
) -> None:
    study = (await desk.publish(make_plan())).hex()
    url = path.format(short=study[:8], upper=study.upper())
    method = "DELETE" if field == "key" else "GET"
    answer = await desk.http.request(method, url, headers=desk.operator)
    assert_problem(answer, "request-invalid", 422, field)
    assert known in answer.json()["detail"]
    assert "[0-9a-f]" not in answer.text


async def test_studies_are_listed_in_pages(desk: Desk) -> None:
    names = [f"study {i}" for i in range(5)]
    for name in names:
        await desk.publish(make_plan(), name=name)
    first = await desk.read("/v1/studies", params={"limit": 3})
    rest = await desk.read("/v1/studies", params={"limit": 3, "page": first["next_page"]})
    found = [item["name"] for item in first["items"] + rest["items"]]
    assert sorted(found) == names
    assert rest["next_page"] is None


@pytest.mark.parametrize(
    ("changes", "slug", "field"),
    [
        ({"dimensions": [("lower", 10.0), ("upper", -10.0)]}, "plan-invalid", None),
        ({"n_frequencies": 0}, "plan-invalid", "n_frequencies"),
        ({"measurements_per_record": 7}, "plan-invalid", "measurements_per_record"),
        ({"release": [("epsilon", "0")]}, "plan-invalid", "epsilon"),
        ({"release": [("epsilon", "-1/2")]}, "plan-invalid", "epsilon"),
        ({"release": [("epsilon", 0.5)]}, "plan-invalid", "release.epsilon"),
        ({"release": [("scale", "1")]}, "plan-mismatch", "release.scale"),
        ({"surprise": 1}, "plan-invalid", "surprise"),
        ({"format_version": 2}, "unsupported-version", "format_version"),
    ],
)
async def test_a_plan_that_breaks_a_rule_is_refused_by_field(
    desk: Desk, changes: dict[str, Any], slug: str, field: str | None
) -> None:
    document = plan_to_json(make_plan())
    for name, value in changes.items():
        if isinstance(value, list):
            part = document[name][0] if name == "dimensions" else document[name]
            part.update(value)
        else:
            document[name] = value
    body = {"name": "pumps", "plan": document}
    answer = await desk.operate("POST", "/v1/studies", body)
    assert_problem(answer, slug, 422, field or answer.json()["field"])
    if field is None:
        assert answer.json()["field"].startswith("dimensions")
    assert (await desk.read("/v1/studies"))["items"] == []


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"plan": {}}, "name"),
        ({"name": "", "plan": {}}, "name"),
        ({"name": "   ", "plan": {}}, "name"),
        ({"name": "x" * 201, "plan": {}}, "name"),
        ({"name": "pumps"}, "plan"),
        ({"name": "pumps", "plan": []}, "plan"),
        ({"name": "pumps", "plan": {}, "extra": 1}, "extra"),
    ],
)
async def test_a_request_that_breaks_a_rule_is_refused_by_field(
    desk: Desk, body: dict[str, Any], field: str
) -> None:
    answer = await desk.operate("POST", "/v1/studies", body)
    assert_problem(answer, "request-invalid", 422, field)


async def test_a_body_that_is_not_json_is_refused(desk: Desk) -> None:
    headers = desk.operator | {"Content-Type": "application/json"}
    answer = await desk.http.post("/v1/studies", content=b'{"name": ', headers=headers)
    assert_problem(answer, "request-invalid", 422, "body")


async def test_anyone_reads_the_plan_as_json_or_as_the_hashed_bytes(desk: Desk) -> None:
    plan = make_plan()
    study = await desk.publish(plan)
    url = f"/v1/studies/{study.hex()}/plan"
    first = await desk.http.get(url)
    box = {"pressure": [2.0, 3.0]}
    await desk.change(study, None, search_box=box)
    as_json = (await desk.http.get(url, headers={"If-None-Match": first.headers["ETag"]})).json()
    assert compute_study_id(as_json["name"], plan) == study
    assert as_json == {
        "name": as_json["name"],
        "plan": plan_to_json(plan),
        "plan_digest": compute_plan_digest(plan).hex(),
        "state": "open",
        "search_box": box,
    }
    as_bytes = await desk.http.get(url, headers={"Accept": "application/cbor"})
    assert as_bytes.headers["content-type"] == "application/cbor"
    assert as_bytes.content == encode_plan(plan)
    assert decode_plan(as_bytes.content) == plan


async def test_anyone_reads_the_frequencies_that_follow_from_the_plan(desk: Desk) -> None:
    plan = make_plan()
    url = f"/v1/studies/{(await desk.publish(plan)).hex()}/frequencies"
    answer = await desk.http.get(url)
    found = answer.json()
    assert found["dimensions"] == ["pressure", "flow"]
    assert found["turns"] == plan.frequencies.turns.tolist()
    assert found["angular"] == plan.frequencies.to_angular(plan.quantiser).tolist()
    assert found["digest"] == plan.frequencies.digest.hex()
    known = {"If-None-Match": answer.headers["etag"]}
    assert (await desk.http.get(url, headers=known)).status_code == 304


async def test_an_unknown_study_is_not_found_anywhere(desk: Desk) -> None:
    unknown = "ab" * 32
    for path in (
        "",
        "/plan",
        "/frequencies",
        "/devices",
        "/refusals",
        "/sketches",
        "/privacy",
        "/utility",
    ):
        answer = await desk.operate("GET", f"/v1/studies/{unknown}{path}")
        assert_problem(answer, "not-found", 404, "study")
    for path, body in (
        ("tokens", {}),
        ("snapshots", {}),
        ("decodes", {"n_clusters": 2}),
    ):
        url = f"/v1/studies/{unknown}/{path}"
        answer = await desk.operate("POST", url, body)
        assert_problem(answer, "not-found", 404, "study")


async def test_an_identity_that_is_none_is_refused(desk: Desk) -> None:
    answer = await desk.operate("GET", "/v1/studies/nonsense/plan")
    assert_problem(answer, "request-invalid", 422, "study")


async def test_an_etag_saves_what_was_not_modified(desk: Desk) -> None:
    study, url = await desk.publish(make_plan()), "/v1/studies/"
    url += study.hex()
    etag = (await desk.http.get(url, headers=desk.analyst)).headers["etag"]
    headers = desk.analyst | {"If-None-Match": etag}
    assert (await desk.http.get(url, headers=headers)).status_code == 304
    await desk.enrol(study, Device(1))
    changed = await desk.http.get(url, headers=headers)
    assert changed.status_code == 200
    assert changed.json()["n_devices"] == 1


async def test_a_study_closes_only_as_it_was_last_read(desk: Desk) -> None:
    study = await desk.publish(make_plan())
    url = f"/v1/studies/{study.hex()}"
    etag = (await desk.http.get(url, headers=desk.analyst)).headers["etag"]
    # What arrives meanwhile does not make the life cycle stale.
    await desk.enrol(study, Device(1))
    await desk.put(study, *Device(1).message(study, make_plan()))
    closed = await desk.change(study, "closed", if_match=etag)
    assert (closed.status_code, closed.json()["state"]) == (200, "closed")
    for read_before in (etag, '"never given"'):
        stale = await desk.change(study, "open", if_match=read_before)
        assert_problem(stale, "precondition-failed", 412, "If-Match")
    assert (await desk.read(url))["state"] == "closed"
    again = await desk.change(study, "open", if_match=closed.headers["etag"])
    assert again.json()["state"] == "open"
    assert again.headers["etag"] != etag


async def test_a_study_is_changed_only_by_who_says_what_was_read(desk: Desk) -> None:
    study = await desk.publish(make_plan())
    url = f"/v1/studies/{study.hex()}"
    answer = await desk.operate("PATCH", url, {"state": "closed"})
    assert_problem(answer, "precondition-required", 428, "If-Match")
    assert (await desk.read(url))["state"] == "open"
    assert (await desk.change(study, "closed", if_match="*")).json()["state"] == "closed"


async def test_privacy_is_said_exactly_and_in_words(desk: Desk) -> None:
    study = await desk.publish(make_plan())
    privacy = await desk.read(f"/v1/studies/{study.hex()}/privacy")
    assert (privacy["epsilon"], privacy["delta"]) == ("10", "0")
    assert privacy["scale"] == str(make_plan().release.scale)
    assert privacy["max_records_per_person"] == "unknown"
    assert "replace-one" in privacy["statement"]


async def test_a_study_without_sketches_has_no_utility(desk: Desk) -> None:
    study = await desk.publish(make_plan())
    assert await desk.read(f"/v1/studies/{study.hex()}/utility") == {
        "n_sketches": 0,
        "n_records": 0,
        "n_records_error": 0.0,
        "snr": 0.0,
        "signal_energy": 0.0,
        "noise_energy": None,
        "n_covered": 0,
        "band": None,
    }


async def test_a_study_tells_when_its_latest_sketch_came(server: Server) -> None:
    desk, plan = server.desk, make_plan()
    study = await desk.open(Device(1), plan=plan)
    assert (await desk.read(f"/v1/studies/{study.hex()}"))["last_arrival"] is None
    for sequence in range(2):
        server.clock.seconds += 60
        await desk.send(study, Device(1), plan, sequence=sequence)
    told = to_rfc3339(server.clock.seconds)
    assert (await desk.read(f"/v1/studies/{study.hex()}"))["last_arrival"] == told
    (listed,) = (await desk.read("/v1/studies"))["items"]
    assert listed["last_arrival"] == told
