import gzip
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from device_agent import transport
from device_agent.messages import UploadOutcome
from device_agent.transport import ServerClient
from shared.errors import TransportError
from shared.wire import DeviceAction

ANSWER = {"device_id": "00", "study_id": "00", "streams": [], "generation": "a"}
SKETCH = bytes(32)


@contextmanager
def answering(send: Callable[[socket.socket], None]) -> Iterator[ServerClient]:
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
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with ServerClient(url, device=bytes(32), sign=lambda _: bytes(64)) as client:
            yield client
        listener.shutdown(socket.SHUT_RDWR)


def reply(body: bytes, *headers: str, status: int = 200) -> Callable[[socket.socket], None]:
    head = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return lambda connection: connection.sendall("\r\n".join([*head, "", ""]).encode() + body)


def stream_for_ever(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
    while True:
        connection.sendall(bytes(1 << 20))


def put(client: ServerClient) -> UploadOutcome:
    return client.put_sketch(study=SKETCH, sketch_id=SKETCH, message=b"m")


def test_an_answer_without_an_end_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(stream_for_ever) as client:
        outcome = put(client)
        assert (outcome.action, outcome.answered) == (DeviceAction.RETRY, False)
        with pytest.raises(TransportError, match="its answer has no end"):
            client.ask_device()
    # As long as it may be, and slower than it may be.
    monkeypatch.setattr(transport, "_WHOLE_S", -1.0)
    with answering(reply(b"{}")) as client:
        assert not put(client).answered


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
                c.ask_device()


def test_a_compressed_answer_is_read() -> None:
    body = gzip.compress(json.dumps({**ANSWER, "server_time": 7}).encode())
    with answering(reply(body, "Content-Encoding: gzip")) as client:
        assert client.ask_device().server_time == 7
    with answering(reply(b"no gzip", "Content-Encoding: gzip")) as client:
        assert not put(client).answered


@pytest.mark.parametrize(
    "value", ["9" * 400, "Mon, 01 Jan 0001 00:00:00 GMT", "Mon, 01 Jan 0001 00:00:00 -0000", "x"]
)
def test_no_retry_after_is_a_defect(value: str) -> None:
    with answering(reply(b"", f"Retry-After: {value}", f"Date: {value}", status=429)) as client:
        assert put(client).action is DeviceAction.RETRY
        with pytest.raises(TransportError):
            client.ask_device()
