import asyncio
import hashlib
import re
from typing import Any

import httpx
import pytest

from sfumato.shared.wire import decode_enrolment_code
from tests.aggregator.fleet import Desk, Device, assert_problem, make_plan
from tests.aggregator.serving import Server

pytestmark = pytest.mark.anyio


def identity_of(token: str) -> str:
    """Return what the list calls a token that somebody has found."""
    return hashlib.sha256(token.encode()).hexdigest()


async def enrol(desk: Desk, body: dict[str, Any]) -> httpx.Response:
    return await desk.http.post("/v1/enrolments", json=body)


async def list_tokens(desk: Desk, study: bytes, **params: Any) -> dict[str, Any]:
    url = f"/v1/studies/{study.hex()}/tokens"
    answer = await desk.http.get(url, headers=desk.operator, params=params)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def revoke(desk: Desk, token: str) -> httpx.Response:
    return await desk.operate("DELETE", f"/v1/tokens/{identity_of(token)}")


async def test_tokens_are_listed_with_what_is_left_and_without_the_secret(server: Server) -> None:
    desk = server.desk
    study = await desk.publish(make_plan())
    token = await desk.make_token(study, max_uses=3, labels={"site": "north"})
    await enrol(desk, Device(1).enrolment(token, study))
    listed = await list_tokens(desk, study)
    assert listed == {
        "items": [
            {
                "token_id": identity_of(token),
                "study_id": study.hex(),
                "state": "usable",
                "created": "2026-03-01T12:00:00.000000Z",
                "expires": "2026-03-08T12:00:00.000000Z",
                "max_uses": 3,
                "uses_left": 2,
                "labels": {"site": "north"},
                "revoked": None,
            }
        ],
        "next_page": None,
    }
    assert token not in str(listed)


async def test_a_new_token_is_answered_with_the_identity_that_the_list_has(desk: Desk) -> None:
    study = await desk.publish(make_plan())
    url = f"/v1/studies/{study.hex()}/tokens"
    made = (await desk.operate("POST", url, {})).json()
    token = made.pop("token")
    assert [made.pop(name) for name in ("code", "qr", "page")] == [None] * 3
    assert made["token_id"] == identity_of(token)
    assert (await list_tokens(desk, study))["items"] == [made]


async def test_a_token_with_an_address_comes_as_a_code_that_devices_read(desk: Desk) -> None:
    study = await desk.publish(make_plan())
    url = f"/v1/studies/{study.hex()}/tokens"
    body = {"server": "https://sketches.example.org/"}
    made = (await desk.operate("POST", url, body)).json()
    code = decode_enrolment_code(made["code"])
    assert (code.server, code.study, code.token) == (
        "https://sketches.example.org",
        study,
        made["token"],
    )
    # About half of the modules of a QR code are dark.
    steps = re.findall(r"[Mm](-?[\d.]+) (-?[\d.]+)|h(\d+)", made["qr"]["path"])
    dark = sum(int(width) for _, _, width in steps if width)
    assert 0.4 < dark / made["qr"]["size"] ** 2 < 0.6


@pytest.mark.parametrize("address", ["sketches.example.org", "ftp://x", "https://x y", "https://"])
async def test_an_address_that_no_device_reaches_makes_no_token(desk: Desk, address: str) -> None:
    study = await desk.publish(make_plan())
    url = f"/v1/studies/{study.hex()}/tokens"
    refused = await desk.operate("POST", url, {"server": address})
    assert_problem(refused, "request-invalid", 422, "server")
    assert "must be an address" in refused.json()["rule"]
    assert (await list_tokens(desk, study))["items"] == []


async def test_the_list_says_why_a_token_is_of_no_use(server: Server) -> None:
    desk = server.desk
    study = await desk.publish(make_plan())
    made: dict[str, str] = {}
    for state in ("expired", "used-up", "revoked", "usable"):
        if state == "usable":
            server.clock.seconds += server.settings.token_days * 86400
        made[state] = await desk.make_token(study)
        if state == "used-up":
            await enrol(desk, Device(1).enrolment(made[state], study))
        if state == "revoked":
            await revoke(desk, made[state])
    listed = {item["token_id"]: item["state"] for item in (await list_tokens(desk, study))["items"]}
    assert listed == {identity_of(token): state for state, token in made.items()}


