import httpx
import pytest

from tests.aggregator.fleet import Desk
from tests.aggregator.serving import Server

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("path", ["/healthz", "/problems", "/v1/studies", "/nowhere", "/docs"])
async def test_every_answer_has_security_headers(desk: Desk, path: str) -> None:
    headers = (await desk.http.get(path)).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "script-src" not in headers["content-security-policy"]
    assert headers["cache-control"] == "no-store"
    assert "server" not in headers


async def test_hsts_is_sent_under_tls_alone(server: Server) -> None:
    assert "strict-transport-security" not in (await server.desk.http.get("/healthz")).headers
    transport = httpx.ASGITransport(app=server.app)
    async with httpx.AsyncClient(transport=transport, base_url="https://aggregator") as http:
        for path in ("/healthz", "/v1/studies"):
            hsts = (await http.get(path)).headers["strict-transport-security"]
            assert int(hsts.removeprefix("max-age=")) >= 31_536_000
