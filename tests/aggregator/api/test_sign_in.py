"""Sign-in at a provider that is no part of this project."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from sfumato.aggregator.resources.keys.record import KeyRecord
from sfumato.shared.errors import ConfigError
from tests.aggregator.fleet import assert_problem
from tests.aggregator.provider import AS_IT_IS, Provider
from tests.aggregator.serving import Server, SteppedClock, open_server
from tests.walking import Walk

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings(AS_IT_IS)]

PAGE = "http://127.0.0.1:8750"


@pytest.fixture(scope="module")
def running() -> Iterator[Provider]:
    with Provider().running() as provider:
        yield provider


@pytest.fixture
def provider(running: Provider) -> Iterator[Provider]:
    yield running
    running.alter, running.is_foreign = None, False


@dataclass
class Door:
    """A server with sign-in."""

    server: Server
    provider: Provider

    async def sign_in(self, person: str, **changes: str) -> httpx.Response:
        """Sign in as the page does."""
        offer = await self.server.desk.http.get("/v1/sign-in")
        assert offer.status_code == 200, offer.text
        code, kept = self.provider.authorize(offer.json()["address"], person)
        return await self.redeem({"code": code} | kept | changes)

    async def redeem(self, body: dict[str, str]) -> httpx.Response:
        """Give the provider's answer to the server."""
        return await self.server.desk.http.post("/v1/sign-in", json=body)

    async def get(self, path: str, secret: str) -> httpx.Response:
        """Read something with the key of a person."""
        headers = {"Authorization": f"Bearer {secret}"}
        return await self.server.desk.http.get(path, headers=headers)


@asynccontextmanager
async def open_door(provider: Provider, **changes: Any) -> AsyncIterator[Door]:
    clock = SteppedClock()
    clock.seconds = time.time()
    settings = provider.register(f"{PAGE}/") | changes
    async with open_server(clock=clock, **settings) as server:
        yield Door(server, provider)


@pytest.fixture
async def door(provider: Provider) -> AsyncIterator[Door]:
    async with open_door(provider) as opened:
        yield opened


async def test_a_group_gives_the_key_of_a_scope_and_the_log_names_the_person(door: Door) -> None:
    keys = {}
    for person, scope in (("olga", "operator"), ("ana", "analyst"), ("vi", "viewer")):
        answer = await door.sign_in(person)
        assert answer.status_code == 201, answer.text
        assert answer.headers["cache-control"] == "no-store"
        made = keys[person] = answer.json()
        told = (made["scope"], made["name"], made["subject"], made["study_id"])
        assert told == (scope, f"{person}@example.org", person, None)
        assert (await door.get("/v1/studies", made["key"])).status_code == 200
        is_operator = (await door.get("/v1/audit", made["key"])).status_code == 200
        assert is_operator == (scope == "operator")
    body = {"name": "guest", "scope": "viewer"}
    headers = {"Authorization": f"Bearer {keys['olga']['key']}"}
    await door.server.desk.http.post("/v1/keys", json=body, headers=headers)
    entries = (await door.get("/v1/audit", keys["olga"]["key"])).json()["items"]
    signed_in = {
        each["target"]: each["details"]["subject"] for each in entries if each["actor"] == "sign-in"
    }
    assert signed_in == {key["key_id"]: person for person, key in keys.items()}
    (created,) = (each for each in entries if each["details"]["name"] == "guest")
    assert (created["actor"], created["actor_name"]) == (keys["olga"]["key_id"], "olga@example.org")


async def test_a_person_of_no_group_is_told_the_groups_and_whom_to_ask(door: Door) -> None:
    answer = await door.sign_in("eve")
    assert_problem(answer, "no-group", 403, "groups")
    problem = answer.json()
    assert "ops, research, lab, guests for eve@example.org" in problem["rule"]
    assert "ask it@example.org" in problem["fix"]
    stored = await door.server.services.keys.list_all()
    assert {key.name for key in stored} == {"op", "ana"}


async def test_a_session_ends_by_time_by_its_person_and_by_an_operator(door: Door) -> None:
    first, second, third = [(await door.sign_in("ana")).json() for _ in range(3)]
    headers = {"Authorization": f"Bearer {first['key']}"}
    gone = await door.server.desk.http.delete("/v1/sign-in", headers=headers)
    assert gone.json()["revoked"] is not None
    await door.server.desk.operate("DELETE", f"/v1/keys/{second['key_id']}")
    for secret in (first["key"], second["key"]):
        answer = await door.get("/v1/studies", secret)
        assert_problem(answer, "access-denied", 401, "Authorization")
    door.server.clock.seconds += 8 * 3600 - 1
    assert (await door.get("/v1/studies", third["key"])).status_code == 200
    door.server.clock.seconds += 1
    answer = await door.get("/v1/studies", third["key"])
    assert_problem(answer, "access-denied", 401, "Authorization")
    problem = answer.json()
    assert problem["fix"] == "sign in again"
    # The list does not grow for ever.
    door.server.clock.seconds += 31 * 86400
    await door.server.services.keys.create(name="later", scope="viewer")
    async with door.server.store.begin() as transaction:
        found = await transaction.list_all(KeyRecord)
    assert {key.name for key in found} == {"op", "ana", "later"}