async def test_tokens_are_listed_in_pages_in_the_order_of_creation(server: Server) -> None:
    desk = server.desk
    study = await desk.publish(make_plan())
    made: list[str] = []
    for _ in range(5):
        made.append(identity_of(await desk.make_token(study)))
        server.clock.seconds += 1
    await desk.make_token(await desk.publish(make_plan(), name="other"))
    seen: list[str] = []
    page: dict[str, Any] = {}
    while not seen or page:
        answer = await list_tokens(desk, study, limit=2, **page)
        seen += [item["token_id"] for item in answer["items"]]
        page = {"page": answer["next_page"]} if answer["next_page"] else {}
    assert seen == made


async def test_a_revoked_token_enrols_nobody_more_and_says_why(server: Server) -> None:
    desk = server.desk
    study = await desk.publish(make_plan())
    token = await desk.make_token(study, max_uses=5)
    assert (await enrol(desk, Device(1).enrolment(token, study))).status_code == 201
    answer = await revoke(desk, token)
    assert (answer.status_code, answer.json()["state"]) == (200, "revoked")
    refused = await enrol(desk, Device(2).enrolment(token, study))
    assert_problem(refused, "access-denied", 401, "token")
    assert "was revoked" in refused.json()["detail"]
    assert "another token" in refused.text
    (item,) = (await list_tokens(desk, study))["items"]
    assert (item["state"], item["uses_left"]) == ("revoked", 4)


async def test_a_refused_enrolment_says_what_became_of_its_token(server: Server) -> None:
    desk = server.desk
    study = await desk.publish(make_plan())
    used, left = await desk.make_token(study), await desk.make_token(study)
    await enrol(desk, Device(1).enrolment(used, study))
    server.clock.seconds += server.settings.token_days * 86400
    for token, reason in ((used, "is used up"), (left, "has expired")):
        refused = await enrol(desk, Device(2).enrolment(token, study))
        assert_problem(refused, "access-denied", 401, "token")
        assert reason in refused.json()["detail"]


async def test_a_device_whose_answer_was_lost_gets_it_again_though_its_token_was_revoked(
    desk: Desk,
) -> None:
    study = await desk.publish(make_plan())
    token = await desk.make_token(study, max_uses=5)
    body = Device(1).enrolment(token, study)
    first = await enrol(desk, body)
    await revoke(desk, token)
    again = await enrol(desk, body)
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json() == first.json()


async def test_a_token_that_is_revoked_twice_keeps_its_time_and_one_entry(server: Server) -> None:
    desk = server.desk
    study = await desk.publish(make_plan())
    token = await desk.make_token(study)
    first = await revoke(desk, token)
    server.clock.seconds += 60
    second = await revoke(desk, token)
    assert (first.status_code, second.status_code) == (200, 200)
    assert second.json() == first.json()
    assert first.json()["revoked"] == "2026-03-01T12:00:00.000000Z"
    entries = (await desk.operate("GET", "/v1/audit")).json()["items"]
    (entry,) = [entry for entry in entries if entry["action"] == "token.revoke"]
    assert (entry["target"], entry["details"]) == (identity_of(token), {"study": study.hex()})


async def test_after_a_token_is_revoked_none_of_those_on_their_way_gets_in(desk: Desk) -> None:
    study = await desk.publish(make_plan())
    token = await desk.make_token(study, max_uses=9)
    bodies = [Device(i).enrolment(token, study) for i in range(6)]
    revoked, *answers = await asyncio.gather(
        revoke(desk, token), *(enrol(desk, body) for body in bodies)
    )
    n_used = sum(answer.status_code == 201 for answer in answers)
    assert {answer.status_code for answer in answers} <= {201, 401}
    (item,) = (await list_tokens(desk, study))["items"]
    # What the revocation answered is final.
    assert revoked.json() == item
    assert item["uses_left"] == 9 - n_used


async def test_a_token_that_is_not_there_cannot_be_revoked(desk: Desk) -> None:
    assert_problem(await revoke(desk, "sfe_nobody"), "not-found", 404, "token")


async def test_the_tokens_of_a_study_that_is_not_there_cannot_be_listed(desk: Desk) -> None:
    url = f"/v1/studies/{'ab' * 32}/tokens"
    answer = await desk.operate("GET", url)
    assert_problem(answer, "not-found", 404, "study")
