"""A real server limits request heads that are long, slow or endless."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from sfumato.aggregator.cli.connections import KEEP_ALIVE_S, MOST_HEAD_BYTES, BoundedProtocol
from tests.aggregator.cli.test_damage import serving
from tests.aggregator.processes import read_announcement, running, start

GET = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"


@pytest.fixture(scope="module")
def address() -> Iterator[tuple[str, int]]:
    with running() as url:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        yield parts.hostname, parts.port


@contextmanager
def connect(address: tuple[str, int]) -> Iterator[socket.socket]:
    with socket.create_connection(address, timeout=20) as connection:
        yield connection


def read_answer(connection: socket.socket) -> bytes:
    """Return one answer with a body of known length, or what came before the end."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(1 << 16)
        if not more:
            return data
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    while len(body) < int(fields[b"content-length"]):
        body += connection.recv(1 << 16)
    return head + b"\r\n\r\n" + body


def is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


@pytest.mark.parametrize("piece", [1 << 20, 1000], ids=["at once", "in pieces"])
@pytest.mark.parametrize(
    "head",
    [
        GET + b"X-Long: " + b"a" * 200_000 + b"\r\n\r\n",
        GET + b"X-Many: 1\r\n" * 20_000 + b"\r\n",
        b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n\r\n",
        GET + b"X-Endless: " + b"a" * 200_000,
    ],
    ids=["a long field", "many fields", "a long address", "no end"],
)
def test_a_head_that_is_too_long_is_refused(
    address: tuple[str, int], head: bytes, piece: int
) -> None:
    with connect(address) as connection:
        try:
            for start_at in range(0, len(head), piece):
                connection.sendall(head[start_at : start_at + piece])
        except ConnectionError:
            pass  # refused before it was all sent
        try:
            answer = read_answer(connection)
        except ConnectionError:
            return  # what was still on its way resets the connection
        assert answer.startswith(b"HTTP/1.1 431 ")
        assert b"headers: must have at most 32768 bytes together. Leave some out" in answer


def test_a_head_of_the_most_bytes_is_served_and_so_is_the_next(address: tuple[str, int]) -> None:
    with connect(address) as connection:
        for _ in range(3):
            field = b"X-Long: " + b"a" * (MOST_HEAD_BYTES - 100)
            connection.sendall(GET + field + b"\r\n\r\n")
            assert read_answer(connection).startswith(b"HTTP/1.1 200 ")


def test_many_requests_at_once_on_one_connection_are_all_served(address: tuple[str, int]) -> None:
    with connect(address) as connection:
        connection.sendall((GET + b"\r\n") * 2000)
        data = b""
        while data.count(b"HTTP/1.1 200 ") < 2000:
            data += connection.recv(1 << 16)
    assert data.count(b"HTTP/1.1 ") == 2000


def test_trailers_and_extensions_without_end_end_the_connection(address: tuple[str, int]) -> None:
    begin = (
        b"POST /v1/enrolments HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n"
    )
    for endless in (b"0\r\nX-Trailer: " + b"a" * (1 << 20), b"1;" + b"a" * (1 << 20)):
        with connect(address) as connection:
            try:
                connection.sendall(begin)
                for start_at in range(0, len(endless), 1 << 14):
                    connection.sendall(endless[start_at : start_at + (1 << 14)])
                assert is_closed(connection)
            except ConnectionError:
                continue
    assert httpx.get(f"http://{address[0]}:{address[1]}/healthz").status_code == 200


def test_a_long_body_is_not_taken_for_a_head(address: tuple[str, int]) -> None:
    url = f"http://{address[0]}:{address[1]}/v1/enrolments"
    body = b'{"token": "' + b"a" * 500_000 + b'"}'
    answer = httpx.post(url, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422


def test_an_idle_connection_outlives_those_of_clients(address: tuple[str, int]) -> None:
    """Or a request that is sent when the server closes it gets no answer: 1 in 100 at 5 s."""
    assert KEEP_ALIVE_S > 60
    with connect(address) as connection:
        connection.sendall(GET + b"\r\n")
        assert read_answer(connection).startswith(b"HTTP/1.1 200 ")
        time.sleep(5.5)
        connection.sendall(GET + b"\r\n")
        assert read_answer(connection).startswith(b"HTTP/1.1 200 ")


def test_a_head_that_does_not_come_ends_the_connection(tmp_path: Path) -> None:
    assert BoundedProtocol.head_timeout_s == 30
    program = (
        "import sys; from sfumato.aggregator.cli import connections;"
        "from sfumato.shared.command import main;"
        "connections.BoundedProtocol.head_timeout_s = 1.0;"
        "sys.exit(main(['serve', *sys.argv[1:]]))"
    )
    database = str(tmp_path / "aggregator.db")
    with start("--no-worker", "--database", database, program=program) as process:
        try:
            url = urlsplit(read_announcement(process)[0])
            for sent in (b"", GET, GET + b"\r\n" + GET):
                with connect((str(url.hostname), int(url.port or 0))) as connection:
                    connection.sendall(sent)
                    if sent.endswith(b"\r\n" + GET):
                        assert read_answer(connection).startswith(b"HTTP/1.1 200 ")
                    assert is_closed(connection)
        finally:
            process.terminate()
            process.communicate()


@pytest.mark.parametrize("study", ["ab" * 32, None], ids=["an upload", "another call"])
def test_a_body_that_breaks_off_is_no_failure_of_the_server(
    tmp_path: Path, study: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SFUMATO_METRICS_KEY", "k" * 16)
    path = f"/v1/studies/{study}/sketches/{'cd' * 32}" if study else "/v1/enrolments"
    method = "PUT" if study else "POST"
    log = tmp_path / "log"
    with serving(tmp_path / "sfumato.db", log) as url:
        parts = urlsplit(url)
        with connect((str(parts.hostname), int(parts.port or 0))) as connection:
            head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"
            connection.sendall(head.encode() + b"begun")
            time.sleep(0.2)
        while path not in log.read_text():
            time.sleep(0.05)
        metrics = httpx.get(f"{url}/metrics", headers={"Authorization": f"Bearer {'k' * 16}"}).text
    (line,) = (json.loads(line) for line in log.read_text().splitlines() if path in line)
    assert (line["level"], line["event"], line["status"]) == ("info", "request", 499)
    assert "exception" not in log.read_text()
    assert 'status="499"' in metrics
    assert 'status="500"' not in metrics
    assert f'sfumato_uploads_total{{outcome="broken-off"}} {float(bool(study))}' in metrics
    assert 'sfumato_uploads_total{outcome="failed"} 0.0' in metrics