async def test_a_person_may_ask_as_often_as_one_key_whatever_their_sessions(
    provider: Provider,
) -> None:
    async with open_door(provider, key_rate=0.01, key_burst=2) as door:
        keys = [(await door.sign_in(person)).json()["key"] for person in ("ana", "ana", "vi")]
        statuses = [(await door.get("/v1/studies", key)).status_code for key in (*keys, *keys)]
    assert statuses == [200, 200, 200, 429, 429, 200]


async def test_a_code_counts_once_and_for_the_tab_that_asked_for_it(door: Door) -> None:
    offer = (await door.server.desk.http.get("/v1/sign-in")).json()["address"]
    code, kept = door.provider.authorize(offer, "ana")
    for other in ({"verifier": "v" * 43}, {"code": "guessed"}):
        if "code" in other:
            other["verifier"] = kept["verifier"]
        answer = await door.redeem({"code": code} | kept | other)
        assert_problem(answer, "access-denied", 401, "code")
        problem = answer.json()
        assert f"redirect URI at the provider: {PAGE}/" in problem["fix"]
    assert (await door.redeem({"code": code} | kept)).status_code == 201
    replayed = await door.redeem({"code": code} | kept)
    assert_problem(replayed, "access-denied", 401, "code")
    answer = await door.sign_in("ana", nonce="n" * 43)
    assert_problem(answer, "access-denied", 401, "nonce")


LIES: dict[str, tuple[Callable[[dict[str, Any]], dict[str, Any]], str]] = {
    "another audience": (lambda claims: claims | {"aud": ["other"]}, "oidc_client_id"),
    "for another party": (lambda claims: claims | {"azp": "other"}, "oidc_client_id"),
    "for nobody of several": (
        lambda claims: claims | {"aud": [*claims["aud"], "other"]},
        "oidc_issuer",
    ),
    "another issuer": (lambda claims: claims | {"iss": "http://127.0.0.1:1"}, "oidc_issuer"),
    "no audience": (lambda claims: {**claims, "aud": None}, "oidc_issuer"),
    "expired": (lambda claims: claims | {"exp": time.time() - 3600}, "clock"),
    "of tomorrow": (lambda claims: claims | {"iat": time.time() + 86400}, "clock"),
    "endless": (lambda claims: {k: v for k, v in claims.items() if k != "exp"}, "oidc_issuer"),
    "nobody's": (lambda claims: {k: v for k, v in claims.items() if k != "sub"}, "oidc_issuer"),
}


def _share(claims: dict[str, Any]) -> dict[str, Any]:
    """Name another audience, and the client that asked."""
    (client,) = claims["aud"]
    return claims | {"aud": [client, "other"], "azp": client}


async def test_a_token_with_a_wrong_claim_gives_no_key_and_names_the_setting(door: Door) -> None:
    with Walk() as walk:
        for lie, (alter, field) in LIES.items():
            with walk.cell(lie), capture_logs() as logs:
                door.provider.alter = alter
                answer = await door.sign_in("olga")
                assert_problem(answer, "sign-in-unavailable", 503, field)
                assert any(each["event"] == "sign-in failed" for each in logs)
    # Honest ones pass by the same key, also where they are for others too.
    for truth in (dict, _share):
        door.provider.alter = truth
        assert (await door.sign_in("olga")).status_code == 201
    door.provider.is_foreign = True
    answer = await door.sign_in("olga")
    assert_problem(answer, "sign-in-unavailable", 503, "oidc_issuer")
    problem = answer.json()
    assert "bad_signature" in problem["rule"]


async def test_groups_come_from_a_path_of_claims_or_from_the_userinfo(provider: Provider) -> None:
    provider.alter = lambda claims: claims | {"realm_access": {"roles": ["ops"]}}
    async with open_door(provider, oidc_groups_claim="realm_access.roles") as door:
        assert (await door.sign_in("eve")).json()["scope"] == "operator"
    provider.alter = lambda claims: {k: v for k, v in claims.items() if k != "groups"}
    async with open_door(provider) as door:
        assert (await door.sign_in("ana")).json()["scope"] == "analyst"
    async with open_door(provider, oidc_groups_claim="roles") as door:
        answer = await door.sign_in("ana")
        assert_problem(answer, "no-group", 403, "roles")
        problem = answer.json()
        assert "SFUMATO_OIDC_GROUPS_CLAIM" in problem["fix"]


