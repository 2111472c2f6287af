import gc
import gzip
import json
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeGuard

import pytest

from sfumato.device_agent.server import http_connection
from sfumato.device_agent.server.messages import UploadOutcome
from sfumato.device_agent.server.transport import ServerClient
from sfumato.shared.errors import TransportError
from sfumato.shared.wire import DeviceAction

ANSWER = {
    "device_id": "00" * 32,
    "study_id": "00" * 32,
    "ordinal": 0,
    "streams": [],
    "generation": "a",
}
SKETCH = bytes(32)


@contextmanager
def answering(
    send: Callable[[socket.socket], None], *, scheme: str = "http"
) -> Iterator[ServerClient]:
    """Answer every request by what a function writes, and close the connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection, suppress(OSError):
                        connection.recv(1 << 16)
                        send(connection)

        threading.Thread(target=serve, daemon=True).start()
        url = f"{scheme}://127.0.0.1:{listener.getsockname()[1]}"
        with ServerClient(url, device=bytes(32), sign=lambda _: bytes(64)) as client:
            yield client
        listener.shutdown(socket.SHUT_RDWR)


def reply(body: bytes, *headers: str, status: int = 200) -> Callable[[socket.socket], None]:
    head = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", "Connection: close", *headers]
    raw = "\r\n".join([*head, "", ""]).encode("latin-1")
    return lambda connection: connection.sendall(raw + body)


def stream_for_ever(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
    while True:
        connection.sendall(bytes(1 << 20))


def put(client: ServerClient) -> UploadOutcome:
    return client.put_sketch(study=SKETCH, sketch_id=SKETCH, message=b"m")


def test_an_answer_without_an_end_is_none() -> None:
    with answering(stream_for_ever) as client:
        outcome = put(client)
        assert (outcome.action, outcome.answered) == (DeviceAction.RETRY, False)
        with pytest.raises(TransportError, match="its answer has no end"):
            client.fetch_device()


def drip_a_header(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
    while True:
        connection.sendall(b"x")
        time.sleep(0.02)


def drip_a_body(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
    while True:
        connection.sendall(b" ")
        time.sleep(0.02)


def promise_an_answer(connection: socket.socket) -> None:
    while True:
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        time.sleep(0.02)


def say_nothing(connection: socket.socket) -> None:
    connection.recv(1 << 16)


@pytest.mark.parametrize("send", [drip_a_header, drip_a_body, promise_an_answer, say_nothing])
def test_an_answer_that_drips_is_cut_off(
    send: Callable[[socket.socket], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each of them would go on for ever.
    monkeypatch.setattr(http_connection, "_WHOLE_S", 0.2)
    with answering(send) as client:
        assert not put(client).answered
        with pytest.raises(TransportError, match="its answer has no end"):
            client.fetch_device()


def test_a_greeting_of_tls_that_drips_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connection, "_WHOLE_S", 0.2)

    def greet(connection: socket.socket) -> None:
        connection.sendall(b"\x16\x03\x03\x3f\xff")
        while True:
            connection.sendall(b"\x02")
            time.sleep(0.02)

    with answering(greet, scheme="https") as client:
        assert not put(client).answered


@pytest.fixture
def no_collection() -> Iterator[None]:
    """Collect nothing meanwhile: at the end of the stack a finalizer of another test would fail."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collection")
@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b"\xff",
        b"[]",
        json.dumps({**ANSWER, "server_time": 10**400}).encode(),
        json.dumps({**ANSWER, "server_time": float("nan")}).encode(),
        json.dumps({**ANSWER, "streams": 1, "server_time": 1}).encode(),
    ],
)
def test_whatever_answers_in_the_servers_place_is_told_and_asked_again(body: bytes) -> None:
    for status in (200, 400):
        with answering(reply(body, "Content-Type: application/problem+json", status=status)) as c:
            assert put(c).action is DeviceAction.RETRY
            with pytest.raises(TransportError):
                c.fetch_device()


def _is_range(part: object) -> TypeGuard[dict[str, int]]:
    return isinstance(part, dict) and len(part) == 2


def say_missing(*missing: object) -> bytes:
    n_missing = sum(part["last"] - part["first"] + 1 for part in missing if _is_range(part))
    gaps = {"missing": missing, "n_missing": n_missing}
    stream = {"stream": "meter", "last_sequence": 9, "last_slot": None, **gaps}
    return json.dumps({**ANSWER, "server_time": 7, "streams": [stream]}).encode()


def test_what_the_server_lacks_is_read() -> None:
    body = say_missing({"first": 0, "last": 2}, {"first": 4, "last": 4})
    with answering(reply(body)) as client:
        assert client.fetch_device().missing == {"meter": ((0, 2), (4, 4))}
    with answering(reply(say_missing())) as client:
        assert client.fetch_device().missing == {}


