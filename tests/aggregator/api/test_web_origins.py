import pytest

from sfumato.aggregator.cli.settings import read_settings
from sfumato.shared.errors import ConfigError
from tests.aggregator.serving import open_server

pytestmark = pytest.mark.anyio

ORIGIN = "https://app.example"
STUDY = "ab" * 32
CALLS = {
    "/v1/enrolments": "POST",
    "/v1/identity": "GET",
    "/v1/devices/me": "GET",
    "/v1/devices/me/heartbeat": "PUT",
    "/v1/devices/me/keys": "POST",
    f"/v1/studies/{STUDY}": "GET",
    f"/v1/studies/{STUDY}/plan": "GET",
    f"/v1/studies/{STUDY}/published": "GET",
    f"/v1/studies/{STUDY}/sketches/{STUDY}": "PUT",
}
OTHERS = ("/v1/studies", "/v1/keys", f"/v1/studies/{STUDY}/decodes", f"/v1/studies/{STUDY}/tokens")


def ask(method: str, *headers: str) -> dict[str, str]:
    """Return the headers by which a browser asks before a call."""
    asked = {"Origin": ORIGIN, "Access-Control-Request-Method": method}
    return asked | {"Access-Control-Request-Headers": ", ".join(headers)}


async def test_pages_of_an_allowed_origin_may_make_the_calls_of_devices_alone() -> None:
    async with open_server(web_origins=f"https://other.example, {ORIGIN}") as server:
        http = server.desk.http
        signed = "content-type", "content-digest", "signature", "signature-input"
        for path, method in CALLS.items():
            asked = await http.options(path, headers=ask(method, *signed))
            assert asked.status_code == 200, path
            assert asked.headers["access-control-allow-origin"] == ORIGIN
            assert "access-control-allow-credentials" not in asked.headers
            answer = await http.request(method, path, headers={"Origin": ORIGIN})
            # Refusals can be read too, or a device could not act on them.
            assert answer.headers["access-control-allow-origin"] == ORIGIN
            assert answer.headers["access-control-expose-headers"] == "Date, Retry-After"
        for path in OTHERS:
            asked = await http.options(path, headers=ask("GET", "authorization"))
            assert "access-control-allow-origin" not in asked.headers
        refused = await http.options("/v1/enrolments", headers=ask("POST", "authorization"))
        assert refused.status_code == 400


async def test_other_pages_may_make_none() -> None:
    for origins in ("", "https://other.example"):
        async with open_server(web_origins=origins) as server:
            for path, method in CALLS.items():
                asked = await server.desk.http.options(path, headers=ask(method))
                assert "access-control-allow-origin" not in asked.headers


def test_an_origin_that_is_none_is_refused_by_name() -> None:
    for text in ("app.example", "https://app.example/", "https://app.example/path", "null"):
        with pytest.raises(ConfigError, match=r"web_origins.*must be origins such as"):
            read_settings(web_origins=text)
    assert read_settings(web_origins="https://a.example:8443,http://127.0.0.1:1, *").web_origins
