from collections.abc import Callable
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import httpx
import pytest

from sfumato.analyst.client import AsyncClient, Client
from sfumato.analyst.client.connection import Connection
from sfumato.analyst.client.methods import run
from sfumato.shared.command import main
from sfumato.shared.errors import (
    ConfigError,
    InProgressError,
    OverloadedError,
    StoreError,
    TransportError,
)
from sfumato.shared.http_client import PLAIN_FIX, PROXY_FIX
from sfumato.shared.wire import problem_document

BUSY = problem_document(OverloadedError("holds too many requests", field="server"))
BEING_ANSWERED = problem_document(InProgressError("is that of a request that is being answered"))
AWAY = problem_document(TransportError("the database does not answer"))


class Clock:
    """A clock that moves when somebody sleeps."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds


def connect(
    answer: Callable[[int], httpx.Response],
    patience_s: float = 60.0,
    handle: Callable[[httpx.Request], httpx.Response] | None = None,
) -> tuple[Connection, Clock, list[str]]:
    """Connect to a server that answers the n-th request so; and what it was asked."""
    asked: list[str] = []

    def note(request: httpx.Request) -> httpx.Response:
        asked.append(f"{request.method} {request.url.path} {request.content.decode()}")
        return answer(len(asked))

    clock = Clock()
    connection = Connection(
        "http://server",
        blocks=True,
        patience_s=patience_s,
        sleep=clock.sleep,
        monotonic=clock.now,
        transport=httpx.MockTransport(handle or note),
    )
    return connection, clock, asked


@pytest.mark.parametrize(("status", "document"), [(429, BUSY), (503, AWAY)])
def test_what_a_busy_server_puts_off_is_sent_again_when_it_says(
    status: int, document: dict[str, object]
) -> None:
    def answer(n: int) -> httpx.Response:
        if n < 3:
            return httpx.Response(status, json=document, headers={"Retry-After": "7"})
        return httpx.Response(200, json={"n": n})

    connection, clock, asked = connect(answer)
    assert run(connection.call("POST", "/v1/studies", {"name": "pumps"})) == {"n": 3}
    assert asked == ['POST /v1/studies {"name":"pumps"}'] * 3
    assert 14.0 <= clock.seconds <= 14.0 * 1.1
    run(connection.aclose())


def test_patience_ends_and_the_last_answer_is_raised() -> None:
    def answer(_n: int) -> httpx.Response:
        return httpx.Response(429, json=BUSY, headers={"Retry-After": "20"})

    connection, clock, asked = connect(answer, patience_s=50.0)
    with pytest.raises(OverloadedError, match="holds too many requests"):
        run(connection.call("GET", "/v1/studies"))
    assert len(asked) == 3
    assert clock.seconds <= 50.0
    run(connection.aclose())


def test_a_date_and_no_word_at_all_say_when_too() -> None:
    def answer(n: int) -> httpx.Response:
        headers = [{"Retry-After": formatdate(0, usegmt=True)}, {"Retry-After": "soon"}, {}]
        return httpx.Response(503, headers=headers[n - 1]) if n < 4 else httpx.Response(204)

    connection, clock, asked = connect(answer)
    assert run(connection.call("DELETE", "/v1/decodes/1")) == {}
    assert len(asked) == 4
    assert 2.0 <= clock.seconds <= 2.2
    run(connection.aclose())


@pytest.mark.parametrize("status", [400, 404, 408, 500, 502])
def test_other_refusals_are_raised_at_once(status: int) -> None:
    connection, clock, asked = connect(lambda _n: httpx.Response(status, text="no"))
    with pytest.raises(TransportError):
        run(connection.call("GET", "/v1/studies"))
    assert (len(asked), clock.seconds) == (1, 0.0)
    run(connection.aclose())


def test_a_wrong_proxy_is_refused_by_the_name_of_its_variable(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "ftp://proxy")
    for client in (Client, AsyncClient):
        with pytest.raises(ConfigError, match=r"^HTTP_PROXY: must be the address of a proxy"):
            client("http://server.invalid")
    monkeypatch.setenv("SFUMATO_KEY", f"sfk_{'ab' * 8}_{43 * 'x'}")
    assert main(["study", "list", "--url", "http://server.invalid"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "HTTP_PROXY: must be the address of a proxy" in said


def test_a_proxy_that_asks_for_a_password_is_not_taken_for_the_server() -> None:
    def answer(_n: int) -> httpx.Response:
        raise httpx.ProxyError("the proxy that HTTP_PROXY names answered: 407")

    connection, _, _ = connect(answer)
    with pytest.raises(TransportError, match="not reached: the proxy that HTTP_PROXY names") as hit:
        run(connection.call("GET", "/v1/studies"))
    assert hit.value.fix == PROXY_FIX
    run(connection.aclose())


@pytest.mark.anyio
async def test_a_server_that_speaks_http_where_https_was_written_is_named_so() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        url = f"https://127.0.0.1:{server.server_address[1]}"
        for blocks in (False, True):
            connection = Connection(url, blocks=blocks)
            with pytest.raises(TransportError, match="speaks http, not https") as hit:
                await connection.call("GET", "/v1/studies")
            assert hit.value.fix == PLAIN_FIX
            await connection.aclose()
        server.shutdown()


def test_a_request_with_an_idempotency_key_is_sent_again_when_its_answer_is_lost() -> None:
    keys: list[str] = []

    def handle(request: httpx.Request) -> httpx.Response:
        keys.append(request.headers["Idempotency-Key"])
        if len(keys) == 1:
            raise httpx.RemoteProtocolError("Server disconnected without sending a response.")
        if len(keys) == 2:
            raise httpx.ConnectError("it starts again")
        if len(keys) == 3:
            return httpx.Response(409, json=BEING_ANSWERED, headers={"Retry-After": "2"})
        return httpx.Response(201, json={"n": len(keys)})

    connection, clock, _ = connect(lambda _: httpx.Response(200), handle=handle)
    assert run(connection.call("POST", "/v1/studies", {}, makes=True)) == {"n": 4}
    assert len(set(keys)) == 1
    assert 4.0 <= clock.seconds <= 4.2
    assert run(connection.call("POST", "/v1/studies", {}, makes=True)) == {"n": 5}
    assert len(set(keys)) == 2
    run(connection.aclose())


@pytest.mark.parametrize(
    ("makes", "error"),
    [
        (False, httpx.ReadError("reset")),
        (True, httpx.ConnectError("refused")),
        (True, httpx.ReadTimeout("slow")),
    ],
)
def test_another_request_is_not_sent_again(makes: bool, error: httpx.RequestError) -> None:
    def answer(_n: int) -> httpx.Response:
        raise error

    connection, _, asked = connect(answer)
    with pytest.raises(TransportError, match="does not answer"):
        run(connection.call("POST", "/v1/studies", {}, makes=makes))
    assert len(asked) == 1
    run(connection.aclose())


def test_a_server_that_always_breaks_off_is_given_up_after_patience() -> None:
    def answer(_n: int) -> httpx.Response:
        raise httpx.ReadError("reset")

    connection, clock, _ = connect(answer, patience_s=5.0)
    with pytest.raises(TransportError, match="does not answer"):
        run(connection.call("POST", "/v1/studies", {}, makes=True))
    assert clock.seconds <= 5.0
    run(connection.aclose())


def test_a_conflict_is_final_unless_the_server_says_when_to_ask_again() -> None:
    connection, clock, asked = connect(lambda _: httpx.Response(409, json=BEING_ANSWERED))
    with pytest.raises(StoreError):
        run(connection.call("POST", "/v1/studies", {}, makes=True))
    assert (len(asked), clock.seconds) == (1, 0.0)
    run(connection.aclose())