@pytest.mark.parametrize(
    "missing",
    [
        [1],
        [{"first": 0}],
        [{"first": -1, "last": 2}],
        [{"first": 3, "last": 2}],
        [{"first": 3, "last": 9}],
        [{"first": 3, "last": 5}, {"first": 5, "last": 6}],
        [{"first": 5, "last": 6}, {"first": 0, "last": 1}],
    ],
)
def test_a_server_can_lack_only_what_is_below_the_last(missing: list[object]) -> None:
    with answering(reply(say_missing(*missing))) as client, pytest.raises(TransportError):
        client.fetch_device()


def test_a_compressed_answer_is_not_read_because_it_may_fill_the_memory() -> None:
    body = gzip.compress(bytes(1 << 24))
    assert len(body) < 1 << 16
    with answering(reply(body, "Content-Encoding: gzip")) as client:
        assert not put(client).answered
        with pytest.raises(TransportError, match="is compressed"):
            client.fetch_device()


@pytest.mark.parametrize(
    ("status", "headers", "body"),
    [
        (204, (), b""),
        (200, ("Content-Type: text/html",), b"<html>Please sign in</html>"),
        (302, ("Location: http://portal.example/", "Content-Type: text/html"), b"<html>"),
        (302, ("Location: \xff\xfe[",), b""),
        (403, ("Content-Type: text/html",), b"<html>"),
        (401, ("Content-Type: application/problem+json",), b'{"type": "about:blank"}'),
        (404, ("Content-Type: application/json",), b'{"type": "/problems/not-found"}'),
        (511, ("X: \xb2\xe9", "Set-Cookie: \xff=\xfe; expires=x"), b""),
        (418, ("Content-Type: application/problem+json",), b'[{"type": 1}]'),
    ],
)
def test_a_portal_on_the_way_sets_no_sketch_aside(
    status: int, headers: tuple[str, ...], body: bytes
) -> None:
    with answering(reply(body, *headers, status=status)) as client:
        assert put(client).action is DeviceAction.RETRY
        with pytest.raises(TransportError):
            client.fetch_device()
        with pytest.raises(TransportError):
            client.fetch_study(SKETCH, "")


@pytest.mark.parametrize(
    "change",
    [
        {"device_id": "11" * 32},
        {"generation": "a" * 10_000},
        {"generation": "\x1b[2J\u202e"},
        {"streams": [{"stream": "meter", "last_sequence": -1}]},
        {"streams": [{"stream": "meter", "last_sequence": True}]},
        {"streams": [{"stream": "meter", "last_sequence": 10**30}]},
        {"streams": [{"stream": "\x1b[2Jmeter", "last_sequence": 1}]},
        {"streams": [{"stream": "m" * 10_000, "last_sequence": 1}]},
        {"streams": [{"stream": "meter", "last_sequence": 9, "missing": [], "n_missing": 1}]},
    ],
)
def test_what_no_aggregator_says_of_a_device_is_not_kept(change: dict[str, object]) -> None:
    document = {**ANSWER, "server_time": 7}
    gaps: dict[str, object] = {"last_slot": None, "missing": [], "n_missing": 0}
    if "streams" in change:
        change = {"streams": [gaps | stream for stream in change["streams"]]}  # type: ignore[attr-defined]
    with (
        answering(reply(json.dumps(document | change).encode())) as client,
        pytest.raises(TransportError),
    ):
        client.fetch_device()


def test_whatever_bytes_come_back_none_is_a_defect() -> None:
    draw = random.Random(5)
    whole = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: text/html\r\n\r\n{}"
    answers = []
    for _ in range(300):
        mutant = bytearray(whole)
        for _ in range(draw.randint(1, 6)):
            mutant[draw.randrange(len(mutant))] = draw.randrange(256)
        answers.append(bytes(mutant[: draw.randint(1, len(mutant))]))

    with answering(lambda connection: connection.sendall(answers[-1])) as client:
        while answers:
            assert put(client).action is DeviceAction.RETRY, answers[-1]
            answers.pop()


@pytest.mark.parametrize(
    "value",
    [
        "9" * 400,
        "1000000000000",
        "-5",
        "1e9",
        "\xb2",
        "Mon, 01 Jan 0001 00:00:00 GMT",
        "Mon, 01 Jan 0001 00:00:00 -0000",
        "x",
    ],
)
def test_no_retry_after_is_a_defect(value: str) -> None:
    with answering(reply(b"", f"Retry-After: {value}", f"Date: {value}", status=429)) as client:
        assert put(client).action is DeviceAction.RETRY
        with pytest.raises(TransportError):
            client.fetch_device()
