"""Which proxy a client uses, and what is said of one that cannot be used or refuses."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import httpx
import pytest

from sfumato.shared.errors import ConfigError
from sfumato.shared.http_client import find_proxy, open_async_client, open_client

ROOT = Path(__file__).parents[2]
PROXY = "http://proxy.example:8080"
SERVER = "http://server.invalid"


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for scheme in ("http", "https", "all", "no"):
        monkeypatch.delenv(f"{scheme}_proxy", raising=False)
        monkeypatch.delenv(f"{scheme}_proxy".upper(), raising=False)


@pytest.fixture
def refusing() -> Iterator[str]:
    """Run a proxy that asks every request for a password."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(407)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_CONNECT = do_GET  # noqa: N815 - the method of HTTP

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{http.server_address[1]}"
        http.shutdown()


@pytest.mark.parametrize(
    ("url", "no_proxy", "is_used"),
    [
        ("http://server.example", "", True),
        ("http://127.0.0.1:8750", "", False),
        ("http://127.8.9.10", "", False),
        ("http://localhost:8750", "", False),
        ("http://[::1]:8750", "", False),
        ("http://server.example", "localhost,127.0.0.1,[::1]", True),
        ("http://server.example", "[::1], SERVER.example", False),
        ("http://a.server.example", "server.example", False),
        ("http://a.server.example", "*.server.example", False),
        ("http://aserver.example", ".server.example", True),
        ("http://server.example:8750", "server.example:8750", False),
        ("http://server.example", "server.example:8750", True),
        ("http://server.example", "other.example,*", False),
        ("http://[fd00::7]", "fd00::/8", False),
        ("http://[fd00::7]", "[fd00::7]", False),
        ("http://[fe80::7]", "fd00::/8", True),
        ("http://10.1.2.3", "10.0.0.0/8", False),
        ("http://10.1.2.3", "10.1.2.0/33,x/y", True),
    ],
)
def test_a_proxy_is_used_except_for_this_machine_and_what_no_proxy_names(
    monkeypatch: pytest.MonkeyPatch, url: str, no_proxy: str, is_used: bool
) -> None:
    monkeypatch.setenv("HTTP_PROXY", PROXY)
    monkeypatch.setenv("NO_PROXY", no_proxy)
    found = find_proxy(url)
    assert (found is not None) == is_used
    if found is not None:
        assert (found[0], str(found[1].url)) == ("HTTP_PROXY", PROXY)


@pytest.mark.parametrize(
    ("variable", "url"),
    [("https_proxy", "https://a"), ("ALL_PROXY", "http://a"), ("all_proxy", "https://a")],
)
def test_each_scheme_has_its_variable_and_one_is_for_all(
    monkeypatch: pytest.MonkeyPatch, variable: str, url: str
) -> None:
    monkeypatch.setenv(variable, PROXY.removeprefix("http://"))
    found = find_proxy(url)
    assert found is not None
    assert (found[0], str(found[1].url)) == (variable, PROXY)


@pytest.mark.parametrize(
    "value", ["ftp://me:secret@proxy", "http://", "http://[::secret", "http://proxy:secret"]
)
def test_a_proxy_that_is_none_is_refused_by_the_name_of_its_variable(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("HTTP_PROXY", value)
    with pytest.raises(ConfigError, match="must be the address of a proxy") as caught:
        open_client("http://server.example")
    assert caught.value.field == "HTTP_PROXY"
    assert "secret" not in str(caught.value)
    open_client("http://127.0.0.1").close()


def test_a_socks_proxy_needs_its_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1080")
    with pytest.raises(ConfigError, match=r"^ALL_PROXY: .*pip install socksio"):
        open_async_client("https://server.example")


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_an_answer_407_is_the_proxys(
    monkeypatch: pytest.MonkeyPatch, refusing: str, scheme: str
) -> None:
    monkeypatch.setenv("all_proxy", refusing)
    url = SERVER.replace("http", scheme)
    said = "the proxy that all_proxy names answered: 407 Proxy Authentication Required"
    with open_client(url) as client, pytest.raises(httpx.ProxyError, match=said):
        client.get("/")

    async def ask() -> None:
        async with open_async_client(url) as http:
            await http.get("/")

    with pytest.raises(httpx.ProxyError, match=said):
        asyncio.run(ask())


def test_every_client_of_the_product_is_opened_in_one_place() -> None:
    opening = re.compile(r"httpx\.(Client|AsyncClient|get|put|post|patch|delete|request|stream)\(")
    rooms = (
        "shared",
        "device_agent",
        "aggregator",
        "analyst",
        "helper",
        "simulator",
        "lab",
        "deploy",
    )
    found = {
        path.relative_to(ROOT).as_posix()
        for room in rooms
        for path in (ROOT / room).rglob("*.py")
        if opening.search(path.read_text("utf-8"))
    }
    assert found == {"shared/http_client.py"}