async def test_an_address_of_mail_lets_in_only_if_the_provider_has_verified_it(
    provider: Provider,
) -> None:
    chosen = {"oidc_groups_claim": "email", "oidc_viewers": "eve@example.org"}
    async with open_door(provider, **chosen) as door:
        answer = await door.sign_in("eve")
        assert_problem(answer, "no-group", 403, "email")
        # Anybody may have an account at a public provider: the list is nobody else's business.
        provider.alter = lambda claims: claims | {"email_verified": True}
        for each in (answer, await door.sign_in("ana")):
            assert "eve@example.org" not in each.text.replace("for eve@example.org", "")
        assert (await door.sign_in("eve")).json()["scope"] == "viewer"


async def test_a_wrong_secret_and_a_wrong_redirect_uri_are_named(provider: Provider) -> None:
    async with open_door(provider, oidc_client_secret="wrong") as door:
        answer = await door.sign_in("ana")
        assert_problem(answer, "sign-in-unavailable", 503, "oidc_client_id, oidc_client_secret")
    settings = provider.register(f"{PAGE}/")
    async with open_server(**settings | {"page_url": "http://127.0.0.1:9"}) as server:
        address = (await server.desk.http.get("/v1/sign-in")).json()["address"]
        # Nobody is sent anywhere: the provider shows the error itself.
        assert "location" not in httpx.get(address).headers


async def test_a_provider_that_is_away_stops_nobody_with_a_key(provider: Provider) -> None:
    settings = provider.register(f"{PAGE}/") | {"oidc_issuer": "http://127.0.0.1:1"}
    async with open_server(**settings) as server:
        with capture_logs() as logs:
            assert await server.services.sign_in.check() == f"{PAGE}/"
        assert logs[0]["event"] == "nobody can sign in yet"
        answer = await server.desk.http.get("/v1/sign-in")
        assert_problem(answer, "sign-in-unavailable", 503, "oidc_issuer")
        assert await server.desk.read("/v1/studies")


async def test_a_provider_that_drips_holds_few_requests_and_each_for_seconds(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sfumato.aggregator.resources.keys.service.provider._ANSWER_S", 1.0)

    async def drip(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError), closing(writer):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4000\r\n\r\n")
            while not writer.is_closing():
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.05)

    async with await asyncio.start_server(drip, "127.0.0.1", 0) as dripping:
        issuer = f"http://127.0.0.1:{dripping.sockets[0].getsockname()[1]}"
        settings = provider.register(f"{PAGE}/") | {"oidc_issuer": issuer}
        async with open_server(**settings) as server, asyncio.timeout(20):
            http = server.desk.http
            answers = await asyncio.gather(*(http.get("/v1/sign-in") for _ in range(6)))
    assert sorted(each.status_code for each in answers) == [429, 429, 503, 503, 503, 503]


async def test_a_server_without_a_provider_offers_keys_alone(server: Server) -> None:
    assert await server.services.sign_in.check() is None
    assert await server.desk.read("/v1/sign-in") == {"address": None}
    body = {"code": "c", "verifier": "v" * 43, "nonce": "n" * 43}
    answer = await server.desk.http.post("/v1/sign-in", json=body)
    assert_problem(answer, "not-found", 404, "sign-in")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"oidc_client_id": ""}, "oidc_client_id"),
        ({"oidc_client_secret": None}, "oidc_client_secret"),
        ({"page_url": ""}, "page_url"),
        ({"page_url": "http://sketches.example.org"}, "page_url"),
        ({"oidc_issuer": "http://login.example.org"}, "oidc_issuer"),
        ({"oidc_issuer": "https://["}, "oidc_issuer"),
        ({"oidc_issuer": "https://login.example.org:port"}, "oidc_issuer"),
        ({"oidc_issuer": "https://login.example.org\n"}, "oidc_issuer"),
        ({"oidc_issuer": "https://l", "oidc_ca": "/there/is/none"}, "oidc_ca"),
        ({"oidc_issuer": ""}, "oidc_issuer"),
        (
            {"oidc_operators": "", "oidc_analysts": " ,", "oidc_viewers": ""},
            "oidc_operators, oidc_analysts, oidc_viewers",
        ),
    ],
)
async def test_a_server_with_a_wrong_setting_does_not_start(
    provider: Provider, changes: dict[str, Any], field: str
) -> None:
    async with open_server(**provider.register(f"{PAGE}/") | changes) as server:
        with pytest.raises(ConfigError) as caught:
            await server.services.sign_in.check()
    assert caught.value.field == field


async def test_another_issuer_than_the_provider_states_is_refused_at_the_start(
    provider: Provider,
) -> None:
    issuer = provider.issuer.replace("127.0.0.1", "localhost")
    for wrong in (f"{provider.issuer}/", f"{issuer}/realms/none"):
        async with open_server(**provider.register(f"{PAGE}/") | {"oidc_issuer": wrong}) as server:
            with pytest.raises(ConfigError) as caught:
                await server.services.sign_in.check()
            assert caught.value.field == "oidc_issuer"
