import html
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from sfumato.aggregator.app import create_app
from sfumato.aggregator.base.engine import create_engine
from sfumato.aggregator.base.store import Store
from sfumato.aggregator.settings import Settings
from sfumato.shared.wire import problem_types
from tests.aggregator.fleet import SKETCH, Desk, assert_problem
from tests.aggregator.serving import Server

pytestmark = pytest.mark.anyio


async def stream(size: int) -> AsyncIterator[bytes]:
    """Send a body without saying how long it is."""
    for _ in range(0, size, 4096):
        yield bytes(4096)


async def test_a_huge_body_is_refused_before_the_key_is_looked_at(server: Server) -> None:
    body = b" " * (server.settings.max_body_bytes + 1)
    answer = await server.desk.http.post("/v1/studies", content=body)
    assert_problem(answer, "too-large", 413, "body")
    assert answer.headers["connection"] == "close"


async def test_a_huge_body_of_unknown_length_is_refused_too(server: Server) -> None:
    for method, url in (
        ("POST", "/v1/enrolments"),
        ("PUT", f"/v1/studies/{'ab' * 32}/sketches/{'cd' * 32}"),
        ("POST", "/nowhere"),
    ):
        body = stream(server.settings.max_body_bytes + 4096)
        answer = await server.desk.http.request(method, url, content=body)
        assert_problem(answer, "too-large", 413, "body")


async def test_a_body_at_the_limit_is_read(server: Server) -> None:
    body = b" " * (server.settings.max_body_bytes - 2) + b"{}"
    headers = {"Content-Type": "application/json"}
    answer = await server.desk.http.post("/v1/enrolments", content=body, headers=headers)
    assert_problem(answer, "request-invalid", 422, "study_id")


async def test_an_unknown_address_or_method_is_a_problem_too(desk: Desk) -> None:
    assert_problem(await desk.http.get("/v2"), "not-found", 404, "path")
    answer = await desk.http.delete("/v1/studies")
    assert_problem(answer, "method-not-allowed", 405, "method")
    assert answer.headers["allow"] == "GET, POST"


async def test_a_slash_too_many_is_unknown_and_redirects_nowhere(desk: Desk) -> None:
    assert_problem(await desk.http.get("/v1/studies/"), "not-found", 404, "path")


async def test_head_is_answered_as_get_without_the_body(desk: Desk) -> None:
    for path in ("/problems", "/openapi.json", "/v1/studies", "/healthz", "/v2"):
        full, head = await desk.http.get(path), await desk.http.head(path)
        assert head.content == b""
        assert full.content != b""
        assert head.status_code == full.status_code
        assert head.headers["content-length"] == full.headers["content-length"]
        assert head.headers["content-type"] == full.headers["content-type"]


async def test_every_problem_type_has_a_page(desk: Desk) -> None:
    index = await desk.http.get("/problems")
    for problem in problem_types():
        assert problem.uri in index.text
        page = await desk.http.get(problem.uri)
        assert page.headers["content-type"].startswith("text/html")
        assert problem.title in html.unescape(page.text)
        assert str(problem.status) in page.text
    assert_problem(await desk.http.get("/problems/none"), "not-found", 404, "slug")


async def test_a_server_with_its_database_is_alive_and_ready(desk: Desk) -> None:
    for path, body in (
        ("/healthz", {"status": "ok"}),
        ("/readyz", {"status": "ok", "n_workers": 0}),
    ):
        answer = await desk.http.get(path)
        assert (answer.status_code, answer.json()) == (200, body)


async def test_a_server_without_its_tables_is_alive_and_not_ready(tmp_path: Path) -> None:
    path = tmp_path / "empty.db"
    app = create_app(Settings(database_url=str(path), n_workers=0))
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://aggregator") as http:
        assert (await http.get("/healthz")).status_code == 200
        answer = await http.get("/readyz")
        assert_problem(answer, "unavailable", 503, "database")
        assert "is missing" in answer.json()["rule"]
        assert str(tmp_path) not in answer.text, "who asks need not know where it would be"
        path.touch()
        answer = await http.get("/readyz")
        assert_problem(answer, "unavailable", 503, "database")
        assert "sfumato migrate" in answer.json()["fix"]
    await app.state.services.store.close()


async def test_a_database_that_is_away_is_a_reason_to_come_again() -> None:
    app = create_app(Settings(database_url="postgresql://127.0.0.1:1/none", n_workers=0))
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://aggregator") as http:
        for method, path in (
            ("GET", "/readyz"),
            ("GET", f"/v1/studies/{'ab' * 32}/plan"),
            ("PUT", f"/v1/studies/{'ab' * 32}/sketches/{'cd' * 32}"),
        ):
            answer = await http.request(method, path, content=b"x", headers=SKETCH)
            assert_problem(answer, "unavailable", 503)
            assert int(answer.headers["retry-after"]) > 0
    await app.state.services.store.close()


class BrokenStore(Store):
    """A store with a defect."""

    def begin(self, *, write: bool = False) -> Any:
        raise RuntimeError("secret detail")


async def test_an_unforeseen_error_is_logged_and_answered_without_details(tmp_path: Path) -> None:
    settings = Settings(database_url=str(tmp_path / "none.db"), n_workers=0)
    app = create_app(settings, store=BrokenStore(create_engine(settings.database_url)))
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://aggregator") as http:
        with capture_logs() as logs:
            answer = await http.get(f"/v1/studies/{'ab' * 32}/plan")
    assert_problem(answer, "internal", 500)
    assert "secret" not in answer.text
    assert [entry["event"] for entry in logs if entry["log_level"] == "error"] == [
        "unforeseen error"
    ]


async def test_the_access_log_names_the_request_and_no_secret(desk: Desk) -> None:
    with capture_logs() as logs:
        await desk.operate("GET", "/v1/studies?limit=3")
    (entry,) = (entry for entry in logs if entry["event"] == "request")
    assert (entry["method"], entry["path"], entry["status"]) == ("GET", "/v1/studies", 200)
    assert desk.operator_key not in str(logs)
